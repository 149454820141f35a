"""Outrider: one request, searched everywhere at once, answered with the sentences that count and the trail to check them."""

__version__ = "0.1.0"
