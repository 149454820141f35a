"""Pages of the web: found by search engines, fetched as a good guest, read with or without a browser."""
