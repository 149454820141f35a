"""Settings: their types (`model`), their sources (`load`) and their display without secrets (`redact`)."""
