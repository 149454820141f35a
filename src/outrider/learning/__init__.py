"""Learning from use: local feedback, weights that must prove themselves, and completion of queries."""
