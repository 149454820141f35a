"""Settings: their types, their origins and their display without secrets."""
