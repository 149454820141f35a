"""The translator: from a request to its intent and the searches to run."""
