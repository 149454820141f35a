"""Out-of-core deduplication finds the same works as deduplication in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.linkage import disk_keys, out_of_core
from outrider.linkage.blocking import LARGE, block_pairs, candidate_pairs
from outrider.linkage.judge_pair import Judgement, Weights, judge_keys
from outrider.linkage.normalized_record import Keys, decode_keys, encode_keys, make_keys
from outrider.linkage.out_of_core import OutOfCoreResolver
from outrider.linkage.resolve import resolve
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.duplicate_decisions import Decision, Decisions
from outrider.state.records import Identifiers, Paper, Record
from support.fakes import doi, paper
from support.task_map import map_elsewhere

Item = TypeVar("Item")
Shared = TypeVar("Shared")
Result = TypeVar("Result")
WORDS = st.sampled_from("aspirin liver injury adults statins kidney mice rats part ii erratum editorial 2 α 深度".split())
TITLES = st.one_of(st.just(""), st.lists(WORDS, min_size=1, max_size=6).map(" ".join), st.text(max_size=30))
NAMES = st.sampled_from(["Smith, Ann", "A. Smith", "Bell J", "李 明", "Anonymous", ""])


@st.composite
def papers(draw: st.DrawFn, at: int = 0) -> Paper:
    return paper(
        f"{at}",
        draw(TITLES),
        authors=draw(st.lists(NAMES, max_size=2)),
        year=draw(st.sampled_from([None, 0, 1999, 2000, 2020, 20244])),
        pages=draw(st.sampled_from([None, "1-9", "1-19", "S3"])),
        volume=draw(st.sampled_from([None, "1", "2"])),
        identifiers=draw(
            st.sampled_from([Identifiers(), doi("10.1000/a"), doi("https://doi.org/10.1000/A"), doi("10.48550/arxiv.2101.00001")])
        ),
        metadata=draw(st.sampled_from([{}, {"update_to": [{"doi": "10.1000/a", "type": "correction"}]}])),
    )


def resolve_on_disk(records: Sequence[Record], decisions: Decisions | None = None, tasks: TaskMap = map_here) -> tuple[list[object], ...]:
    with (
        TemporaryDirectory() as folder,
        closing(OutOfCoreResolver(Path(folder), decisions=decisions or Decisions(), tasks=tasks)) as work,
    ):
        work.add_records((record.doc_id, record) for record in records)
        resolution = work.resolve()
        ambiguous = [(pair.one, pair.other, pair.judgement.score) for pair in resolution.ambiguous_pairs()]
        groups = list(resolution.groups())
        return [group.places for group in groups], [group.reasons for group in groups], ambiguous, list(resolution.find_related())


@settings(max_examples=30, deadline=None)
@given(st.lists(papers(), max_size=12))
def test_groups_on_disk_equal_groups_in_memory(drawn: list[Paper]) -> None:
    records = [one.model_copy(update={"doc_id": str(at)}) for at, one in enumerate(drawn)]
    whole = resolve(records)
    groups, reasons, ambiguous, related = resolve_on_disk(records)
    assert groups == list(whole.groups)
    assert reasons == list(whole.reasons)
    assert ambiguous == [(pair.one, pair.other, pair.judgement.score) for pair in whole.ambiguous_pairs]
    assert related == list(whole.related)


@settings(max_examples=30, deadline=None)
@given(st.lists(papers(), max_size=12), st.booleans())
def test_tasks_elsewhere_find_the_same(drawn: list[Paper], is_decided: bool) -> None:
    records = [one.model_copy(update={"doc_id": str(at)}) for at, one in enumerate(drawn)]
    decisions = Decisions.from_log([Decision(what="merge", ids=("0", "3")), Decision(what="split", ids=("4",))] if is_decided else [])
    with pytest.MonkeyPatch.context() as patch:  # so that these few records make several tasks of each kind
        patch.setattr(out_of_core, "RECORDS_AT_ONCE", 2)
        patch.setattr(out_of_core, "PAIRS_AT_ONCE", 3)
        patch.setattr(disk_keys, "BLOCKED_AT_ONCE", 2)
        assert resolve_on_disk(records, decisions, map_elsewhere) == resolve_on_disk(records, decisions)


def test_processes_that_hash_differently_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names of blocks would not meet, and duplicates be missed."""
    seeds = iter(range(9))

    def map_hashed(function: Callable[[Item, Shared], Result], items: Iterable[Item], shared: Shared) -> Iterator[Result]:
        for result in map_here(function, items, shared):
            yield result._replace(hashed=next(seeds)) if hasattr(result, "hashed") else result

    monkeypatch.setattr(disk_keys, "BLOCKED_AT_ONCE", 4)
    with pytest.raises(RuntimeError, match="PYTHONHASHSEED"):
        resolve_on_disk([paper(str(at), f"Aspirin {at}") for at in range(10)], tasks=map_hashed)


def test_each_candidate_pair_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for its group, nor for the reason of its group, nor in a second answer."""
    judged = Counter[frozenset[str]]()

    def judge(one: Keys, other: Keys, weights: Weights) -> Judgement:
        judged[frozenset((one.title.whole, other.title.whole))] += 1
        return judge_keys(one, other, weights)

    monkeypatch.setattr(out_of_core, "judge_keys", judge)
    titles = [
        "Aspirin and acute liver injury in adults",
        "Aspirin and acute liver injury in adult",
        "Aspirin and acute liver injury of adults",
    ]
    many = [paper(str(at), title, authors=["Smith, Ann", "Bell, J."], year=2020, pages="1-9") for at, title in enumerate(titles)]
    groups, *_ = resolve_on_disk([*many, paper("3", "Kidneys of mice", pages="1-9")])
    assert groups == [(0, 1, 2), (3,)]
    assert set(judged.values()) == {1}


def test_few_judgements_of_copies_are_kept_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out_of_core, "MOST_COPIES", 3)
    with closing(OutOfCoreResolver(tmp_path)) as work:
        titles = [f"Aspirin and acute injury of organ {at}" for at in range(10)] * 2
        work.add_records((str(at), paper(str(at), title, year=2020, pages="1-9")) for at, title in enumerate(titles))
        resolution = work.resolve()
        assert all(group.reasons == (out_of_core.COPIES,) for group in resolution.groups())
        assert 0 < len(resolution._judge._copies) <= 3


@settings(max_examples=30, deadline=None)
@given(st.lists(papers(), max_size=8), st.randoms())
def test_decisions_override_evidence_on_disk_too(drawn: list[Paper], random: object) -> None:
    records = [one.model_copy(update={"doc_id": str(at)}) for at, one in enumerate(drawn)]
    log = [Decision(what="merge", ids=("0", "3")), Decision(what="split", ids=("1", "2")), Decision(what="split", ids=("4",))]
    decisions = Decisions.from_log(log)
    assert resolve_on_disk(records, decisions)[0] == list(resolve(records, decisions=decisions).groups)


@settings(max_examples=50, deadline=None)
@given(papers())
def test_keys_survive_encoding(one: Paper) -> None:
    assert decode_keys(encode_keys(make_keys(one))) == make_keys(one)


@settings(max_examples=50, deadline=None)
@given(st.lists(papers(), min_size=2, max_size=8))
def test_screened_out_pairs_are_different_and_unrelated(drawn: list[Paper]) -> None:
    keys = sorted({make_keys(one) for one in drawn})
    left_out = {(one, other) for one, other in block_pairs(keys).tolist()} - {*candidate_pairs(keys)}
    for one, other in left_out:
        judgement = judge_keys(keys[one], keys[other])
        assert (judgement.verdict, judgement.relation) == ("different", None)


def test_candidates_do_not_depend_on_the_order() -> None:
    keys = [make_keys(paper(str(at), f"Aspirin and liver {at % 7}", year=2000 + at % 3, pages=f"{at}-{at + 5}")) for at in range(150)]
    forward = {frozenset((keys[one], keys[other])) for one, other in candidate_pairs(keys)}
    turned: list[Keys] = keys[::-1]
    assert {frozenset((turned[one], turned[other])) for one, other in candidate_pairs(turned)} == forward


def test_a_block_of_any_size_gives_each_record_few_pairs() -> None:
    """A thousand editorials of as many years and authors."""
    keys = [make_keys(paper(str(at), "Editorial", authors=[f"Smith{at}, A."], year=1500 + at % 500, pages=str(at))) for at in range(1_000)]
    assert len(block_pairs(keys)) < LARGE * len(keys) // 2
