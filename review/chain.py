"""Lines that each carry a hash over themselves and all before them: none can be changed, left out or moved without being seen.

A line is one JSON object whose last member is `chain`: sha256 (hex) over the chain of the line before, a line feed, and the bytes of
the object without that member. The first line follows on `GENESIS`. What was changed is found by the bytes themselves, so that two
ways to write the same JSON are told apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

GENESIS = "0" * 64
_TAIL = re.compile(rb',"chain":"([0-9a-f]{64})"\}\n\Z')


def canonical(said: object) -> bytes:
    """One way to write a value as JSON: keys sorted, no blanks, UTF-8."""
    return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def linked(said: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """The line of an object behind `before`, with its line feed, and its own chain."""
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    chain = _hashed(before, body)
    return body[:-1] + b',"chain":"' + chain.encode() + b'"}\n', chain


def follows(line: bytes, before: str) -> str | None:
    """The chain of a whole line, where it is right; None where the line is not what was written behind `before`."""
    found = _TAIL.search(line)
    if found is None:
        return None
    chain = found.group(1).decode()
    return chain if _hashed(before, line[: found.start()] + b"}") == chain else None


def _hashed(before: str, body: bytes) -> str:
    made = hashlib.sha256(before.encode())
    made.update(b"\n")
    made.update(body)
    return made.hexdigest()


def next_hit(before: str, doc_id: str, content: str) -> str:
    """The ordered chain over hits: sha256 over the chain before, the id and the hash of what the record says, a line each."""
    return hashlib.sha256(f"{before}\n{doc_id}\n{content}".encode()).hexdigest()
