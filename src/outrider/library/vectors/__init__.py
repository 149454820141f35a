"""Vectors of the records, all of one model: rows, search, index, and the registry of models."""
