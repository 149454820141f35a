"""Numeric machinery without a network: the library on LanceDB, its indexes and what is read from them."""
