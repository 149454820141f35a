"""Rerankers: models that read a query and a text together, here or behind an endpoint, and which of them to use."""
