"""OpenAlex: search requests and the parser of its answers."""
