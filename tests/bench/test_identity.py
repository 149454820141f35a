"""The counts of the identity benchmark: removed superfluous records, lost works, pairs."""

from __future__ import annotations

from bench.identity.fitting import Example, fitted, without, written
from bench.identity.growth import grown
from bench.identity.measuring import Counts, counted, sizes
from bench.identity.rules import by_doi, by_doi_and_like_title, by_doi_and_title
from bench.identity.sets import LabelledSet
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


def test_weights_follow_the_examples() -> None:
    examples = [Example((("title", "equal"), ("year", "equal")), True, 50, (0, 0)), Example((("title", "other"),), False, 50, (1, 2))]
    examples += [Example((("title", "equal"), ("year", "far apart")), False, 10, (3, 4))]
    weights = fitted(examples)
    assert weights["title"]["equal"] > 0
    assert weights["year"]["equal"] > 0 > weights["year"]["far apart"]
    assert without(examples, {1, 3}) == examples[:1]
    assert '"far apart": ' in written(weights, 3, 1, ["tiny"])


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
