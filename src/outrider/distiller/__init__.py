"""The sentences that answer: units, scoring engines, calibration, token budget."""
