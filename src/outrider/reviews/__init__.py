"""Screening of reviews: projects, their append-only log, the ranker, and the formats of other screening tools."""
