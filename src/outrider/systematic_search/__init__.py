"""Exact runs of a Boolean query: ledger, manifest, replay, verification, PRISMA.

The package knows the library and the services only as the Protocols of `state/systematic.py`.
"""
