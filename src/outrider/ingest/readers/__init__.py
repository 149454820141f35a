"""Readers of file formats, one module a format; `select_reader` chooses one for a file."""
