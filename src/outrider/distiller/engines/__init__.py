"""Engines of the distiller: each gives every unit of a text its probability to answer the query."""
