"""`outrider.compare`: two to four works of one kind side by side, from their analyses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from outrider.graph.analyze import build_analysis, make_analysis
from outrider.nodes.compare import STEP, ComparedText, DescribeDifferences, find_differences
from outrider.prompts import load
from outrider.runtime.spans import run_named
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services, open_services
from outrider.services.make_nodes import make_subject, parse_analysis_target
from outrider.services.tracing import keep_traces_local
from outrider.state.analysis import Analysis, AnalysisState, AnalyzeRequest
from outrider.state.chat import Budget
from outrider.state.comparison import (
    ComparedWork,
    CompareRequest,
    Comparison,
    Difference,
    DimensionRow,
    FactRow,
    check_compare_request,
)
from outrider.state.errors import BadRequest, ChatError, KeyRejected, NothingSearchable, SearchError
from outrider.state.pipeline import RunContext
from outrider.state.response import Failure, NodeUsage, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from outrider.state.records import Record

HIDDEN_FACTS = frozenset({"tree"})
"""Lists of names that no table aligns; the analysis has them."""
NOT_COMPARED = ("alternatives:", "related_code:", "references:", "citations:")
"""Beginnings of notes on parts of an analysis that a comparison does not show."""
OWN_SCHEMES = frozenset({"doi", "pmid", "pmcid", "arxiv", "openalex", "s2"})
"""Not those of a paper's code or of the book that it stands in."""
SHORT_TEXT = 2_000
"""Characters of a text in which the absence of a word says little."""
Analyzed = tuple[Analysis, "Record | None"]


async def acompare(
    *targets: str, question: str = "", fresh: bool = False, services: Services | None = None, context: RunContext | None = None
) -> Comparison:
    """Two to four repositories (`owner/name`) or papers (a DOI, `arxiv:...`, `pmid:...`) side by side: facts, dimensions, and what each
    text says that the others do not mention, with quotes.

    A recent analysis of a work is used again unless `fresh`. Raises `BadRequest` for works of different kinds and for one work given
    twice, `NothingSearchable` for a work that no source knows, `KeyRejected`.
    """
    request = check_compare_request({"targets": targets, "question": question, "fresh": fresh})
    async with open_services(services) as opened:
        with run_named(), keep_traces_local(opened.settings):
            return await compare_works(opened, request, context)


def compare(*targets: str, **options: Any) -> Comparison:
    """`acompare` for callers without an event loop."""
    return run_in_background(acompare(*targets, **options))


async def stream_comparison(
    services: Services, request: CompareRequest, context: RunContext | None = None
) -> AsyncGenerator[tuple[str, Any]]:
    """The parts of a run, as of a graph: the comparison's fields as `values`."""
    yield "values", dict(await compare_works(services, request, context))


async def compare_works(services: Services, request: CompareRequest, context: RunContext | None = None) -> Comparison:
    """The comparison. The works are analysed at once. The limits of `context` hold for all calls of models together."""
    began = time.perf_counter()
    refuse_incomparable(request.targets)
    await services.prepare()
    context = context or RunContext()
    count = len(request.targets)
    shares = {
        "max_calls": None if context.max_calls is None else context.max_calls // count,
        "max_cost_usd": None if context.max_cost_usd is None else context.max_cost_usd / count,
    }
    own = context.model_copy(update=shares)
    works = await asyncio.gather(*(_analyze(services, target, request, own) for target in request.targets))
    analyses = [analysis for analysis, _ in works]
    _refuse_unfit(request.targets, analyses)
    keys = [f"[{at}]" for at in range(1, count + 1)]
    records = [(key, record) for key, (_, record) in zip(keys, works, strict=True) if record is not None]
    texts, differences = await asyncio.to_thread(_read_and_compare, records)
    usage = sum_usage(analysis.usage for analysis in analyses)
    differences, failures, notes, usage = await _describe(services, request, context, analyses, texts, differences, usage)
    sizes = {text.key: len(text.segmented.reading.text) for text in texts}
    notes += [
        f"{key} has a text of {sizes.get(key, 0):,} characters: that it does not mention something says little"
        for key in keys
        if sizes.get(key, 0) < SHORT_TEXT
    ]
    kind = analyses[0].kind
    assert kind is not None  # noqa: S101 - refused above
    return Comparison(
        question=request.question,
        kind=kind,
        works=tuple(_describe_work(key, analysis, sizes.get(key, 0)) for key, analysis in zip(keys, analyses, strict=True)),
        facts=align_facts(analyses),
        dimensions=align_dimensions(analyses),
        differences=tuple(differences),
        failures=(*(failure for analysis in analyses for failure in analysis.failures), *failures),
        notes=(*collect_notes(keys, analyses), *notes),
        usage=usage,
        execution_time_ms=round((time.perf_counter() - began) * 1_000, 3),
    )


def refuse_incomparable(targets: Sequence[str]) -> None:
    """Raise `BadRequest` for a target that names no work, one that is given twice, and works of different kinds."""
    parsed = [parse_analysis_target(target) for target in targets]
    for (one, other), (first, second) in zip(combinations(targets, 2), combinations(parsed, 2), strict=True):
        if first.scheme == second.scheme and first.value.lower() == second.value.lower():
            raise BadRequest(f"{one} and {other} are the same work; name two different ones")
        if (first.scheme == "github") != (second.scheme == "github"):
            raise BadRequest(f"{one} and {other} are works of different kinds; compare repositories with repositories, papers with papers")


def _refuse_unfit(targets: Sequence[str], analyses: Sequence[Analysis]) -> None:
    """The same once the works are known. Raises also `KeyRejected`, and `NothingSearchable` for an unknown work."""
    for target, analysis in zip(targets, analyses, strict=True):
        reasons = "; ".join(failure.message for failure in analysis.failures)
        if any(failure.error == KeyRejected.__name__ for failure in analysis.failures):
            raise KeyRejected(reasons)
        if analysis.kind is None:
            raise NothingSearchable(reasons or f"{target} is not known to any source")
    for (one, other), (first, second) in zip(combinations(targets, 2), combinations(analyses, 2), strict=True):
        if first.doc_id == second.doc_id or (shared := list_own_identifiers(first) & list_own_identifiers(second)):
            name = first.doc_id if first.doc_id == second.doc_id else ":".join(min(shared))
            raise BadRequest(f"{one} and {other} are the same work ({name}); name two different ones")
        if first.kind != second.kind:
            raise BadRequest(f"{one} is a {first.kind} and {other} a {second.kind}; compare works of one kind")


def list_own_identifiers(analysis: Analysis) -> set[tuple[str, str]]:
    """Identifiers that one work alone has, as (scheme, value): two services may describe a work under ids of their own."""
    identifiers = analysis.facts.get("identifiers")
    known = identifiers.items() if isinstance(identifiers, dict) else ()
    return {(scheme, str(value)) for scheme, value in known if scheme in OWN_SCHEMES}


async def _analyze(services: Services, target: str, request: CompareRequest, context: RunContext) -> Analyzed:
    """The analysis, and the record with the text that its quotes stand in: a cached analysis has none, so that it is looked up again,
    mostly from the cache of answers.
    """
    state: Mapping[str, Any] = {}
    record: Record | None = None
    fields = AnalyzeRequest(target=target, question=request.question, fresh=request.fresh)
    stream: Any = build_analysis(services, checkpointer=False).astream(fields, context=context, stream_mode=["updates", "values"])
    async with aclosing(stream) as parts:
        async for mode, part in parts:
            if mode == "values":
                state = part
            elif "subject" in part:
                record = part["subject"].get("record")
    analysis = make_analysis(state)
    if record is None and analysis.kind is not None:
        subject = replace(make_subject(services), cache=None)
        try:
            looked_up = AnalysisState(target=target, question=request.question)
            record = (await subject(looked_up, services.settings.analyze.timeout_s)).get("record")
        except SearchError as error:
            note = f"its text could not be read again: {error}"
            analysis = analysis.model_copy(update={"notes": (*analysis.notes, note)})
    return analysis, record


def _read_and_compare(records: Sequence[tuple[str, Record]]) -> tuple[list[ComparedText], list[Difference]]:
    texts = [ComparedText.read(key, record) for key, record in records]
    return texts, [one for text in texts for one in find_differences(text, [other for other in texts if other is not text])]


async def _describe(
    services: Services,
    request: CompareRequest,
    context: RunContext,
    analyses: Sequence[Analysis],
    texts: Sequence[ComparedText],
    differences: list[Difference],
    usage: Usage,
) -> tuple[list[Difference], list[Failure], list[str], Usage]:
    """The model's differences in place of the rules' where it has some of a work; those of the rules otherwise."""
    if services.chat is None:
        return differences, [], [f"no model described the differences: {services.chat_says}"], usage
    settings = services.settings
    max_calls = count_limit(context.max_calls, settings.analyze.max_calls, len(texts))
    max_cost = settings.llm.max_cost_usd if context.max_cost_usd is None else context.max_cost_usd
    if max_cost is not None:
        max_cost = max(0.0, max_cost - (usage.cost_usd or 0.0))
    budget = Budget(max(0, max_calls - usage.calls), max_cost, Usage())
    describe = DescribeDifferences(services.chat, load("compare", frozenset({"max_sentences", "max_each"})))
    evidence = [unit for analysis in analyses for unit in analysis.context.units]
    question = request.question or "What does each do that the others do not?"
    try:
        described, removed = await describe(question, texts, differences, evidence, budget)
    except KeyRejected:
        raise
    except ChatError as error:
        return differences, [Failure(node=STEP, error=type(error).__name__, message=str(error))], [], sum_usage((usage, budget.spent))
    notes = [f"{removed} of the model's sentences did not pass the checks against the quotes"] if removed else []
    by_model = {one.doc_id for one in described}
    merged = [
        one for text in texts for one in (described if text.record.doc_id in by_model else differences) if one.doc_id == text.record.doc_id
    ]
    return merged, [], notes, sum_usage((usage, budget.spent))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """The cost of several runs together, in total and by node."""
    nodes: dict[str, NodeUsage] = {}
    total = Usage()
    for usage in usages:
        for name, spent in usage.by_node.items():
            nodes[name] = NodeUsage(**_add(nodes.get(name, NodeUsage()), spent))
        total = Usage(**_add(total, usage))
    return total.model_copy(update={"by_node": nodes})


def _add(one: NodeUsage, other: NodeUsage) -> dict[str, Any]:
    """The sums of the figures; a cost that is unknown once is unknown in the sum."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in NodeUsage.model_fields}
    return {name: None if None in pair else sum(pair) for name, pair in pairs.items()}


def count_limit(requested: int | None, each: int, works: int) -> int:
    """Calls that a comparison may make: as requested, else those of each analysis and one more."""
    return each * works + 1 if requested is None else requested


def _describe_work(key: str, analysis: Analysis, text_chars: int) -> ComparedWork:
    names = set(ComparedWork.model_fields) & set(Analysis.model_fields)
    fields = {name: getattr(analysis, name) for name in names}
    return ComparedWork(**fields, key=key, text_chars=text_chars, evidence=analysis.context.units)


def collect_notes(keys: Sequence[str], analyses: Sequence[Analysis]) -> Iterator[str]:
    """Notes of the analyses on what is compared; one of all works stands once, another names its work."""
    notes = [[note for note in analysis.notes if not note.startswith(NOT_COMPARED)] for analysis in analyses]
    shared = [note for note in notes[0] if all(note in own for own in notes)]
    yield from shared
    for key, own in zip(keys, notes, strict=True):
        yield from (f"{key} {note}" for note in own if note not in shared)


def align_facts(analyses: Sequence[Analysis]) -> tuple[FactRow, ...]:
    """A row for each fact that a source states of any of the works, in alphabetical order."""
    names = sorted({name for analysis in analyses for name in analysis.facts if name not in HIDDEN_FACTS})
    return tuple(FactRow(name=name, values=tuple(analysis.facts.get(name) for analysis in analyses)) for name in names)


def align_dimensions(analyses: Sequence[Analysis]) -> tuple[DimensionRow, ...]:
    rated = [{rating.dimension: rating for rating in analysis.ratings} for analysis in analyses]
    names = sorted({name for ratings in rated for name in ratings})
    return tuple(DimensionRow(dimension=name, ratings=tuple(ratings.get(name) for ratings in rated)) for name in names)
