"""Event loops, threads, worker processes and tracing."""
