"""Deduplication: one candidate for each work."""
