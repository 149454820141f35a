"""Where a run through the hits of one query in one version of the library stands, as text that can be kept and checked."""

from __future__ import annotations

import base64
import binascii
import hashlib

from outrider.boolean.printing import printed
from outrider.state.boolean import Node
from outrider.state.errors import BadRequest

FORMAT = "1"


def scope(library_id: str, version: int, tree: Node) -> str:
    """What a cursor belongs to: the same query of the same version of the same library."""
    return f"{library_id}\n{version}\n{printed(tree)}"


def cursor(within: str, doc_id: str) -> str:
    """Behind the hit of this id."""
    return f"{FORMAT}.{_digest(within, doc_id)}.{base64.urlsafe_b64encode(doc_id.encode()).decode().rstrip('=')}"


def behind(within: str, said: str) -> str | None:
    """The id that a cursor stands behind, None for the beginning; `BadRequest` for one of another query, version or library."""
    if not said:
        return None
    try:
        form, digest, coded = said.split(".")
        doc_id = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise BadRequest(f"{said[:80]!r} is no cursor of a library's hits; begin without one") from error
    if form != FORMAT or digest != _digest(within, doc_id):
        raise BadRequest("the cursor belongs to another query, or to another version of the library; begin without one")
    return doc_id


def _digest(within: str, doc_id: str) -> str:
    return hashlib.sha256(f"{within}\n{doc_id}".encode()).hexdigest()[:16]
