"""Engines of the distiller: each gives a unit its probability to answer the query."""
