"""Record linkage: decides which records are one work, and merges them."""
