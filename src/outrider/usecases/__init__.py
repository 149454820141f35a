"""Use cases that the interfaces call: search, threads, analyze, systematic and others."""
