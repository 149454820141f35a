"""Copies on this machine of tables of a library on object storage."""
