"""Copies on this machine of parts of a library on object storage, so that not each process reads them again."""
