"""Addresses as they may be shown."""

from __future__ import annotations

import re

HIDDEN = "********"
USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


def without_password(address: str) -> str:
    """`s3://user:secret@host/x` without what stands before the @."""
    return USER_INFO.sub(f"{HIDDEN}@", address)
