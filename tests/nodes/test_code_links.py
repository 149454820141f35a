"""Code of candidates: alive, quiet, dead or unknown; filtered by it, ordered by it, shown with its evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outrider.library.find_code import CodeFinder
from outrider.nodes.coarse_filter import CoarseFilter
from outrider.nodes.code_links import attach_code, find_conditions, judge_liveness, rank_liveness
from outrider.nodes.organizer import count_facets, select_and_sort
from outrider.settings.model import CoarseFilterSettings, OrganizerSettings
from outrider.state.code_links import Liveness
from outrider.state.errors import BadRequest
from outrider.state.filters import CodeConditions, parse_filter, split_code
from outrider.state.hits import Candidate
from outrider.state.intent import Constraints, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.records import Identifiers, Paper, Repository

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def days_ago(days: int) -> str:
    return (NOW - timedelta(days=days)).isoformat()


def repository(name: str, **fields: Any) -> Repository:
    return Repository(doc_id=f"github:lab/{name}", title=f"lab/{name}", identifiers=Identifiers(github=f"lab/{name}"), **fields)


def paper(name: str, code: str = "") -> Paper:
    abstract = f"We model {name}. Our code is available at https://github.com/lab/{code}." if code else f"We model {name}."
    return Paper(doc_id=name, title=f"{name} at scale", abstract=abstract, identifiers=Identifiers(doi=f"10.1000/{name}"))


@pytest.mark.parametrize(
    ("fields", "liveness", "word"),
    [
        ({"updated_at": days_ago(3)}, "alive", "3 days ago"),
        ({"updated_at": days_ago(3), "archived": True}, "dead", "archived"),
        ({"updated_at": days_ago(1500)}, "dead", "abandoned"),
        ({"updated_at": days_ago(600)}, "quiet", "600 days ago"),
        ({"updated_at": days_ago(800), "metadata": {"closed_issues": 90, "open_issues": 2, "issue_response_days": 1}}, "quiet", "800 days"),
        ({"updated_at": days_ago(1500), "metadata": {"last_release_at": days_ago(20)}}, "alive", "last release 20 days ago"),
        ({"stars": 9_000}, "unknown", "no date"),
        # it was alive when it was read, and nobody has looked since
        ({"updated_at": days_ago(1500), "metadata": {"read_at": days_ago(1400)}}, "unknown", "was read 1,400 days ago"),
        ({"updated_at": days_ago(1500), "metadata": {"read_at": days_ago(30)}}, "dead", "abandoned"),
        ({"updated_at": days_ago(1500), "archived": True, "metadata": {"read_at": days_ago(1400)}}, "dead", "archived"),
        ({"updated_at": "soon"}, "unknown", "no date"),
    ],
)
def test_whether_a_repository_is_alive_follows_from_its_dimensions(fields: dict[str, Any], liveness: Liveness, word: str) -> None:
    judged, why = judge_liveness(repository("x", **fields), NOW.timestamp())
    assert judged == liveness
    assert word in why


RECORDS = (
    paper("dead", "old"), paper("alive", "new"), paper("unknown", "gone"), paper("none"),
    repository("old", updated_at=days_ago(2000)), repository("new", updated_at=days_ago(5)), repository("shelf", archived=True),
)  # fmt: skip


async def attach() -> tuple[Candidate, ...]:
    scores = {"dead": 0.9, "alive": 0.5, "unknown": 0.8}
    candidates = [Candidate(record, score=scores.get(record.doc_id, 0.1), scored_by="rules") for record in RECORDS]
    return await attach_code(candidates, CodeFinder(None), NOW.timestamp())


async def test_a_candidate_has_its_code_with_evidence_and_why_it_is_alive() -> None:
    by_id = {one.record.doc_id: one for one in await attach()}
    (code,) = by_id["alive"].code
    assert (code.name, code.liveness, code.kind, code.url) == ("github:lab/new", "alive", "paper's own code", "https://github.com/lab/new")
    assert "Our code is available" in code.evidence[0].words
    assert by_id["unknown"].code[0].liveness == "unknown"
    (own,) = by_id["github:lab/new"].papers
    assert (own.name, own.title) == ("doi:10.1000/alive", "alive at scale")
    assert by_id["none"].code == ()


def state(filters: dict[str, Any] | None = None, **constraints: bool) -> PipelineState:
    strategy = SearchStrategy(queries=(), sources=("library",), strategies=(), constraints=Constraints(**constraints))
    return PipelineState(query="x", filters=filters, strategy=strategy, candidates=tuple(Candidate(record) for record in RECORDS))


async def run(one: PipelineState) -> tuple[list[str], dict[str, str], list[str]]:
    settings = CoarseFilterSettings(archived=True, updated_within_months=0)
    update = await CoarseFilter(settings, NOW.timestamp, CodeFinder(None))(one, None)  # type: ignore[arg-type]
    kept = [candidate.record.doc_id for candidate in update["candidates"]]
    return kept, {one.doc_id: one.why for one in update["rejected"]}, [one.why for one in update.get("bypassed", ())]


@pytest.mark.parametrize("one", [state(has_code=True), state({"has_code": True}), state({"$and": [{"has_code": True}]})])
async def test_works_without_code_are_left_out_and_counted(one: PipelineState) -> None:
    kept, rejected, remarks = await run(one)
    assert set(kept) == {"dead", "alive", "unknown", "github:lab/old", "github:lab/new", "github:lab/shelf"}
    assert rejected == {"none": "no code of its own is known"}
    assert "1 of which no code is known" in remarks[0]


@pytest.mark.parametrize("one", [state(has_code=True, code_alive=True), state({"code_alive": True})])
async def test_dead_code_is_left_out_and_unknown_code_is_said(one: PipelineState) -> None:
    kept, rejected, remarks = await run(one)
    assert set(kept) == {"alive", "unknown", "github:lab/new"}
    assert rejected["github:lab/shelf"] == "its code is dead (archived)"
    assert rejected["dead"].startswith("its code is dead (lab/old: abandoned")
    assert "3 whose code is dead" in remarks[0]
    update = await CoarseFilter(CoarseFilterSettings(archived=True, updated_within_months=0), NOW.timestamp, CodeFinder(None))(one, None)  # type: ignore[arg-type]
    assert {one.record.doc_id for one in update["candidates"] if "code_alive" in one.unchecked} == {"unknown"}


async def test_without_a_wish_nothing_is_left_out() -> None:
    kept, rejected, remarks = await run(state())
    assert (len(kept), rejected, remarks) == (len(RECORDS), {}, [])


async def test_alive_code_comes_before_dead_code_if_the_request_asks_for_code() -> None:
    candidates = await attach()
    plain = [one.record.doc_id for one in select_and_sort(candidates, 0.0)]
    assert plain.index("dead") < plain.index("alive")
    conditions = find_conditions(state(has_code=True))
    ordered = [one.record.doc_id for one in select_and_sort(candidates, 0.0, lambda one: rank_liveness(one, conditions, NOW.timestamp()))]
    assert ordered.index("alive") < ordered.index("dead")
    assert ordered.index("github:lab/new") < min(ordered.index("github:lab/old"), ordered.index("github:lab/shelf"))


async def test_of_several_repositories_the_alive_one_comes_first() -> None:
    record = Paper(doc_id="p", title="Snow", abstract="Our code is available at https://github.com/lab/old and https://github.com/lab/new.")
    candidates = await attach_code([Candidate(one) for one in (record, *RECORDS[4:6])], CodeFinder(None), NOW.timestamp())
    assert [one.name for one in candidates[0].code] == ["github:lab/new", "github:lab/old"]


async def test_facets_count_works_with_code() -> None:
    assert count_facets(await attach(), OrganizerSettings()).by_code == {"has code": 3, "alive": 1, "unknown": 1, "dead": 1}


def test_conditions_are_read_from_the_top_of_a_filter() -> None:
    where = parse_filter({"year": 2020, "has_code": True, "$not": {"code_alive": True}})
    rest, conditions = split_code(where)
    assert conditions == CodeConditions(True, False)
    assert rest == parse_filter({"year": 2020})
    with pytest.raises(BadRequest, match="conditions of their own"):
        split_code(parse_filter({"$or": [{"has_code": True}, {"year": 2020}]}))
