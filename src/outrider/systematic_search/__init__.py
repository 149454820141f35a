"""An exact run from its query to its proof: the ledger of its hits, its manifest, its audit log, and what checks them.

Knows the library and the services only as the Protocols of `state/systematic.py`.
"""
