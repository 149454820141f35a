"""Places to search: the HTTP client, the web, and one adapter for each service."""
