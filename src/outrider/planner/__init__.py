"""Predictions of what a run will take, from the history of this installation."""
