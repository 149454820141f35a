"""Engines of the distiller, which compute the probability that a unit answers the query."""
