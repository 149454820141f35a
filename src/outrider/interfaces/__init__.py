"""The doors: Python functions, the command line, HTTP. All of them return the same `SearchResponse`."""
