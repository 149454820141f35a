"""Allowances for a busy machine, for tests of time limits."""

from __future__ import annotations

BUSY_S = 15.0
"""What a busy machine may add to a time limit. What a test lets hang must last far longer."""
