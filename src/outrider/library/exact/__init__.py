"""Exact search: every record of one version of the library that a Boolean tree matches."""
