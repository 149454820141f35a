"""Which thread of searches a request belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from outrider.serve.http.problems import Refusal, WrongField

if TYPE_CHECKING:
    from starlette.requests import Request

HEADER = "x-thread-id"
NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def thread_of(request: Request, named: object = None) -> str:
    """The thread that the request names, in its body or in `X-Thread-Id`; empty for none.

    With a key it is the owner's own: the same name of somebody else is another thread. Raises `Refusal` for what cannot be a name.
    """
    name = named if named is not None else request.headers.get(HEADER)
    if name is None:
        return ""
    if not isinstance(name, str) or not NAME.match(name):
        wrong = WrongField(field="thread_id", message="takes up to 128 letters, digits, dots, colons, - and _")
        raise Refusal(422, "bad-request", f"thread_id: {wrong.message}", errors=(wrong,))
    owner = request.scope["state"].get("owner", "")
    return f"{owner}/{name}" if owner else name
