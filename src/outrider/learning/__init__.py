"""Learning from use: local feedback, weights that must prove themselves, past queries."""
