"""Rerankers: models that read query and text together, local or served, and the choice of one."""
