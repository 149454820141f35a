"""Background jobs: their table, and the worker that runs them over DBOS."""
