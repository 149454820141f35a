from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Plus

from outrider.nodes.rule_ranker import FORMULAS, README_CHARS, bm25_plus, count_terms, rank_by_rules, recency, renown, weigh_wishes
from outrider.settings.model import RankingSettings
from outrider.state.hits import Candidate
from outrider.state.records import Repository
from support.fakes import candidate, doi, paper

WEIGHTS = RankingSettings()
WORDS = ("liver", "heart", "cell", "dose", "trial")


def test_more_of_the_query_ranks_higher_and_gives_the_reason() -> None:
    works = [
        candidate(paper("a", "Cooking with gas"), scores={"fused": 0.5}),
        candidate(paper("b", "Retrying calls", abstract="Exponential backoff.", citations=1200), scores={"fused": 0.5}),
    ]
    first, second = rank_by_rules(works, "retry with exponential backoff", WEIGHTS, 2026)
    assert (first.record.doc_id, second.record.doc_id) == ("b", "a")
    assert first.reason == "title has: retry; text has: exponential, backoff; 1,200 citations"
    assert second.reason == "by its place in the lists"
    assert set(first.scores) == {"fused", "bm25", "recency", "citations", "rules"}
    assert {first.scored_by, second.scored_by} == {"rules"}


def test_the_tail_is_not_compared_by_its_text_and_reports_it() -> None:
    works = [candidate(paper(name, "Retry"), scores={"fused": fused}) for name, fused in (("a", 1.0), ("b", 0.9))]
    first, second = rank_by_rules(works, "retry calls", WEIGHTS, 2026, depth=1)
    assert (first.record.doc_id, "bm25" in first.scores) == ("a", True)
    assert (second.reason, "bm25" in second.scores) == ("by its place in the lists", False)


def compared(query: list[str], documents: list[str]) -> list[float]:
    return bm25_plus(query, count_terms(documents, query))


def test_a_term_in_half_of_the_candidates_still_counts() -> None:
    """Plain BM25 gives such a term nothing."""
    assert compared(["liver"], ["liver cell", "heart cell"]) == [1.0, 0.0]


def test_neighbouring_words_count_where_they_stand_side_by_side() -> None:
    """In the order of the request, in any form of the words, and over no word that the text has between them."""
    pairs = [("protocol", "buffer")]
    texts = ["protocol buffers are fast", "buffers of a protocol, fast", "protocol of fast buffers", "protocol buffers protocol buffer a"]
    counted = count_terms(texts, ["protocol", "buffer"], pairs)
    assert [one.pairs for one in counted] == [{pairs[0]: 1}, {}, {}, {pairs[0]: 2}]
    first, *others = bm25_plus(["protocol", "buffer"], counted[:3], pairs)
    assert first == 1.0
    assert max(others) < 1.0
    works = [
        candidate(paper("a", "A vector that a database has"), scores={"fused": 1.0}),
        candidate(paper("b", "A vector database is here"), scores={"fused": 0.99}),
    ]
    assert [one.record.doc_id for one in rank_by_rules(works, "vector database", WEIGHTS, 2026)] == ["b", "a"]


@pytest.mark.parametrize("query", ["Deep learning", "deep LEARNING?", "10.1000/d", "what is doi:10.1000/D?"])
def test_a_work_that_the_request_names_comes_first(query: str) -> None:
    other = paper("a", "Deep learning in practice", abstract="Deep learning: deep learning. What is it?", citations=9_000)
    named = paper("z", "Deep Learning", identifiers=doi("10.1000/d"))
    first, second = rank_by_rules([candidate(other, scores={"fused": 1.0}), candidate(named, scores={"fused": 0.2})], query, WEIGHTS, 2026)
    assert (first.record.doc_id, first.reason) == ("z", "you named this work")
    assert second.score < 0.99 <= first.score <= 1.0


def test_a_note_with_the_numbers_of_an_identifier_stands_behind_the_work_that_has_it() -> None:
    note = paper("note", "Meeting of 2015-01-01", abstract="At 10:00, room 1000. d")
    named = paper("z", "Deep Learning", identifiers=doi("10.1000/d.2015.01"))
    later = note.model_copy(update={"doc_id": "later", "title": "A meeting of 2015-01-01"})
    works = [candidate(note, scores={"fused": 1.0}), candidate(later, scores={"fused": 0.999}), candidate(named, scores={"fused": 0.3})]
    first, second, third = rank_by_rules(works, "10.1000/d.2015.01", WEIGHTS, 2026)
    assert [one.record.doc_id for one in (first, second, third)] == ["z", "note", "later"]
    assert third.score < second.score < 0.99


def test_an_empty_title_is_no_name() -> None:
    (one,) = rank_by_rules([candidate(paper("a", ""))], "??", WEIGHTS, 2026)
    assert one.score < 0.99


def test_a_readme_counts_by_its_beginning() -> None:
    def repository(name: str, text: str) -> Candidate:
        return candidate(Repository(doc_id=name, title=name, text=text), scores={"fused": 1.0})

    works = [repository("a", "x " * README_CHARS + "retry"), repository("b", "It can retry. " + "x " * README_CHARS)]
    first, second = rank_by_rules(works, "retry", WEIGHTS, 2026)
    assert (first.record.doc_id, first.reason) == ("b", "text has: retry")
    assert (second.scores["bm25"], second.reason) == (0.0, "by its place in the lists")


def test_what_a_repository_is_counts_more_than_what_its_readme_mentions() -> None:
    """The index holds the README whole, so that a package that mentions the words often comes first in the lists."""
    often = Repository(doc_id="often", title="server", description="A web server", text="Pass your own JSON encoder. " + "Routes. " * 9)
    about = Repository(doc_id="about", title="orjson", description="Fast JSON encoder", text="Usage: call dumps. " * 9)
    works = [candidate(often, scores={"fused": 1.0}), candidate(about, scores={"fused": 0.82})]
    first, second = rank_by_rules(works, "JSON encoder", WEIGHTS, 2026)
    assert (first.record.doc_id, first.scores["summary"], second.scores["summary"]) == ("about", 1.0, 0.0)


def test_a_repository_that_was_found_by_meaning_is_compared_by_it() -> None:
    """The words of the summary stand in where there is no vector, as for the hits of a service."""
    similarities = {"far": 0.2, "near": 0.6, "between": 0.4}
    works = [candidate(Repository(doc_id=name, title=name), scores={"fused": 0.5, "lance_dense": s}) for name, s in similarities.items()]
    works += [candidate(Repository(doc_id="words", title="JSON encoder"), scores={"fused": 0.5})]
    scores = {one.record.doc_id: one.scores for one in rank_by_rules(works, "JSON encoder", WEIGHTS, 2026)}
    assert {name: scores[name]["meaning"] for name in similarities} == pytest.approx({"far": 0.0, "near": 1.0, "between": 0.5})
    assert scores["words"]["summary"] == 1.0
    assert not any({"summary", "meaning"} <= set(one) for one in scores.values())
    order = [one.record.doc_id for one in rank_by_rules(works[:3], "library", WEIGHTS, 2026)]
    assert order == ["near", "between", "far"]


def test_words_count_less_where_vectors_took_part() -> None:
    """Half as much, and without pairs: `b` has the words side by side."""
    works = [
        candidate(paper("a", "A vector that a database has"), scores={"fused": 1.0}),
        candidate(paper("b", "A vector database is here"), scores={"fused": 0.99}),
        candidate(paper("c", "Something else"), scores={"fused": 0.95}),
    ]
    assert [one.record.doc_id for one in rank_by_rules(works, "vector database", WEIGHTS, 2026)][:2] == ["b", "a"]
    works[2] = candidate(works[2].record, scores={"fused": 0.95, "lance_dense": 0.4})
    ranked = rank_by_rules(works, "vector database", weigh_wishes(WEIGHTS, ""), 2026)
    assert [one.record.doc_id for one in ranked][:2] == ["a", "b"]
    (last,) = (one for one in ranked if one.record.doc_id == "c")
    assert last.score == pytest.approx(0.7 * 0.95 / 0.8)


def test_the_score_of_a_paper_has_no_part_for_its_subject() -> None:
    works = [candidate(paper("a", "Retry"), scores={"fused": 0.5}), candidate(Repository(doc_id="b", title="Retry"), scores={"fused": 0.5})]
    together = {one.record.doc_id: one for one in rank_by_rules(works, "retry", WEIGHTS, 2026)}
    (alone,) = rank_by_rules(works[:1], "retry", WEIGHTS, 2026)
    assert together["a"].scores == alone.scores
    assert ("summary" in together["a"].scores, together["b"].scores["summary"]) == (False, 1.0)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=8), max_size=8), st.lists(st.sampled_from(WORDS), max_size=5))
def test_pairs_never_put_a_text_without_any_word_above_zero(texts: list[list[str]], query: list[str]) -> None:
    pairs = [pair for pair in dict.fromkeys(pairwise(query)) if pair[0] != pair[1]]
    counted = count_terms([" ".join(text) for text in texts], query, pairs)
    scores = bm25_plus(dict.fromkeys(query), counted, pairs)
    assert all(0 <= score <= 1 for score in scores)
    assert [score > 0 for score in scores] == [bool(set(query) & set(text)) for text in texts]


def test_no_match_is_zero_not_the_floor_of_bm25_plus() -> None:
    assert compared(["absent"], ["liver", "heart"]) == [0.0, 0.0]
    assert compared([], ["liver"]) == [0.0]
    assert compared(["liver"], ["", ""]) == [0.0, 0.0]
    assert compared(["liver"], []) == []


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=8), max_size=8), st.sets(st.sampled_from(WORDS)))
def test_the_figures_are_those_of_rank_bm25(texts: list[list[str]], query_words: set[str]) -> None:
    ours = compared(sorted(query_words), [" ".join(text) for text in texts])
    if not any(texts):
        assert not any(ours)
        return
    theirs = BM25Plus(texts).get_scores(sorted(query_words)).tolist()
    expected = [score if query_words & set(text) else 0.0 for score, text in zip(theirs, texts, strict=True)]
    assert ours == pytest.approx([score / (max(expected) or 1.0) for score in expected])


@pytest.mark.parametrize(
    ("request_text", "first"),
    [
        ("treatment of liver injury", ["a", "new", "cited"]),
        ("well of currents, newly cited", ["a", "new", "cited"]),
        ("recent treatment of liver injury", ["new", "a", "cited"]),
        ("state-of-the-art treatment", ["new", "a", "cited"]),
        ("highly cited treatment of liver injury", ["cited", "a", "new"]),
        ("popular treatments", ["cited", "a", "new"]),
    ],
)
def test_recency_and_citations_count_only_where_the_request_asks_for_them(request_text: str, first: list[str]) -> None:
    works = [
        candidate(paper("a", "Liver", year=1990, citations=1), scores={"fused": 0.90}),
        candidate(paper("new", "Liver", year=2026, citations=0), scores={"fused": 0.89}),
        candidate(paper("cited", "Liver", year=1990, citations=90_000), scores={"fused": 0.88}),
    ]
    ranked = rank_by_rules(works, "liver", weigh_wishes(WEIGHTS, request_text), 2026)
    assert [one.record.doc_id for one in ranked] == first


def test_recency_alone_orders_where_nothing_else_has_a_weight() -> None:
    """Such settings order by it on purpose."""
    weights = RankingSettings(text_weight=0, fused_weight=0, citations_weight=0)
    assert weigh_wishes(weights, "liver") == weights


def test_recency_halves_and_the_unknown_is_in_the_middle() -> None:
    assert [recency(year, 2026, 10.0) for year in (2026, 2016, 2006, None, 2030)] == [1.0, 0.5, 0.25, 0.5, 1.0]


def test_renown_grows_with_the_logarithm() -> None:
    assert [renown(paper("a", citations=count)) for count in (None, 0, 9_999, 10**7)] == [0.0, 0.0, 1.0, 1.0]


@given(st.none() | st.integers(1800, 2030), st.floats(0.1, 1_000), st.integers(0, 10**8))
def test_printed_formulas_compute_what_their_functions_compute(year: int | None, half_life: float, count: int) -> None:
    names = {"min": min, "max": max, "log10": math.log10, "year": year, "this_year": 2026, "half_life_years": half_life, "count": count}
    computed = {"recency": recency(year, 2026, half_life), "renown": renown(paper("a", citations=count))}
    assert {name: eval(formula, names) for name, formula in FORMULAS.items()} == pytest.approx(computed)


titles = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
papers = st.builds(
    lambda number, title, year, citations: candidate(paper(f"d{number}", title, year=year, citations=citations)),
    st.integers(0, 10**6),
    titles,
    st.one_of(st.none(), st.integers(1900, 2030)),
    st.one_of(st.none(), st.integers(0, 10**6)),
)


@given(st.lists(papers, max_size=15, unique_by=lambda one: one.record.doc_id), titles, st.randoms(use_true_random=False))
def test_scores_lie_in_0_1_and_order_is_stable_under_shuffling(many: list, query: str, random: object) -> None:
    once = rank_by_rules(many, query, WEIGHTS, 2026)
    assert all(0 <= one.score <= 1 for one in once)
    shuffled = list(many)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert [one.record.doc_id for one in rank_by_rules(shuffled, query, WEIGHTS, 2026)] == [one.record.doc_id for one in once]
