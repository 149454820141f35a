"""Files into records, and records back into files."""
