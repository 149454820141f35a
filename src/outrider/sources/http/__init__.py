"""HTTP client of the sources: rate limits, cache, SSRF guard"""
