"""Enrichment: missing abstracts, pages and repository details."""
