"""Benchmarks: `python -m bench [NAME ...]`.

They print figures, not pass or fail. Notes compare the figures with their targets; tests check the targets that must be met.
"""
