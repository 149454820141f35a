"""PubMed: search requests and the parser of its articles."""
