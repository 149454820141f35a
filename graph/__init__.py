"""Wiring only: the pipeline on one page, its routes, and the guard around every node."""
