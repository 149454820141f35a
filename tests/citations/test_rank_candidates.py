"""The ranking of candidates: what is a candidate, what connects it, and what must not change the order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.citations.rank_candidates import CandidateRanker, explain
from outrider.state.citations import CitationCandidate, CitationNetwork
from outrider.state.errors import BadRequest
from outrider.state.records import Paper

TITLES = {
    "a": "Hair cortisol and obesity in children",
    "b": "Hair cortisol and body weight in adults",
    "c": "Scalp hair cortisol in obese children",
    "d": "Spectral lines of distant galaxies",
    "e": "Cortisol in the hair of cattle",
    "f": "Waist circumference and cortisol",
    "g": "Galaxies and their spectral lines",
}
Pair = tuple[str, str]


def network(links: Iterable[Pair], titles: dict[str, str] = TITLES, placeholders: Iterable[str] = ()) -> CitationNetwork:
    works = {key: Paper(doc_id=key, title=title) for key, title in titles.items()}
    return CitationNetwork(works, dict.fromkeys(links, ("openalex",)), frozenset(placeholders))


def keys(candidates: Sequence[CitationCandidate]) -> list[str]:
    return [one.key for one in candidates]


def test_candidates_are_what_the_target_cites_and_what_cites_it() -> None:
    """`d` is two links away."""
    of = CandidateRanker(network([("a", "b"), ("c", "a"), ("b", "d")]))
    assert set(keys(of.rank(["a"]))) == {"b", "c"}
    assert keys(of.rank(["a"], directions=["references"])) == ["b"]
    assert keys(of.rank(["a"], directions=["citations"])) == ["c"]
    assert set(keys(of.rank(["a"], hops=2))) == {"b", "c", "d"}
    assert set(keys(of.rank(["a"], hops=None))) == set(TITLES) - {"a"}


def test_an_included_work_extends_the_target_and_decided_ones_are_no_candidates() -> None:
    """An excluded work leads nowhere."""
    of = CandidateRanker(network([("a", "b"), ("b", "c"), ("a", "d"), ("d", "g")]))
    assert keys(of.rank(["a"], included=["b"], excluded=["d"])) == ["c"]


def test_counts_tell_what_connects_a_candidate() -> None:
    """`c` shares `d` and an unknown work with `a`, is cited together with it by `g`, and cites it."""
    links = [("a", "d"), ("c", "d"), ("a", "doi:10.1/x"), ("c", "doi:10.1/x"), ("g", "a"), ("g", "c"), ("c", "a")]
    one = next(one for one in CandidateRanker(network(links)).rank(["a"]) if one.key == "c")
    assert (one.cited_by_targets, one.cites_targets, one.co_cited, one.shared_references) == (0, 1, 1, 2)
    assert one.why == "cites 1 work of the target; shares 2 references with them; cited together with them by 1 work"


def test_a_work_known_only_by_its_key_connects_others_but_is_no_candidate() -> None:
    """There would be nothing to show of it."""
    of = CandidateRanker(network([("a", "doi:10.1/x"), ("b", "doi:10.1/x")]))
    assert keys(of.rank(["a"])) == []
    assert keys(of.rank(["a"], hops=2)) == ["b"]


def test_more_links_with_the_target_come_first() -> None:
    """Without text that tells them apart."""
    titles = dict.fromkeys("abcde", "")
    of = CandidateRanker(network([("a", "d"), ("a", "e"), ("b", "e"), ("c", "e")], titles))
    assert keys(of.rank(["a", "b", "c"])) == ["e", "d"]


def test_text_close_to_the_target_comes_first() -> None:
    """Both are cited once."""
    of = CandidateRanker(network([("a", "c"), ("a", "d"), ("a", "g")]))
    assert keys(of.rank(["a"]))[0] == "c"


def test_a_work_of_which_one_link_is_known_does_not_come_before_one_that_shares_references() -> None:
    """Its whole record is that link."""
    shared = [(one, f"doi:10.1/{number}") for one in "ab" for number in range(4)]
    of = CandidateRanker(network([("a", "b"), ("a", "f"), *shared], dict.fromkeys("abf", "")))
    assert keys(of.rank(["a"])) == ["b", "f"]


def test_labels_change_the_order() -> None:
    """Works about cattle are excluded, so that the next one about cattle falls behind a work without a word of the target."""
    titles = {**TITLES, "h": "Cortisol in the hair of beef cattle", "i": "Cattle and cortisol in hair", "j": "Waist size"}
    links = [("a", "e"), ("a", "h"), ("a", "i"), ("a", "j"), ("a", "d"), ("a", "g")]
    of = CandidateRanker(network(links, titles))
    before, after = keys(of.rank(["a"])), keys(of.rank(["a"], excluded=["e", "h"]))
    assert before.index("i") < before.index("j")
    assert after.index("j") < after.index("i")


def test_fit_is_a_share_and_none_without_text_or_request() -> None:
    """The whole request in a short title fits nearly as well as any text could."""
    titles = {"a": "Trees", "b": "Red apples", "c": "", "d": "Green pears"}
    of = CandidateRanker(network([("a", "b"), ("a", "c"), ("a", "d")], titles))
    fits = {one.key: one.fit for one in of.rank(["a"], request="red apples")}
    assert fits["c"] is None
    assert fits["d"] == 0
    assert 0.4 < (fits["b"] or 0) <= 1
    assert keys(of.rank(["a"], request="red apples"))[0] == "b"
    assert all(one.fit is None for one in of.rank(["a"]))


def test_retracted_works_are_marked_and_placeholders_are_told() -> None:
    """Neither is left out."""
    ranker = CandidateRanker(network([("a", "b"), ("a", "c")], placeholders=["c"]), retracted=["b"])
    ranked = {one.key: one for one in ranker.rank(["a"])}
    assert (ranked["b"].retracted, ranked["c"].retracted) == (True, False)
    assert (ranked["b"].is_placeholder, ranked["c"].is_placeholder) == (False, True)
    assert ranked["b"].why.startswith("retracted; cited by 1 work of the target")


def test_agreement_is_the_most_sources_of_a_link_with_the_target() -> None:
    """A link between two other works does not count."""
    links = {("a", "b"): ("crossref", "openalex"), ("c", "b"): ("crossref", "openalex", "pubmed"), ("a", "c"): ("openalex",)}
    works = {key: Paper(doc_id=key, title=key) for key in "abc"}
    ranked = {one.key: one.agreement for one in CandidateRanker(CitationNetwork(works, links)).rank(["a"])}
    assert ranked == {"b": 2, "c": 1}


@pytest.mark.parametrize("links", [[], [("a", "a")], [("x", "y")]])
def test_a_target_without_links_has_no_candidates(links: list[Pair]) -> None:
    """Neither a citation of itself nor links among others make one."""
    assert CandidateRanker(network(links)).rank(["a"]) == ()


def test_wrong_requests_are_refused_and_unknown_works_ignored() -> None:
    """The network may not have reached a work yet."""
    of = CandidateRanker(network([("a", "b")]))
    with pytest.raises(BadRequest, match="both included and excluded"):
        of.rank(["a"], included=["b"], excluded=["b"])
    with pytest.raises(BadRequest, match="at least 1"):
        of.rank(["a"], hops=0)
    assert keys(of.rank(["a", "unknown"], excluded=["unknown, too"])) == ["b"]
    assert of.rank(["unknown"]) == ()


def test_why_is_never_empty() -> None:
    """A candidate two links away may share nothing that is counted."""
    assert explain(0, 0, 0, 0) == "no direct link with the target"
    assert explain(2, 0, 0, 0, fit=0.5) == "cited by 2 works of the target; fits the request by 50%"


def test_the_model_solves_ridge_regression() -> None:
    """Against the closed form on dense matrices."""
    from outrider.citations.citation_matrices import SparseRows
    from outrider.citations.rank_candidates import fit_labels

    dense = np.random.default_rng(0).random((12, 9)) * (np.random.default_rng(1).random((12, 9)) < 0.5)
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(13))
    labels = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    scores = fit_labels(SparseRows(starts, columns, dense[rows, columns], 9), labels, 3.0)
    centred = dense - dense.mean(0)
    weights = np.array([5 / 4, 5 / 4, 5 / 6, 5 / 6, 5 / 6])
    gram = centred[7:] @ centred[7:].T + 3.0 * np.diag(1 / weights)
    assert scores == pytest.approx(centred[:7] @ centred[7:].T @ np.linalg.solve(gram, labels))


NODES = st.sampled_from("abcdefghij")
LINKS = st.lists(st.tuples(NODES, NODES), max_size=40, unique=True)
WORDS = "cortisol hair weight galaxy cattle child adult".split()
SOME_TITLES = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), min_size=10, max_size=10)
LABELS = st.lists(st.sampled_from(["", "", "", "work", "included", "excluded"]), min_size=10, max_size=10)


def labelled(labels: Sequence[str], wanted: str) -> list[str]:
    return [key for key, label in zip("abcdefghij", labels, strict=True) if label == wanted]


@settings(max_examples=60, deadline=None)
@given(LINKS, SOME_TITLES, LABELS, st.sampled_from([1, 2, None]), st.sampled_from(["", "hair cortisol"]), st.randoms(use_true_random=False))
def test_invariants(
    links: list[Pair], titles: list[str], labels: list[str], hops: int | None, request: str, chance: random.Random
) -> None:  # fmt: skip
    """The order of the inputs does not matter; no target or decided work is a candidate; cycles and citations of itself do no harm; and a
    work that nothing connects with the target changes nothing.
    """
    named = dict(zip("abcdefghij", titles, strict=True))
    works, included, excluded = (labelled(labels, one) for one in ("work", "included", "excluded"))
    first = CandidateRanker(network(links, named)).rank(works, included=included, excluded=excluded, request=request, hops=hops)
    assert not {*works, *included, *excluded} & set(keys(first))
    assert all(np.isfinite(one.score) for one in first)

    items, pairs = list(named.items()), list(links)
    for shuffled in (items, pairs, works, included, excluded):
        chance.shuffle(shuffled)
    again = CandidateRanker(network(pairs, dict(items)))
    assert again.rank(works, included=included, excluded=excluded, request=request, hops=hops) == first
    assert again.rank(works, included=included, excluded=excluded, request=request, hops=hops) == first

    without = [pair for pair in links if pair[0] != pair[1]]
    assert CandidateRanker(network(without, named)).rank(works, included=included, excluded=excluded, request=request, hops=hops) == first

    if hops is not None:
        unrelated = {**named, "m": "hair cortisol", "n": "cortisol"}
        wider = CandidateRanker(network([*links, ("m", "n"), ("n", "m")], unrelated))
        assert keys(wider.rank(works, included=included, excluded=excluded, request=request, hops=hops)) == keys(first)


def test_a_candidate_says_why_in_plain_words() -> None:
    """No names of fields or scores."""
    of = CandidateRanker(network([("a", "b"), ("c", "a"), ("b", "d"), ("c", "d")]))
    assert all(re.fullmatch(r"[a-z0-9 ,;%]+", one.why) for one in of.rank(["a"], hops=2, request="cortisol"))
