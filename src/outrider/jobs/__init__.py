"""Background jobs: their table, which any process reads and writes, and the worker, which runs them over DBOS."""
