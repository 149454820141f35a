"""Distiller: keeps only the sentences that answer a query, with a guarantee by calibration."""
