"""Errors of the server as problem documents (RFC 9457), `application/problem+json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.responses import Response

from outrider.reviews.decision_log import ReviewBusy, ReviewUnwritable
from outrider.state import errors as error_kinds
from outrider.state.errors import (
    BadRequest,
    JobError,
    LibraryBusy,
    LibraryMissing,
    NoSuchJob,
    NoSuchSaved,
    NoSuchThread,
    NotWaiting,
    OtherLibrary,
    SavedBusy,
    SavedError,
    SearchError,
    StoreDamaged,
    TargetPaused,
    ThreadBusy,
    did_you_mean,
    is_disk_full,
)
from outrider.state.model import Model
from outrider.state.response import Failure, SourceReport, find_fatal
from outrider.state.reviews import NoSuchReview, ReviewDamaged
from outrider.systematic_search.ledger import LedgerUnwritable, NoSuchRun, RunBusy, Tampered
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from starlette.requests import Request
    from starlette.types import Scope

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS, MAX_CHARS = 20, 500
FASTAPI_PLACES = ("body", "query", "path", "header")
"""Prefixes of field names by FastAPI; LangServe has none, and a field named `query`."""
OBJECT_ERRORS = frozenset({"model_type", "model_attributes_type", "dict_type"})
"""Errors whose messages by pydantic are about Python, with the name of a class."""
NOTHING: Mapping[str, str] = MappingProxyType({})


class WrongField(Model):
    """An invalid field of a request, and the reason."""

    field: str = Field(description="Its name, such as `top_k` or `filters`; empty for the body as a whole.")
    message: str


class Problem(Model):
    """An error, for programs and people."""

    type: str = Field(description="The kind of problem: `urn:outrider:problem:` and a name that does not change.")
    title: str
    status: int
    detail: str = ""
    instance: str = Field("", description="This occurrence, `urn:uuid:...`; the server's log names it, too.")
    errors: tuple[WrongField, ...] = Field((), description="The invalid fields of a request that cannot be understood.")
    failures: tuple[Failure, ...] = Field((), description="What failed in a search that searched nothing.")
    sources: tuple[SourceReport, ...] = Field((), description="Each source of such a search, with its status.")


STATUSES: Mapping[type[SearchError], int] = {
    NoSuchRun: 404,
    NoSuchThread: 404,
    ThreadBusy: 409,
    NotWaiting: 409,
    OtherLibrary: 409,
    NoSuchJob: 404,
    TargetPaused: 409,
    NoSuchReview: 404,
    ReviewDamaged: 503,
    NoSuchSaved: 404,
    SavedBusy: 409,
}
RUN_ERRORS: Mapping[type[SearchError], str] = {
    NoSuchThread: "there is no such thread",
    ThreadBusy: "a search of this thread is under way; ask again when it has ended, or name another thread",
    NotWaiting: "this search waits for no answer",
    OtherLibrary: "this search read another library than that of this server",
    NoSuchJob: "there is no such job, or no job of this target",
    TargetPaused: "the jobs of this target are paused; resume them first",
    JobError: "this server cannot read or write its background jobs; its log and `outrider jobs list` say why",
    NoSuchSaved: "there is no such saved search, or it has no such complete run",
    SavedBusy: "this saved search is being run; ask again when that has ended",
    SavedError: "this server cannot read or write its saved searches; `outrider saved list` says why",
    StoreDamaged: "this server's saved searches are damaged; `outrider saved list` says what to do",
    NoSuchRun: "there is no such systematic run, or it has not ended",
    NoSuchReview: "there is no such review",
    ReviewDamaged: "the files of this review were cut or changed; `outrider review status` says where",
    ReviewBusy: "another process writes to this review; ask again",
    ReviewUnwritable: "this server cannot save decisions; its disk may be full",
    RunBusy: "another process writes to this systematic run; ask again when that has ended",
    LedgerUnwritable: "this server cannot save the hits of the systematic run; its disk may be full",
    Tampered: "the files of this systematic run were changed; `outrider verify` says where",
}
"""Replaces messages of errors of runs, threads, jobs and saved searches, which name commands, folders and processes of this machine."""


class Refusal(Exception):
    """Ends a request with a problem; may be raised anywhere."""

    def __init__(
        self, status: int, kind: str, detail: str, headers: Mapping[str, str] = NOTHING, errors: tuple[WrongField, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers, self.errors = status, kind, detail, headers, errors
        self.failures: tuple[Failure, ...] = ()
        self.sources: tuple[SourceReport, ...] = ()


def refuse_field(field: str, message: str) -> Refusal:
    """The refusal of a request with one invalid field."""
    return Refusal(422, "bad-request", f"{field}: {message}" if field else message, errors=(WrongField(field=field, message=message),))


def refuse_full_disk() -> Refusal:
    return Refusal(507, "disk-full", "this server cannot write: its disk is full or its quota used up; ask again when there is space")


def refuse_unsearched(state: Mapping[str, Any]) -> Refusal | None:
    """The refusal of a search that had nothing to search, from the fields that its nodes wrote; None for a search with an answer."""
    failures: tuple[Failure, ...] = state.get("failures", ())
    fatal = find_fatal(failures)
    if fatal is None:
        return None
    kind: Any = getattr(error_kinds, fatal.error, SearchError)
    if is_disk_full(OSError(fatal.message)):
        return refuse_full_disk()
    status = 422 if isinstance(kind, type) and issubclass(kind, BadRequest) else 503
    refusal = Refusal(status, _to_kebab_case(fatal.error), fatal.message)
    refusal.failures = failures
    refusal.sources = tuple(row for row in state.get("sources") or () if isinstance(row, SourceReport))
    return refusal


def translate_error(error: SearchError) -> Refusal:
    """The refusal for an expected error of the engine."""
    if is_disk_full(error):
        return refuse_full_disk()
    if message := next((message for kind, message in RUN_ERRORS.items() if isinstance(error, kind)), ""):
        return Refusal(STATUSES.get(type(error), 503), _to_kebab_case(type(error).__name__), message)
    if isinstance(error, BadRequest):
        return Refusal(422, "bad-request", str(error), errors=wrong_fields(str(error)))
    if isinstance(error, LibraryMissing):
        return Refusal(404, "library-missing", str(error))
    headers = {"Retry-After": "5"} if isinstance(error, LibraryBusy) else NOTHING
    return Refusal(503, _to_kebab_case(type(error).__name__), str(error), headers)


def wrong_fields(message: str) -> tuple[WrongField, ...]:
    """The fields in a message of `state.request.check_request`, which begins each complaint with the field's name."""
    complaints = (part.partition(": ") for part in message.split("; "))
    return tuple(WrongField(field=name, message=why) for name, colon, why in complaints if colon and name.isidentifier())


def refuse_invalid(errors: Iterable[Any], names: Collection[str] = ()) -> Refusal:
    """The refusal for pydantic's errors of a request, without the input itself; `names` are the fields of its body, for misspelt ones."""
    fields = tuple(_make_wrong_field(error, names) for error in errors)[:MAX_ERRORS]
    detail = "; ".join(f"{one.field}: {one.message}" if one.field else one.message for one in fields)
    return Refusal(422, "bad-request", detail, errors=fields)


def _make_wrong_field(error: Any, names: Collection[str]) -> WrongField:
    if not isinstance(error, Mapping):
        return WrongField(field="", message=str(error))
    place = [str(part) for part in error.get("loc", ())]
    place = place[1:] if place and place[0] in FASTAPI_PLACES and (len(place) > 1 or place[0] == "body") else place
    takes_object = error.get("type") in OBJECT_ERRORS
    message = "takes a JSON object" if takes_object else str(error.get("msg", "is wrong")).removeprefix("Value error, ")
    if error.get("type") == "extra_forbidden":
        message = f"unknown field{did_you_mean(place[0], names) if len(place) == 1 else ''}"
    return WrongField(field=_sanitize(".".join(place)), message=_sanitize(message))


def _sanitize(text: str) -> str:
    """Without control characters and lone surrogates, at most `MAX_CHARS`: it may repeat text of the request."""
    return without_control(text).encode("utf-8", "replace").decode()[:MAX_CHARS]


def _to_kebab_case(name: str) -> str:
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in name).lstrip("-")


def make_problem(refusal: Refusal, occurrence: str) -> Problem:
    """`occurrence` is the number of the request or search."""
    return Problem(
        type=f"urn:outrider:problem:{refusal.kind}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        detail=_sanitize(refusal.detail),
        instance=f"urn:uuid:{occurrence}" if occurrence else "",
        errors=refusal.errors,
        failures=refusal.failures,
        sources=refusal.sources,
    )


def make_response(refusal: Refusal, request_id: str) -> Response:
    problem = make_problem(refusal, request_id)
    body = json.dumps(problem.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False).encode()
    return Response(body, refusal.status, dict(refusal.headers), MEDIA_TYPE)


def read_request_id(scope: Scope) -> str:
    """The number of a request, under which the log names it."""
    return str(scope.get("state", {}).get("request_id", ""))


async def handle_refusal(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)  # noqa: S101 - it is registered for nothing else
    return make_response(refusal, read_request_id(request.scope))


async def handle_search_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SearchError)  # noqa: S101 - as above
    return make_response(translate_error(error), read_request_id(request.scope))


async def handle_invalid_request(request: Request, error: Exception) -> Response:
    errors: Sequence[Any] = error.errors()  # type: ignore[attr-defined] # FastAPI's RequestValidationError
    body = getattr(request.scope.get("route"), "body_field", None)
    names = getattr(body and body.field_info.annotation, "model_fields", ())
    return make_response(refuse_invalid(errors, names), read_request_id(request.scope))


async def handle_http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, and exceptions of LangServe."""
    status, headers = int(getattr(error, "status_code", 500)), getattr(error, "headers", None)
    default = {404: "nothing is served at this address", 405: "this address does not know that method"}.get(status, "")
    detail = str(getattr(error, "detail", ""))
    kind = _to_kebab_case(HTTPStatus(status).phrase.title().replace(" ", "").replace("-", ""))
    own = detail if detail != HTTPStatus(status).phrase else ""
    return make_response(Refusal(status, kind, own or default, headers or NOTHING), read_request_id(request.scope))
