"""Every error of the server as a problem document (RFC 9457), `application/problem+json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.responses import Response

from outrider.state.errors import BadRequest, LibraryBusy, LibraryMissing, SearchError
from outrider.state.model import Model
from outrider.systematic_search.ledger import LedgerUnwritable, NoSuchRun, RunBusy, Tampered
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request
    from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"
SHOWN_ERRORS, SHOWN_CHARS = 20, 500
PLACES = ("body", "query", "path", "header")
"""What FastAPI puts before the name of a field; LangServe does not, and has a field of the name `query`."""
NOTHING: Mapping[str, str] = MappingProxyType({})


class WrongField(Model):
    """One field of a request, and what is wrong with it."""

    field: str = Field(description="Where it stands, such as `top_k` or `filters`; empty for the body as a whole.")
    message: str


class Problem(Model):
    """What went wrong, for programs and people."""

    type: str = Field(description="The kind of problem: `urn:outrider:problem:` and a name that does not change.")
    title: str
    status: int
    detail: str = ""
    instance: str = Field("", description="This very occurrence, `urn:uuid:...`; the server's log names it, too.")
    errors: tuple[WrongField, ...] = Field((), description="The fields that are wrong, of a request that cannot be understood.")


OF_RUNS: Mapping[type[SearchError], str] = {
    NoSuchRun: "there is no such systematic run, or it has not ended",
    RunBusy: "another process writes to this systematic run; ask again when that has ended",
    LedgerUnwritable: "this server cannot write down what the systematic run finds; its disk may be full",
    Tampered: "what was written down of this systematic run was changed; `outrider verify` says where",
}
"""What is told of a run's errors, which name its folder on this machine."""


class Refusal(Exception):
    """A request that ends with a problem; raised wherever that is known."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] = NOTHING, errors: tuple[WrongField, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers, self.errors = status, kind, detail, headers, errors


def of_error(error: SearchError) -> Refusal:
    """What an expected error of the engine is over HTTP."""
    if said := next((said for kind, said in OF_RUNS.items() if isinstance(error, kind)), ""):
        return Refusal(404 if isinstance(error, NoSuchRun) else 503, _dashed(type(error).__name__), said)
    if isinstance(error, BadRequest):
        return Refusal(422, "bad-request", str(error), errors=wrong_fields(str(error)))
    if isinstance(error, LibraryMissing):
        return Refusal(404, "library-missing", str(error))
    headers = {"Retry-After": "5"} if isinstance(error, LibraryBusy) else NOTHING
    return Refusal(503, _dashed(type(error).__name__), str(error), headers)


def wrong_fields(message: str) -> tuple[WrongField, ...]:
    """The fields that a message of `state.request.checked` names, which begins each complaint with the field's name."""
    complaints = (part.partition(": ") for part in message.split("; "))
    return tuple(WrongField(field=name, message=why) for name, colon, why in complaints if colon and name.isidentifier())


def of_validation(errors: Iterable[Any]) -> Refusal:
    """What pydantic says of a request, without the input itself."""
    said = tuple(_wrong(one) for one in errors)[:SHOWN_ERRORS]
    detail = "; ".join(f"{one.field}: {one.message}" if one.field else one.message for one in said)
    return Refusal(422, "bad-request", detail, errors=said)


def _wrong(error: Any) -> WrongField:
    if not isinstance(error, Mapping):
        return WrongField(field="", message=str(error))
    place = [str(part) for part in error.get("loc", ())]
    place = place[1:] if place and place[0] in PLACES and (len(place) > 1 or place[0] == "body") else place
    message = str(error.get("msg", "is wrong")).removeprefix("Value error, ")
    return WrongField(field=_shown(".".join(place)), message=_shown(message))


def _shown(text: str) -> str:
    """Without control characters and halves of characters, and not endless: it may repeat what a stranger sent."""
    return without_control(text).encode("utf-8", "replace").decode()[:SHOWN_CHARS]


def _dashed(name: str) -> str:
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in name).lstrip("-")


def problem_of(refusal: Refusal, occurrence: str) -> Problem:
    """`occurrence` is the number of the request or search."""
    return Problem(
        type=f"urn:outrider:problem:{refusal.kind}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        detail=_shown(refusal.detail),
        instance=f"urn:uuid:{occurrence}" if occurrence else "",
        errors=refusal.errors,
    )


def response_of(refusal: Refusal, request_id: str) -> Response:
    problem = problem_of(refusal, request_id)
    body = json.dumps(problem.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False).encode()
    return Response(body, refusal.status, dict(refusal.headers), MEDIA_TYPE)


def id_in(scope: Scope) -> str:
    """The number of a request, by which the log names it."""
    return str(scope.get("state", {}).get("request_id", ""))


async def refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101 - it is registered for nothing else
    return response_of(refusal, id_in(request.scope))


async def failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, SearchError)  # noqa: S101 - as above
    return response_of(of_error(error), id_in(request.scope))


async def invalid(request: Request, error: Exception) -> Response:
    said: Sequence[Any] = error.errors()  # type: ignore[attr-defined] # FastAPI's RequestValidationError
    return response_of(of_validation(said), id_in(request.scope))


async def of_http(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, and what LangServe raises."""
    status, headers = int(getattr(error, "status_code", 500)), getattr(error, "headers", None)
    detail = {404: "nothing is served at this address", 405: "this address does not know that method"}.get(status)
    said = str(getattr(error, "detail", ""))
    kind = _dashed(HTTPStatus(status).phrase.title().replace(" ", "").replace("-", ""))
    own = said if said and said != HTTPStatus(status).phrase else ""
    return response_of(Refusal(status, kind, own or detail or "", headers or NOTHING), id_in(request.scope))
