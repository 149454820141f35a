"""Saved searches: added, listed, run, compared, delivered and removed.

A saved search is a search or a systematic protocol with its settings, under a name. On a server with keys the name begins with that of the
owner. All functions work on the store of `saved.uri`; they raise `NoSuchSaved` for an unknown name, `StoreDamaged` and `SavedError`.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, JsonValue, ValidationError

from outrider.boolean.parser import SyntaxChoice, parse
from outrider.saved_searches import webhook
from outrider.saved_searches.compare import RunContents, compare_runs
from outrider.saved_searches.digest import make_payload, write_atom, write_markdown, write_rss
from outrider.saved_searches.schedule import parse_schedule
from outrider.services.citation_queue import find_library_address
from outrider.services.saved_queue import find_next_run, find_saved_store, list_due, queue_run
from outrider.services.sources import make_guard
from outrider.services.systematic import find_remote_sources, select_sources
from outrider.sources.http.client import user_agent
from outrider.state.errors import BadRequest, NoSuchSaved, explain_wrong_fields
from outrider.state.model import Model
from outrider.state.request import check_request
from outrider.state.saved import Change, Delivery, RunDifference, RunStatus, SavedKind, SavedRun, SavedSearch
from outrider.text.sanitize import is_loopback
from outrider.usecases.run_saved import OnPage, run_saved

if TYPE_CHECKING:
    from outrider.saved_searches.store import SavedStore
    from outrider.services import Services
    from outrider.settings.model import Settings
    from outrider.state.jobs import JobSteps

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FEEDS: Mapping[str, Any] = {"atom": write_atom, "rss": write_rss}
DIGESTS = ("markdown", *FEEDS)
DigestForm = Literal["markdown", "atom", "rss"]
MOST_RUNS = 20


class RunSummary(Model):
    """One run, as lists show it."""

    number: int
    status: RunStatus
    started_at: float
    finished_at: float | None = None
    works: int = 0
    changes: dict[Change, int] | None = Field(None, description="Changes since the complete run before; null for the first one.")
    failed_sources: dict[str, str] = Field(default_factory=dict, description="Sources that were not read, with the reason.")
    error: str = ""
    webhook: str = Field("", description="State of its delivery; empty without one.")


class SavedInfo(Model):
    """A saved search, without the address of its webhook: that may hold a key."""

    name: str
    kind: SavedKind
    query: str
    request: dict[str, JsonValue]
    library: str = ""
    schedule: str = ""
    timezone: str = ""
    next_run_at: float | None = None
    schedule_problem: str = Field("", description="Why it does not run by its schedule, such as an unknown time zone.")
    webhook: str = Field("", description="Its host alone.")
    created_at: float
    runs: tuple[RunSummary, ...] = Field((), description="The newest first.")


class Outcome(Model):
    """A run by hand or by schedule, and what changed."""

    name: str
    run: RunSummary
    difference: RunDifference | None = None


async def add_saved(  # noqa: PLR0913 - one argument a part
    services: Services,
    name: str,
    request: Mapping[str, Any],
    *,
    kind: SavedKind = "search",
    schedule: str = "",
    timezone: str = "",
    webhook_address: str = "",
    owner: str = "",
    replace: bool = False,
) -> SavedInfo:
    """Save a search (fields of `SearchRequest`) or a protocol (`query`, `sources`, `syntax`). Nothing runs yet.

    Raises `BadRequest` before anything is written: for an invalid request, name, schedule or time zone, a webhook to an address that is not
    public, and a name that exists.
    """
    if not NAME.fullmatch(name):
        raise BadRequest(f"a saved search's name has up to 64 letters, digits, dots, - and _, not {name[:100]!r}")
    settings = services.settings
    zone = timezone or settings.saved.timezone
    if schedule:
        await asyncio.to_thread(parse_schedule, schedule, zone)  # reads the time zones
    elif timezone:
        raise BadRequest("a time zone belongs to a schedule; give --schedule, such as daily")
    if webhook_address:
        await _check_webhook(settings, webhook_address)
    checked = _check_protocol(services, request) if kind == "systematic" else _check_search(request)
    saved = SavedSearch(
        id=uuid.uuid4().hex,
        name=f"{owner}/{name}" if owner else name,
        kind=kind,
        request=checked,
        library=find_library_address(settings),
        schedule=" ".join(schedule.split()),
        timezone=zone,
        webhook=webhook_address,
        created_at=services.clock(),
    )
    store = find_saved_store(settings)
    await asyncio.to_thread(store.add, saved, replace=replace)
    return await asyncio.to_thread(_describe, store, saved)


async def _check_webhook(settings: Settings, address: str) -> None:
    if not settings.saved.webhook_secret.get_secret_value():
        raise BadRequest("a webhook is signed: set a secret first, such as OUTRIDER_SAVED__WEBHOOK_SECRET (saved.webhook_secret)")
    guard = make_guard(settings.sources.allowed_hosts)
    await webhook.check_address(address, guard, resolves=not settings.sources.offline)


def _check_search(request: Mapping[str, Any]) -> dict[str, JsonValue]:
    checked = check_request(request)
    if checked.mode == "systematic":
        raise BadRequest("a saved search ranks; save a Boolean query with --systematic")
    if checked.previous_strategies or checked.user_feedback:
        raise BadRequest("a saved search is the same each time: it takes no earlier strategies and no feedback")
    fields: dict[str, JsonValue] = checked.model_dump(mode="json", exclude_defaults=True)
    return fields


class Protocol(Model):
    """The request of a saved protocol."""

    query: str | dict[str, str]
    sources: tuple[str, ...] | None = None
    syntax: SyntaxChoice = "auto"


def _check_protocol(services: Services, request: Mapping[str, Any]) -> dict[str, JsonValue]:
    try:
        protocol = Protocol.model_validate(dict(request))
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), Protocol.model_fields)) from error
    parse(protocol.query, protocol.syntax)
    names = select_sources(protocol.sources, find_remote_sources(services))
    return {"query": protocol.query, "sources": list(names), "syntax": protocol.syntax}  # type: ignore[dict-item] # strings


async def list_saved(services: Services, owner: str | None = None) -> tuple[SavedInfo, ...]:
    """All saved searches by name, each with its last run; of one owner if it is named."""
    store = find_saved_store(services.settings)

    def read() -> tuple[SavedInfo, ...]:
        return tuple(
            _describe(store, saved, 1, owner) for saved in store.list_searches() if _is_visible(services.settings, saved.name, owner)
        )

    return await asyncio.to_thread(read)


async def show_saved(services: Services, name: str, owner: str | None = None) -> SavedInfo:
    """A saved search with its newest runs."""
    store, saved = await _find(services, name, owner)
    return await asyncio.to_thread(_describe, store, saved, MOST_RUNS, owner)


async def remove_saved(services: Services, name: str, owner: str | None = None) -> int:
    """Delete a saved search with its runs; the number of runs. Ledgers of systematic runs stay."""
    store, saved = await _find(services, name, owner)

    def remove() -> int:
        with store.claim(saved):
            count = store.remove(saved)
        store.forget_claim(saved)
        return count

    return await asyncio.to_thread(remove)


async def run_now(
    services: Services, name: str, on_page: OnPage | None = None, pauses: tuple[float, ...] = webhook.QUICK_PAUSES_S
) -> Outcome:
    """Run a saved search here, compare, and send its webhook. Services are those of its library."""
    store, saved = await _find(services, name, None)
    await _deliver_pending(services, store, saved, pauses)
    run = await run_saved(services, store, saved, on_page)
    await _deliver_pending(services, store, saved, pauses)
    return await asyncio.to_thread(_read_outcome, store, saved, run.number)


async def find_due(services: Services, on_problem: Callable[[SavedSearch, BadRequest], None]) -> tuple[SavedSearch, ...]:
    """Saved searches whose schedule is due; one that missed several runs is due once. `on_problem` gets those that never will be."""
    return tuple(await asyncio.to_thread(lambda: list_due(find_saved_store(services.settings), services.clock(), on_problem)))


async def queue_saved(services: Services, name: str, owner: str | None = None) -> str:
    """Queue a background job that runs a saved search, and return its number."""
    _, saved = await _find(services, name, owner)
    return await asyncio.to_thread(queue_run, services.settings, saved)


async def run_saved_job(services: Services, request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    """The job of the kind `saved`: the run is one step, each attempt to deliver another."""
    name = str(request.get("saved", ""))
    store, saved = await _find(services, name, None)

    async def search() -> JsonValue:
        await steps.report("searches")
        return (await run_saved(services, store, saved)).number

    number = int(str(await steps.step("run", search)))
    for attempt, pause_s in enumerate(webhook.PAUSES_S, start=1):
        pending = await asyncio.to_thread(_list_pending, store, saved)
        if attempt > 1 and not pending:
            break
        await asyncio.sleep(pause_s)
        is_last = attempt == len(webhook.PAUSES_S)
        await steps.step(f"webhook {attempt}", partial(_deliver_step, services, store, saved, is_last=is_last))
    outcome = await asyncio.to_thread(_read_outcome, store, saved, number)
    return {
        "run": number,
        "works": outcome.run.works,
        "changes": {str(change): count for change, count in (outcome.run.changes or {}).items()},
    }


async def _deliver_step(services: Services, store: SavedStore, saved: SavedSearch, *, is_last: bool) -> JsonValue:
    for run in await asyncio.to_thread(_list_pending, store, saved):
        await _deliver_once(services, store, saved, run, is_last=is_last)
    return None


async def _deliver_pending(services: Services, store: SavedStore, saved: SavedSearch, pauses: tuple[float, ...]) -> None:
    """Send what is still to be sent. What fails for a reason that may pass stays pending until the next run."""
    for pause_s in pauses:
        pending = await asyncio.to_thread(_list_pending, store, saved)
        if not pending:
            return
        await asyncio.sleep(pause_s)
        for run in pending:
            await _deliver_once(services, store, saved, run)


def _list_pending(store: SavedStore, saved: SavedSearch) -> list[SavedRun]:
    return [run for run in store.runs(saved) if run.delivery.state == "pending"] if saved.webhook else []


async def _deliver_once(services: Services, store: SavedStore, saved: SavedSearch, run: SavedRun, *, is_last: bool = False) -> None:
    settings = services.settings
    difference = await asyncio.to_thread(lambda: {one.number: found for one, found in store.differences(saved, run.number)}[run.number])
    assert difference is not None  # noqa: S101 - only a run that was compared is sent
    payload = make_payload(saved, run, difference)
    secret = settings.saved.webhook_secret.get_secret_value()
    if not secret:
        attempt = webhook.Attempt("saved.webhook_secret is not set", is_final=False)
    elif settings.sources.offline and not is_loopback(saved.webhook):
        attempt = webhook.Attempt("nothing but this machine is contacted (sources.offline)", is_final=False)
    else:
        guard, agent = make_guard(settings.sources.allowed_hosts), user_agent(settings.sources.contact)
        body = webhook.encode(payload)
        attempt = await webhook.post(saved.webhook, body, str(payload["id"]), secret, guard, services.clock(), agent)
    state = "delivered" if not attempt.problem else "failed" if attempt.is_final or is_last else "pending"
    delivery = Delivery(state=state, attempts=run.delivery.attempts + 1, problem=attempt.problem)
    await asyncio.to_thread(store.update, saved, run.model_copy(update={"delivery": delivery}))


async def diff_runs(
    services: Services, name: str, before: int | None = None, after: int | None = None, owner: str | None = None
) -> RunDifference:
    """What changed between two complete runs, by default the last two."""
    store, saved = await _find(services, name, owner)
    return await asyncio.to_thread(_compare, store, saved, before, after)


def _compare(store: SavedStore, saved: SavedSearch, before: int | None, after: int | None) -> RunDifference:
    complete = {run.number: run for run in store.runs(saved) if run.status == "complete"}
    numbers = list(complete)
    if after is None:
        after = next((number for number in reversed(numbers) if before is None or number > before), None)
    if before is None:
        before = next((number for number in reversed(numbers) if after is not None and number < after), None)
    for number in (before, after):
        if number is not None and number not in complete:
            raise NoSuchSaved(f"{saved.name!r} has no complete run {number}; it has {', '.join(map(str, numbers[-20:])) or 'none'}")
    if before is None or after is None:
        raise BadRequest(
            f"two complete runs can be compared, and {saved.name!r} has {len(numbers)}; run it with: outrider saved run {saved.name}"
        )
    if before >= after:
        raise BadRequest("the earlier run is compared with the later one; exchange the two")
    contents = [RunContents(complete[number], store.works(saved, number)) for number in (before, after)]
    return compare_runs(saved.name, contents[0], contents[1], store.records)


async def write_digest(
    services: Services,
    name: str,
    form: DigestForm,
    before: int | None = None,
    after: int | None = None,
    owner: str | None = None,
    address: str = "",
) -> str:
    """A comparison as Markdown, or the newest runs as a feed whose own address is `address`."""
    store, saved = await _find(services, name, owner)
    if form == "markdown":
        return write_markdown(saved, await asyncio.to_thread(_compare, store, saved, before, after))
    runs = await asyncio.to_thread(store.differences, saved, MOST_RUNS)
    text: str = FEEDS[form](saved, runs, address)
    return text


async def read_run(services: Services, name: str, owner: str | None = None) -> tuple[SavedRun, RunDifference | None]:
    """The last complete run, with its difference from the one before."""
    store, saved = await _find(services, name, owner)
    runs = await asyncio.to_thread(store.differences, saved, 1)
    if not runs:
        raise NoSuchSaved(f"{saved.name!r} has no complete run; run it with: outrider saved run {saved.name}")
    return runs[0]


async def _find(services: Services, name: str, owner: str | None) -> tuple[SavedStore, SavedSearch]:
    store = find_saved_store(services.settings)
    stored = f"{owner}/{name}" if owner else name
    if not _is_visible(services.settings, stored, owner):
        raise NoSuchSaved(f"there is no saved search {name[:100]!r}")
    return store, await asyncio.to_thread(store.get, stored)


def _is_visible(settings: Settings, stored: str, owner: str | None) -> bool:
    """To an owner of a key its own; to a request without a key (an empty owner) those that belong to none; None sees all."""
    first, slash, _ = stored.partition("/")
    holder = first if slash and first in settings.serve.api_keys else ""
    return owner is None or holder == owner


def _describe(store: SavedStore, saved: SavedSearch, most: int = MOST_RUNS, owner: str | None = None) -> SavedInfo:
    runs = store.runs(saved)
    differences = {run.number: difference for run, difference in store.differences(saved, most)}
    next_run_at, problem = None, ""
    try:
        next_run_at = find_next_run(saved, runs[-1] if runs else None)
    except BadRequest as error:  # it can still be shown, run by hand, replaced and removed
        problem = str(error)
    return SavedInfo(
        name=saved.name.removeprefix(f"{owner}/") if owner else saved.name,
        kind=saved.kind,
        query=saved.query,
        request=saved.request,
        library=saved.library,
        schedule=saved.schedule,
        timezone=saved.timezone if saved.schedule else "",
        next_run_at=next_run_at,
        schedule_problem=problem,
        webhook=webhook.mask(saved.webhook),
        created_at=saved.created_at,
        runs=tuple(_summarize(run, differences.get(run.number)) for run in reversed(runs[-most:])),
    )


def _summarize(run: SavedRun, difference: RunDifference | None) -> RunSummary:
    sources = run.facts.sources if run.facts else {}
    changes: tuple[Change, ...] = ("new", "changed", "gone", "missing")
    return RunSummary(
        number=run.number,
        status=run.status,
        started_at=run.started_at,
        finished_at=run.finished_at,
        works=run.works,
        changes={change: difference.count(change) for change in changes} if difference is not None else None,
        failed_sources={name: state.why for name, state in sources.items() if not state.read},
        error=run.error,
        webhook=f"{run.delivery.state}{f': {run.delivery.problem}' if run.delivery.problem else ''}"
        if run.delivery.state != "none"
        else "",
    )


def _read_outcome(store: SavedStore, saved: SavedSearch, number: int) -> Outcome:
    for run, difference in store.differences(saved, MOST_RUNS):
        if run.number == number:
            return Outcome(name=saved.name, run=_summarize(run, difference), difference=difference)
    raise NoSuchSaved(f"{saved.name!r} has no complete run {number}")
