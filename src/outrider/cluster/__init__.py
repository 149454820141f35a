"""Batch work on a Ray cluster: a session, tasks, an embedder, and the commands over them."""
