"""The page at `/`: a shell and its files, which hold nothing of anybody, and the addresses that only a page asks for."""
