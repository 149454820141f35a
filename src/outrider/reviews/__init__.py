"""Screening of reviews: their append-only log, the ranker, and formats of other tools."""
