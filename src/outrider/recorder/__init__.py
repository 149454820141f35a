"""Recordings of runs: what came from outside, in its order, and the replay of it."""
