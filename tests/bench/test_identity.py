"""The counts of the identity benchmark: removed superfluous records, lost works, pairs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bench.identity.fitting import SETS_WEIGHT, Example, examples, fitted, without, written
from bench.identity.growth import grown
from bench.identity.measuring import COMMAND, Counts, compare_times, counted, sizes, timed
from bench.identity.rules import by_doi, by_doi_and_like_title, by_doi_and_title, outrider
from bench.identity.sets import LabelledSet
from outrider.linkage.names_and_titles import parse_title
from outrider.state.records import Paper
from support.fakes import doi, paper


def test_removed_and_lost_records_are_counted() -> None:
    """Works 0 (three records), 3 and 4. The second group absorbs 4; two records of work 0 remain."""
    source = LabelledSet("tiny", tuple(paper(str(at)) for at in range(5)), (0, 0, 0, 3, 4))
    counts = counted(source, [[0, 1], [2], [3, 4]])
    assert counts == Counts(superfluous=2, gone=1, works=3, lost=1, true_pairs=3, found_pairs=2, right_pairs=1)
    assert (counts.sensitivity, counts.precision, counts.recall) == (0.5, 0.5, 1 / 3)
    assert counted(source, [[0, 1], [2], [3, 4]], of=[0]) + counted(source, [[0, 1], [2], [3, 4]], of=[3, 4]) == counts


def test_only_pairs_across_bibliographies_are_judged() -> None:
    source = LabelledSet("tiny", tuple(paper(str(at)) for at in range(4)), (0, 0, 2, 2), sides=(0, 1, 1, 1))
    assert counted(source, [[0, 1, 2, 3]]).found_pairs == 3
    assert counted(source, [[0, 1, 2, 3]]).true_pairs == 1


def test_marks_name_records_with_a_duplicate() -> None:
    source = LabelledSet("tiny", tuple(paper(str(at)) for at in range(4)), None, marked=frozenset({0, 1}))
    counts = counted(source, [[0, 1], [2, 3]])
    assert (counts.sensitivity, counts.lost) == (1.0, 2)


def test_the_simple_rules() -> None:
    records = [paper("a", "Wings", identifiers=doi("10.1000/1")), paper("b", "Tails", identifiers=doi("10.1000/1")), paper("c", "WINGS")]
    records += [paper("d", "A long title about wings"), paper("e", "A long title about wing")]
    assert list(by_doi(records)) == [[0, 1], [2], [3], [4]]
    assert list(by_doi_and_title(records)) == [[0, 1, 2], [3], [4]]
    assert list(by_doi_and_like_title(records)) == [[0, 1, 2], [3, 4]]


def test_a_rule_is_timed_with_empty_caches() -> None:
    seen = list[int]()

    def rule(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
        seen.append(parse_title.cache_info().currsize)
        return outrider(records)

    records = [paper(str(at), f"Aspirin and liver {at}") for at in range(5)]
    groups, took_s = timed(rule, records)
    assert (len(groups), seen[-1]) == (5, 0)
    assert took_s > 0
    outrider(records)
    assert parse_title.cache_info().currsize > 0


def test_cpu_times_are_compared_with_bib_dedupe() -> None:
    lines = list(compare_times("tiny", {"Outrider": 2.0, "bib-dedupe": 30.0, COMMAND: 5.0}))
    assert [line.split(" of bib")[0] for line in lines] == ["tiny: Outrider takes 1/15.0", f"tiny: {COMMAND} takes 1/6.0"]
    assert not list(compare_times("tiny", {"Outrider": 2.0}))


def test_weights_follow_the_examples() -> None:
    every = [Example((("title", "equal"), ("year", "equal")), True, 50, (0, 0)), Example((("title", "other"),), False, 50, (1, 2))]
    every += [Example((("title", "equal"), ("year", "far apart")), False, 10, (3, 4))]
    weights = fitted(every)
    assert weights["title"]["equal"] > 0
    assert weights["year"]["equal"] > 0 > weights["year"]["far apart"]
    assert without(every, {1, 3}) == every[:1]
    assert '"far apart": ' in written(weights, 3, 1, ["tiny"])


def test_a_work_with_many_records_counts_as_its_records_not_as_their_pairs() -> None:
    """A tenfold work has 45 pairs, a twofold one has one: a tenfold work counts as at most ten examples."""
    records = [paper(f"a{at}", "Effects of metformin on ageing mice", year=2000 + at, authors=["Smith, Ann"]) for at in range(10)]
    records += [paper(f"b{at}", "Kinetics of protein folding in yeast", year=2000 + at, authors=["Jones, Bo"]) for at in range(2)]
    by_work = {0: 0.0, 1: 0.0}
    for example in examples(LabelledSet("tiny", tuple(records), (0,) * 10 + (1,) * 2)):
        if example.whole:
            assert example.works in {(0, 0), (1, 1)}
            by_work[example.works[0]] += example.weight
    assert by_work[0] / by_work[1] == pytest.approx(45**0.5)
    assert sum(by_work.values()) == pytest.approx(SETS_WEIGHT)


def test_grown_records_know_their_works() -> None:
    real = [paper(str(at), f"Effects of substance {at} on mice", pages="10-19", authors=["Smith, Ann"], year=2000) for at in range(5)]
    first, again = (grown(real, [one.title for one in real], 60) for _ in range(2))
    assert first == again
    assert len(first.records) == 60
    assert first.works is not None
    assert 30 < len(set(first.works)) < 60


def test_growth_reaches_the_requested_size() -> None:
    assert sizes(100_000) == (1_000, 10_000, 100_000)
    assert sizes(1_000_000) == (1_000, 10_000, 100_000, 1_000_000)
    assert sizes(2_000) == (1_000, 2_000)
