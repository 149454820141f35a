"""Batch work on a Ray cluster: session, tasks, embedder, files."""
