"""Measuring: `python -m bench [NAME ...]`. Figures, not pass or fail; notes say what is asked of them, tests hold what must be reached."""
