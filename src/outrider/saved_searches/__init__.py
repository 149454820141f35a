"""Saved searches: when they run, what each run found, and how two runs differ."""
