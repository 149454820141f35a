"""Rerankers, local and served: models that read query and text together."""
