"""Exact runs of Boolean queries: the ledger of hits, the manifest, the audit log, replay, verification and PRISMA reports.

The package knows the library and the services only as the Protocols of `state/systematic.py`.
"""
