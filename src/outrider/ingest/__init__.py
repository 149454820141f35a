"""Files and identifiers to records, and records back to files."""
