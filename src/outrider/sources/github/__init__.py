"""GitHub: search, repository details and the parsers of its answers."""
