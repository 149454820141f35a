"""Rules remove what breaks them, keep the reason, and pass what they cannot look at."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.coarse_filter import CoarseFilter, Rules, apply_rules, limit_each_kind, name_retracted
from outrider.settings.model import CoarseFilterSettings
from outrider.state.hits import Candidate, Rejected, Related
from outrider.state.intent import Constraints, NumberRange
from outrider.state.pipeline import PipelineState
from outrider.state.records import Record, Repository
from support.fakes import NOON, candidate, paper

CONSTRAINTS = Constraints(years=NumberRange(min=2010, max=2020), stars=NumberRange(min=50))
NOW = datetime.fromtimestamp(NOON, UTC)  # 21 September 2026
EVERY = ("year", "stars", "updated", "readme", "archived", "fork")


def repository(**fields: object) -> Repository:
    return Repository.model_validate({"doc_id": "r", **fields})


def why_not(record: Record, **settings: object) -> str | None:
    _, rejected = apply_rules([candidate(record)], Rules(CONSTRAINTS, CoarseFilterSettings.model_validate(settings), NOW))
    return rejected[0].why if rejected else None


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (paper("a", year=2005), "year 2005 is outside 2010-2020"),
        (paper("a", year=2015), None),
        (paper("a"), None),
        (paper("a", stars=3), None),
        (repository(stars=49), "49 stars are outside 50-"),
        (repository(stars=50), None),
        (repository(), None),
        (repository(stars=900, archived=True), "the repository is archived"),
        (repository(updated_at="2025-09-20T00:00:00Z"), "not updated within 12 months"),
        (repository(updated_at="2025-09-23"), None),
        (repository(updated_at="last summer"), None),
        (repository(metadata={"readme": False}), "it has no README"),
        (repository(metadata={"readme": False}, text="# It has one"), None),
        (repository(licence=None), None),
        (repository(metadata={"created_at": "2013-05-24T16:15:54Z"}), None),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=121), "a trivial fork"),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=119), None),
        (repository(stars=60, forks=10, is_fork=True, parent_stars=900), None),
        (repository(stars=60, forks=1, is_fork=True), None),
    ],
)
def test_rules_pass_what_they_do_not_know(record: Record, why: str | None) -> None:
    assert why_not(record) == why


@pytest.mark.parametrize(
    ("record", "settings", "why"),
    [
        (repository(archived=True), {"archived": True}, None),
        (repository(updated_at="2011-01-01"), {"updated_within_months": 0}, None),
        (repository(metadata={"created_at": "2013-05-24T16:15:54Z"}), {"max_age_years": 5}, "older than 5 years"),
        (repository(metadata={"readme": False}), {"require_readme": False}, None),
        (repository(licence=""), {"require_licence": True}, "it has no licence"),
        (repository(licence="MIT"), {"require_licence": True}, None),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=121), {"trivial_fork_forks": 9}, None),
        (repository(stars=60, forks=9, is_fork=True, parent_stars=121), {"trivial_fork_share": 0.4}, None),
    ],
)
def test_every_rule_can_be_tuned(record: Record, settings: dict[str, object], why: str | None) -> None:
    assert why_not(record, **settings) == why


CROSSREF, PUBMED = {"type": "journal-article"}, {"publication_types": ["Journal Article", "Research Support, N.I.H., Extramural"]}
REVIEW = {"publication_types": ["JournalArticle", "Review"]}


@pytest.mark.parametrize(
    ("fields", "allowed", "why"),
    [
        ({}, "review", None),
        ({"metadata": {"type": "Pdf"}}, "review", None),
        ({"metadata": {"type": 7, "publication_types": [None, 3]}}, "review", None),
        ({"metadata": REVIEW}, "review", None),
        ({"metadata": REVIEW}, "article, dataset", None),
        ({"metadata": CROSSREF}, "Journal Article", None),
        ({"metadata": CROSSREF}, "review", None),
        ({"metadata": PUBMED}, "review", "its type (article) is not review"),
        ({"metadata": {"type": "article"}, "source": "openalex"}, "review, book", "its type (article) is not book or review"),
        ({"metadata": CROSSREF}, "dissertation", "its type (article) is not dissertation"),
        ({"metadata": {"type": "posted-content", "subtype": "preprint"}}, "article", "its type (preprint) is not article"),
        ({"metadata": {"entry_type": "phdthesis"}}, "thesis", None),
    ],
)
def test_papers_of_other_types_are_removed_where_their_type_is_known(fields: dict[str, object], allowed: str, why: str | None) -> None:
    record = paper("a", year=2015, **fields)
    assert why_not(record, paper_types=allowed) == why
    assert why_not(record) is None


@pytest.mark.parametrize(
    ("language", "allowed", "why"),
    [
        (None, "en", None),
        ("und", "en", None),
        ("gibberish", "en", None),
        ("eng", "en", None),
        ("en-GB", "English, ger", None),
        ("deu", "English, ger", None),
        ("fr", "English, ger", "its language (fr) is not de or en"),
        ("grc", "la", "its language (grc) is not la"),
        ("English; German", "de", None),
        ("eng; fre", "de", "its language (en, fr) is not de"),
    ],
)
def test_papers_in_other_languages_are_removed_where_their_language_is_known(language: str | None, allowed: str, why: str | None) -> None:
    assert why_not(paper("a", year=2015, language=language), paper_languages=allowed) == why
    assert why_not(paper("a", year=2015, language=language)) is None


def test_a_paper_without_type_and_language_is_unchecked() -> None:
    rules = Rules(Constraints(), CoarseFilterSettings(paper_types="review", paper_languages="en"), NOW)
    lacking, article = paper("a"), paper("b", metadata=CROSSREF, language="en")
    (bare, known, code), _ = apply_rules([candidate(lacking), candidate(article), candidate(whole())], rules)
    assert bare.unchecked == ("type", "language")
    assert known.unchecked == ("type",)  # a work of type article may be a review
    assert code.unchecked == ()  # its language is one of programs


@pytest.mark.parametrize(("field", "value"), [("paper_types", "reviev"), ("paper_languages", "en, Klingonese")])
def test_an_unknown_type_or_language_is_refused(field: str, value: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        CoarseFilterSettings.model_validate({field: value})


def test_what_a_rule_cannot_check_is_reported() -> None:
    rules = Rules(CONSTRAINTS, CoarseFilterSettings(), NOW)
    (bare, known, undated), _ = apply_rules([candidate(repository()), candidate(whole()), candidate(paper("p"))], rules)
    assert bare.unchecked == EVERY
    assert known.unchecked == ()
    assert undated.unchecked == ("year",)


def whole() -> Repository:
    values = {"stars": 100, "updated_at": "2026-09-01T00:00:00Z", "text": "# Read me", "archived": False, "is_fork": False}
    return repository(year=2015, **values)


def test_what_is_rejected_keeps_its_reason() -> None:
    works = [candidate(paper("a", "Old", year=1999)), candidate(paper("b", year=2012))]
    passed, rejected = apply_rules(works, Rules(CONSTRAINTS, CoarseFilterSettings(), NOW))
    assert [one.record.doc_id for one in passed] == ["b"]
    assert [(row.doc_id, row.title, row.why) for row in rejected] == [("a", "Old", "year 1999 is outside 2010-2020")]


def test_each_kind_is_cut_by_fused_order_not_by_stars() -> None:
    young = candidate(Repository(doc_id="young", stars=60))
    giants = [candidate(Repository(doc_id=f"giant {number}", stars=90_000)) for number in range(3)]
    papers = [candidate(paper(f"p{number}")) for number in range(3)]
    passed, cut = limit_each_kind([giants[0], papers[0], young, papers[1], *giants[1:], papers[2]], 2, 2)
    assert [one.record.doc_id for one in passed] == ["giant 0", "p0", "young", "p1"]
    assert [(row.doc_id, row.why) for row in cut] == [
        ("giant 1", "beyond the first 2 repositories"), ("giant 2", "beyond the first 2 repositories"), ("p2", "beyond the first 2 works"),
    ]  # fmt: skip


works = st.builds(
    lambda number, stars, archived, year: candidate(Repository(doc_id=f"r{number}", stars=stars, archived=archived, year=year)),
    st.integers(0, 10**6),
    st.none() | st.integers(0, 200),
    st.none() | st.booleans(),
    st.none() | st.integers(1990, 2026),
)


@given(st.lists(works, max_size=12, unique_by=lambda one: one.record.doc_id), st.integers(1, 5))
def test_nothing_is_lost(many: list[Candidate], most: int) -> None:
    passed, rejected = apply_rules(many, Rules(CONSTRAINTS, CoarseFilterSettings(), NOW))
    remaining, cut = limit_each_kind(passed, most, most)
    doc_ids = [one.record.doc_id for one in remaining] + [row.doc_id for row in (*rejected, *cut)]
    assert sorted(doc_ids) == sorted(one.record.doc_id for one in many)


async def test_retracted_works_are_left_out_on_request_and_named() -> None:
    """Without the filter they stay. A notice of retraction stays in any case."""
    works = (
        candidate(paper("a", "Sound")),
        candidate(
            paper("b", "False \x1b[31mclaims", metadata={"updated_by": [{"type": "retraction", "doi": "10.1000/r", "date": "2020"}]})
        ),
        candidate(paper("c", "Retraction: False claims", metadata={"retracted": True})),
        candidate(paper("d", "Linked")),
    )
    works[3].related = (Related(relation="retracted by", doc_id="c", title="Retraction: Linked"),)
    node = CoarseFilter(CoarseFilterSettings(), lambda: NOON)
    kept = await node(PipelineState(query="x", candidates=works), None)  # type: ignore[arg-type]
    assert [one.record.doc_id for one in kept["candidates"]] == ["a", "b", "c", "d"]
    assert "bypassed" not in kept
    update = await node(PipelineState(query="x", candidates=works, filters={"retracted": False}), None)  # type: ignore[arg-type]
    assert [one.record.doc_id for one in update["candidates"]] == ["a", "c"]
    assert [one.doc_id for one in update["rejected"]] == ["b", "d"]
    (remark,) = update["bypassed"]
    assert remark.step == "filters"
    assert remark.why == (
        "2 retracted or withdrawn works were left out: 'False [31mclaims': Retracted (2020, doi:10.1000/r, reported by Crossref); "
        "'Linked': Retracted (Retraction: Linked, reported by a linked record)"
    )


def test_very_many_retracted_works_are_counted() -> None:
    """A remark stays readable."""
    remark = name_retracted([Rejected(doc_id=str(at), title="x" * 10_000, why="Retracted") for at in range(1_000)])
    assert remark.why.startswith("1,000 retracted or withdrawn works were left out: ")
    assert remark.why.endswith("; and 950 more")
    assert len(remark.why) < 50_000
