"""Citation chasing: candidates of a target, decisions, state, map, exports

A target is a thread, `label:NAME` or a file of identifiers (`usecases.citation_targets`). Its chase (`citations.chase.Chase`) is stored in
the library, and each change is made under the library's lock, so that concurrent ones all count. A work that was included stays a candidate
until its record is fetched for the target, which the record's label shows: nothing is lost where a process dies in between.
"""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

from outrider.citations.chase import (
    Chase,
    count_citation_search,
    describe_completeness,
    find_stop,
    record_round,
    rename_keys,
    start_chase,
    withdraw_inclusions,
)
from outrider.citations.rank_candidates import CandidateRanker
from outrider.library.citation_network import find_nodes, load_network
from outrider.runtime.threads_and_loops import run_in_background, run_in_thread
from outrider.services import Services, open_services
from outrider.services.citation_queue import find_job_table, find_library_address
from outrider.services.citations import open_library, parse_identifier
from outrider.services.fetch_works import WORKS_A_JOB, FetchRequest, QueuedWork, make_queued_work
from outrider.state.citations import (
    BOTH_DIRECTIONS,
    CandidateList,
    ChaseFacts,
    ChaseReader,
    CitationCandidate,
    CitationMap,
    CitationNetwork,
    Direction,
    MapWork,
    QueueReport,
)
from outrider.state.errors import BadRequest, LibraryMissing, TargetPaused, did_you_mean
from outrider.state.learning import FeedbackAction
from outrider.state.notices import is_retracted, list_notices
from outrider.statistics.capture_recapture import RecaptureBound, bound_recall_of_routes
from outrider.systematic_search.prisma import CITATION_FORMS, write_citation_flow
from outrider.usecases.citation_targets import CitationTarget, find_target, is_file
from outrider.usecases.export import write_records
from outrider.usecases.jobs import queue_job
from outrider.usecases.learning import record_decisions
from outrider.usecases.recorded_run import RecordedRun

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.jobs.job_table import JobTable
    from outrider.library.library import Library
    from outrider.state.jobs import Job
    from outrider.state.records import Record

MAX_HOPS, MAX_LIMIT, MAX_MAP = 3, 1_000, 400
MAX_NAMED = 5
"""Unknown ids that an error names."""


async def list_candidates(
    services: Services,
    target: str,
    *,
    request: str = "",
    direction: Literal["", "references", "citations"] = "",
    hops: int = 1,
    limit: int = 20,
) -> CandidateList:
    """The candidates of the next round, best first.

    `request`, `direction` and `hops` also hold for the decisions that follow, until the next list; an empty request is that of the list
    before, at first a thread's query. Works whose citations were not read yet get a `citations` job. Raises `BadRequest`.
    """
    options = {"target": target, "request": request, "direction": direction, "hops": hops, "limit": limit}
    recorded = RecordedRun(services, "candidates", options)
    with recorded.on_tape():
        answer = await find_candidates(services, target, request=request, direction=direction, hops=hops, limit=limit)
    await recorded.finish(answer.model_dump(mode="json"))
    return answer


async def find_candidates(
    services: Services, target: str, *, request: str, direction: Literal["", "references", "citations"], hops: int, limit: int
) -> CandidateList:
    """The same without a recording."""
    directions = _check_options(direction, hops, limit)
    reader: ChaseReader = services.wrap("chase", lambda: LibraryChases(services), ChaseReader)
    facts = await reader.read(target, request, directions, hops)
    state = _Ranking(facts.target, Chase.model_validate_json(facts.chase), facts.fetched, facts.network, facts.retracted)
    candidates = await run_in_thread(state.rank)
    left = "" if facts.unread else find_stop(state.chase, len(candidates)) or ""
    return CandidateList(
        target=facts.target,
        works=len(state.positive),
        total=len(candidates),
        round=len(state.chase.rounds) + 1,
        candidates=tuple(state.mark_queued(one) for one in candidates[:limit]),
        stop=left,
        completeness=describe_completeness(state.chase),
        remarks=(*facts.remarks, *([facts.unread] if facts.unread else []), *state.describe_pending()),
    )


@dataclass(frozen=True, slots=True)
class LibraryChases:
    """Reads chases from the library of the settings."""

    services: Services

    async def read(self, target: str, request: str, directions: tuple[Direction, ...], hops: int) -> ChaseFacts:
        state = await _load(self.services, target, (request, directions, hops))
        unread = await _queue_unread(self.services, state)
        chase, remarks = state.chase.model_dump_json(), state.target.remarks
        return ChaseFacts(state.target.name, chase, state.fetched, state.network, state.retracted, remarks, unread)


async def queue_candidates(
    services: Services,
    target: str,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    all_of: bool = False,
    dry_run: bool = False,
) -> QueueReport:
    """Decide on candidates, and queue `fetch` jobs for the included ones.

    `include` names them, `exclude` excludes these and includes all others, `all_of` includes all. An id is the key of a candidate, a DOI,
    or another identifier. Raises `BadRequest` for anything but one of the three, and for ids that are no candidates: then nothing is
    queued. Raises `TargetPaused`.
    """
    if sum(map(bool, (include, exclude, all_of))) != 1:
        raise BadRequest(
            "say what to queue by exactly one of these: include (these candidates), exclude (all but these), all (every candidate)"
        )
    state = await _load(services, target)
    table = await asyncio.to_thread(find_job_table, services.settings)
    if state.target.name in await asyncio.to_thread(table.paused_targets):
        raise TargetPaused(f"the jobs of {state.target.name!r} are paused; to go on: outrider jobs resume {state.target.name!r}")
    candidates = {one.key: one for one in await run_in_thread(state.rank)}
    named = await _find_candidates(state, candidates, (*include, *exclude))
    excluded = named if exclude else []
    included = named if include else [key for key in candidates if key not in excluded]
    change = partial(_decide, nodes=state.nodes, base=state.chase, candidates=tuple(candidates), included=included, excluded=excluded)
    if dry_run:
        after = Chase.model_validate_json(change(await state.library.chase(state.target.name)))
    else:
        after = Chase.model_validate_json(await state.library.change_chase(state.target.name, change))
    queued = [key for key in included if key not in after.excluded]  # another call may have excluded one meanwhile
    jobs = () if dry_run else await asyncio.to_thread(_queue_fetches, services, state, table, [candidates[key] for key in queued])
    if not dry_run:
        chosen: dict[str, FeedbackAction] = dict.fromkeys(named, "drop" if exclude else "keep")
        await record_decisions(services, state.target.name, len(after.rounds), tuple(candidates.values()), chosen)
    report = QueueReport(target=state.target.name, round=len(after.rounds), queued=tuple(queued), excluded=tuple(excluded), dry_run=dry_run)
    return report.model_copy(update={"jobs": jobs})


async def get_status(services: Services, target: str) -> Chase:
    """The chase of a target so far; one without rounds before the first decision. `make_yield_curve` gives its yield."""
    return (await _load(services, target, has_network=False)).chase


async def bound_recall(services: Services, target: str) -> RecaptureBound:
    """A lower bound of the recall of searching and citation chasing together, from which of the target's works each of them finds.

    Routes: the search that found the target's works, works that others of the target cite, and works that cite others. Raises `BadRequest`.
    """
    state = await _load(services, target)
    inside = {(citing, cited) for citing, cited in state.network.links if {citing, cited} <= state.positive and citing != cited}
    cited, citing = (frozenset(pair[end] for pair in inside) for end in (1, 0))
    return bound_recall_of_routes({"search": state.chase.works, "references": cited, "citations": citing})


async def load_map(services: Services, target: str, limit: int = 60) -> CitationMap:
    """The works around a target: its own, the included ones, the best candidates, the excluded ones, and the citations among them."""
    if not 1 <= limit <= MAX_MAP:
        raise BadRequest(f"a map shows 1 to {MAX_MAP} works, not {limit}")
    state = await _load(services, target)
    ranked = [one.key for one in await run_in_thread(state.rank) if one.key not in state.pending]
    works, chase = state.network.works, state.chase
    degrees = Counter(end for pair in state.network.links for end in pair)

    def order(keys: Collection[str]) -> list[str]:
        return sorted((key for key in keys if key in works), key=lambda key: (-degrees[key], key))

    inside = [*order(chase.included), *order(chase.works)]
    # a third of the room is for candidates, and what the others do not need
    inside = inside[: max(limit - min(len(ranked), limit // 3), limit * 2 // 3)]
    shown = dict.fromkeys([*inside, *ranked[: limit - len(inside)]])
    shown |= dict.fromkeys(order(chase.excluded)[: limit - len(shown)])
    ranks = {key: rank for rank, key in enumerate(ranked, start=1)}
    rounds = {key: one.number for one in chase.rounds for key in (*one.included, *one.excluded)}
    every = {*order(chase.included), *order(chase.works), *order(chase.excluded), *ranked}
    return CitationMap(
        target=state.target.name,
        works=tuple(
            MapWork(
                key=key,
                title=works[key].title,
                year=works[key].year,
                role=_find_role(chase, key),
                round=rounds.get(key, 0),
                rank=ranks.get(key),
                retracted=key in state.retracted,
            )
            for key in shown
        ),
        links=tuple(pair for pair in sorted(state.network.links) if pair[0] in shown and pair[1] in shown),
        left_out=len(every - shown.keys()),
    )


async def export_round(services: Services, target: str, form: str, round: int | None = None) -> str:  # noqa: A002 - the word for it
    """A round's works in a format of `ingest.export`, or the counts of the whole chase in one of `CITATION_FORMS`.

    The works of a past round are those that it included; those of the round to come are its candidates. By default the last round, or
    the one to come before the first. Raises `BadRequest`.
    """
    state = await _load(services, target, has_network=form not in CITATION_FORMS)
    if form in CITATION_FORMS:
        return write_citation_flow(count_citation_search(state.chase), form, state.target.name)
    past = len(state.chase.rounds)
    number = (past or 1) if round is None else round
    if not 1 <= number <= past + 1:
        raise BadRequest(f"{state.target.name} has no round {number}: {past} past, and {past + 1} is the one to come")
    keys = [one.key for one in await run_in_thread(state.rank)] if number > past else [*state.chase.rounds[number - 1].included]
    records = await state.read_records(keys)
    stream = io.StringIO(newline="")
    write_records(records, form, stream)
    return stream.getvalue()


async def acite_candidates(
    target: str, *, library: str | PathLike[str] | None = None, services: Services | None = None, **options: Any
) -> CandidateList:
    """The candidates of a thread, `label:NAME` or a file of identifiers, best first; options and errors of `list_candidates`.

    Works whose citations were not read yet get a background job: run `outrider jobs run`, and ask again.
    """
    async with open_services(services, library) as opened:
        return await list_candidates(opened, target, **options)


def cite_candidates(target: str, **options: Any) -> CandidateList:
    """`acite_candidates` for callers without an event loop."""
    return run_in_background(acite_candidates(target, **options))


async def acite_queue(
    target: str, *, library: str | PathLike[str] | None = None, services: Services | None = None, **options: Any
) -> QueueReport:
    """Decide on candidates: `include=[...]`, `exclude=[...]` or `all_of=True`, with `dry_run=True` only in thought.

    The included works are fetched by background jobs. Errors of `queue_candidates`.
    """
    async with open_services(services, library) as opened:
        return await queue_candidates(opened, target, **options)


def cite_queue(target: str, **options: Any) -> QueueReport:
    """`acite_queue` for callers without an event loop."""
    return run_in_background(acite_queue(target, **options))


async def acite_status(target: str, *, library: str | PathLike[str] | None = None, services: Services | None = None) -> Chase:
    """The chase of a target so far: its `rounds`, `included` and `excluded` works. Raises `BadRequest`."""
    async with open_services(services, library) as opened:
        return await get_status(opened, target)


def cite_status(target: str, **options: Any) -> Chase:
    """`acite_status` for callers without an event loop."""
    return run_in_background(acite_status(target, **options))


async def acite_export(
    target: str,
    form: str = "ris",
    round: int | None = None,  # noqa: A002 - the word for it
    *,
    library: str | PathLike[str] | None = None,
    services: Services | None = None,
) -> str:
    """A round as text in a format of `outrider export`, or PRISMA's boxes: `prisma-json`, `prisma-markdown`, `prisma-svg`."""
    async with open_services(services, library) as opened:
        return await export_round(opened, target, form, round)


def cite_export(target: str, *arguments: Any, **options: Any) -> str:
    """`acite_export` for callers without an event loop."""
    return run_in_background(acite_export(target, *arguments, **options))


@dataclass(frozen=True, slots=True)
class _Ranking:
    """A chase and the works around it, with the keys that works have in the network now."""

    name: str
    """Of the target."""
    chase: Chase
    fetched: frozenset[str]
    """Included works whose records were fetched for the target."""
    network: CitationNetwork
    retracted: frozenset[str]

    @property
    def pending(self) -> frozenset[str]:
        """Included works that are not fetched yet."""
        return frozenset(self.chase.included) - self.fetched

    @property
    def positive(self) -> frozenset[str]:
        return frozenset(self.chase.works) | self.fetched

    def rank(self) -> tuple[CitationCandidate, ...]:
        """All candidates: works that are queued but not fetched yet are among them."""
        chase, ranker = self.chase, CandidateRanker(self.network, self.retracted)
        return ranker.rank(
            chase.works, included=self.fetched, excluded=chase.excluded, request=chase.request, directions=chase.directions, hops=chase.hops
        )

    def mark_queued(self, candidate: CitationCandidate) -> CitationCandidate:
        return candidate.model_copy(update={"why": f"queued; {candidate.why}"}) if candidate.key in self.pending else candidate

    def describe_pending(self) -> list[str]:
        if not (pending := len(self.pending)):
            return []
        works = "work is" if pending == 1 else "works are"
        return [f"{pending:,} included {works} not fetched yet: outrider jobs list --target {self.name!r}"]


@dataclass(frozen=True, slots=True)
class _State(_Ranking):
    """What is known of a target at one time."""

    library: Library
    target: CitationTarget
    nodes: Mapping[str, str]
    """Present keys by stored ones."""

    async def read_records(self, keys: Sequence[str]) -> list[Record]:
        """Whole records of the library, and what the links tell of other works, in the order of the keys."""
        ids = [key for key in keys if key not in self.network.placeholders]
        records = {record.doc_id: record for record in await self.library.fetch(ids)}
        known: dict[str, Record | None] = {key: records.get(key) or self.network.works.get(key) for key in keys}
        if far := [key for key, record in known.items() if record is None]:  # decided on with more hops than now
            names = await self.library.citations.find_keys(far)
            works = await self.library.citations.read_works(set(names.values()))
            known |= {key: works[names[key]].paper for key in far if names.get(key) in works}
        return [record for record in known.values() if record is not None]


Options = tuple[str, tuple[Direction, ...], int]
"""Request, directions and hops of a list."""


def _check_options(direction: str, hops: int, limit: int) -> tuple[Direction, ...]:
    known: tuple[Direction, ...] = get_args(Direction)
    if direction and direction not in known:
        raise BadRequest(f"direction takes {' or '.join(known)}, not {direction!r}{did_you_mean(direction, known)}")
    if not 1 <= hops <= MAX_HOPS:
        raise BadRequest(f"hops takes 1 to {MAX_HOPS}, not {hops}")
    if not 1 <= limit <= MAX_LIMIT:
        raise BadRequest(f"limit takes 1 to {MAX_LIMIT:,}, not {limit}")
    return tuple(one for one in sorted(BOTH_DIRECTIONS) if direction in ("", one))


async def _load(services: Services, text: str, options: Options | None = None, *, has_network: bool = True) -> _State:
    """Read a target, its chase and the network around it; `options` that differ from the stored ones are stored.

    Works that are not fetched yet do not extend the network: their citations are not read either.
    """
    library = await _open(services, text)
    target = await find_target(services, library, text)
    stored = await library.chase(target.name)
    chase = Chase.model_validate_json(stored) if stored else start_chase(target.name, target.works, request=target.request)
    keys = {*chase.seen, *chase.included, *chase.excluded, *target.works}
    labelled = [doc_id for doc_id, names in (await library.labels()).items() if target.label in names]
    nodes = await find_nodes(library, keys | {*labelled})
    chase = _refresh(chase, nodes, target.works)
    if options is not None:
        chosen = _choose(chase, options)
        if chosen != chase and not services.settings.serve.read_only:
            await library.change_chase(target.name, lambda text: _choose(_parse(text, chase, nodes), options).model_dump_json())
        chase = chosen
    fetched = frozenset(chase.included) & {nodes[doc_id] for doc_id in labelled if doc_id in nodes}
    if not has_network:
        return _State(target.name, chase, fetched, CitationNetwork({}, {}), frozenset(), library, target, nodes)
    network = await load_network(library, sorted({*chase.works, *fetched}), chase.hops + 1)
    retracted = frozenset(await library.retracted_ids())
    retracted |= {key for key in network.placeholders if is_retracted(list_notices(network.works[key]))}
    return _State(target.name, chase, fetched, network, retracted, library, target, nodes)


async def _open(services: Services, text: str) -> Library:
    """The library; a missing one is created for a file of identifiers alone. Raises `LibraryError`."""
    if services.has_own_library:
        try:
            return await services.library()
        except LibraryMissing:
            if services.settings.serve.read_only or not await is_file(text):
                raise
    return await open_library(services)


def _refresh(chase: Chase, nodes: Mapping[str, str], works: Collection[str]) -> Chase:
    """The chase with present keys, and with the works that the target has now; included ones are no works of its own."""
    chase = rename_keys(chase, nodes)
    own = {nodes.get(key, key) for key in works} - set(chase.included)
    return chase.model_copy(update={"works": tuple(sorted(own))})


def _choose(chase: Chase, options: Options) -> Chase:
    request, directions, hops = options
    return chase.model_copy(update={"request": request.strip() or chase.request, "directions": directions, "hops": hops})


def _parse(text: str | None, base: Chase, nodes: Mapping[str, str]) -> Chase:
    """The stored chase with present keys; `base` where none is stored yet."""
    return base if text is None else rename_keys(Chase.model_validate_json(text), nodes).model_copy(update={"works": base.works})


def _decide(
    text: str | None,
    *,
    nodes: Mapping[str, str],
    base: Chase,
    candidates: Collection[str],
    included: Collection[str],
    excluded: Collection[str],
) -> str:
    """The stored chase after a round. Decisions that it has already are not made again; an exclusion undoes an inclusion."""
    chase = withdraw_inclusions(_parse(text, base, nodes), excluded)
    new = [key for key in included if key not in {*chase.included, *chase.excluded}]
    against = [key for key in excluded if key not in chase.excluded]
    return (record_round(chase, tuple(candidates), included=new, excluded=against) if new or against else chase).model_dump_json()


async def _find_candidates(state: _State, candidates: Collection[str], ids: Sequence[str]) -> list[str]:
    """The candidates that ids name, each once. Raises `BadRequest` that names the others."""
    names = {one: parse_identifier(one.strip())[0] for one in ids}
    nodes = await find_nodes(state.library, [name for name in names.values() if name not in candidates])
    keys = {one: one if one in candidates else nodes.get(name, name) for one, name in names.items()}
    if unknown := [one for one in keys if keys[one] not in candidates]:
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        listed = ", ".join(f"{one!r}" for one in unknown[:MAX_NAMED])
        raise BadRequest(f"no candidates of {state.target.name}: {listed}{more}; nothing was queued")
    return list(dict.fromkeys(keys.values()))


def _queue_fetches(services: Services, state: _State, table: JobTable, candidates: Sequence[CitationCandidate]) -> tuple[str, ...]:
    """Queue jobs for works that are in no open job, and return the numbers of all. Blocking."""
    open_jobs = [job for job in table.list_of_kind("fetch", target=state.target.name) if job.is_open]
    job_of = {key: job.id for job in reversed(open_jobs) for key in _list_keys(job)}
    new = [one for one in candidates if one.key not in job_of]
    address, numbers = find_library_address(services.settings), []
    for start in range(0, len(new), WORKS_A_JOB):
        works = tuple(_make_queued_work(state, one) for one in new[start : start + WORKS_A_JOB])
        request = FetchRequest(target=state.target.name, label=state.target.label, request=state.chase.request, works=works)
        numbers.append(table.queue("fetch", state.target.name, address, request.model_dump(mode="json")))
    return tuple(dict.fromkeys([*(job_of[one.key] for one in candidates if one.key in job_of), *numbers]))


def _list_keys(job: Job) -> list[str]:
    works = job.request.get("works")
    return [str(work["key"]) for work in works if isinstance(work, dict) and "key" in work] if isinstance(works, list) else []


def _make_queued_work(state: _State, candidate: CitationCandidate) -> QueuedWork:
    return make_queued_work(candidate.key, candidate.identifiers, state.network.works[candidate.key].url)


async def _queue_unread(services: Services, state: _State) -> str:
    """Queue a `citations` job for works whose references nobody has read, unless one did or will; a remark while some are unread."""
    settings, address = services.settings, find_library_address(services.settings)
    table = await asyncio.to_thread(find_job_table, settings)
    jobs = await asyncio.to_thread(table.list_of_kind, "citations", library=address)
    read = {job.id: _list_targets(job) for job in jobs if job.status != "failed"}  # a stopped one is not queued again either
    nodes = await find_nodes(state.library, {name for names in read.values() for name in names})
    keys = {number: {nodes.get(name, name) for name in names} for number, names in read.items()}
    waiting = {key for job in jobs if job.is_open for key in keys[job.id]} & state.positive
    never = sorted(state.positive - {citing for citing, _ in state.network.links} - {key for own in keys.values() for key in own})
    if not (waiting or never):
        return ""
    what = f"the citations of {len(waiting) + len(never):,} of {len(state.positive):,} works were not read yet"
    if never and (settings.sources.offline or settings.serve.read_only):
        return f"{what}, and none are read here (sources.offline, serve.read_only)"
    try:
        for start in range(0, len(never), WORKS_A_JOB):
            targets: list[JsonValue] = [*never[start : start + WORKS_A_JOB]]
            await queue_job(services, "citations", state.target.name, {"targets": targets})
    except TargetPaused as error:
        return f"{what}: {error}"
    return f"{what}; a queued job reads them: outrider jobs run"


def _list_targets(job: Job) -> list[str]:
    targets = job.request.get("targets")
    return [str(one) for one in targets] if isinstance(targets, list) else []


def _find_role(chase: Chase, key: str) -> Literal["target", "included", "candidate", "excluded"]:
    if key in chase.included:
        return "included"
    if key in chase.excluded:
        return "excluded"
    return "target" if key in chase.works else "candidate"
