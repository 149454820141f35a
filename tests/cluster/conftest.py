"""One cluster for all tests of this folder."""

from support.ray_cluster import ray_cluster

__all__ = ("ray_cluster",)
