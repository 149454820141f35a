"""Record linkage: decides which records are one work."""
