"""Exact runs of a Boolean query: ledger, manifest, replay, verification, PRISMA."""
