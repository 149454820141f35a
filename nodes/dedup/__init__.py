"""Deduplication: candidates that are the same work become one candidate."""
