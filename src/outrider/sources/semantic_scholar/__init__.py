"""Semantic Scholar: search requests and the parser of its answers."""
