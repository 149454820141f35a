"""Asking a service over HTTP as a good citizen: its limits kept, its answers cached, every failure one of `SourceError`."""
