"""Measuring: `python -m bench [quality|latency|ingestion|startup ...]`. Figures, not pass or fail; tests hold what must be reached."""
