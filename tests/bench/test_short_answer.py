"""The script of the benchmark of the short answer's checks, on cases small enough to count by hand."""

from __future__ import annotations

import pytest

from bench import rationales, short_answer
from bench.rationales import Case
from outrider.nodes.answer.check import SourceUnit

SENTENCES = ["Mice sleep at night.", "Aspirin did not reduce the risk of stroke by 12.34% (p<0.05) in two trials of adults.", "Cats purr."]
UNIT = SourceUnit("u1", "d", "[1]", 0, len(SENTENCES[1]), SENTENCES[1], "Aspirin")
OTHER = SourceUnit("u2", "e", "[2]", 0, 10, "Cats purr.", "Cats")


def make_case(claim: str, doc_id: str) -> Case:
    return rationales._case(claim, "Aspirin does not help.", {"id": doc_id, "title": "", "sentences": SENTENCES}, {1})


def test_each_error_is_one_error() -> None:
    drafts = {draft.kind: draft for draft in short_answer.write_wrong(UNIT, [OTHER], short_answer.random.Random(1))}
    assert drafts["wrong: number, the decimal point"].text == SENTENCES[1].replace("12.34", "123.4")
    assert drafts["wrong: number, no percent sign"].text == SENTENCES[1].replace("%", "")
    assert drafts["wrong: number, the bound"].text == SENTENCES[1].replace("<", ">")
    assert drafts["wrong: number, a number word"].text == SENTENCES[1].replace("two", "three")
    assert drafts["wrong: negation dropped"].text == SENTENCES[1].replace("did not ", "")
    assert drafts["wrong: other work, not named"].unit_ids == ("u2",)
    assert drafts["wrong: no citation"].unit_ids == ()


def test_right_sentences_cite_their_unit() -> None:
    drafts = list(short_answer.write_right(UNIT))
    assert {draft.unit_ids for draft in drafts} == {("u1",)}
    assert [draft.text for draft in drafts][:2] == [SENTENCES[1], SENTENCES[1].replace(" (p<0.05)", "")]
    assert "didn't reduce the risk of stroke by 12.34 percent" in drafts[2].text


def test_outcomes_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [make_case("1", "d"), make_case("2", "e"), make_case("3", "f")]
    monkeypatch.setattr(short_answer, "read_labels", lambda: {(str(at), doc): "SUPPORT" for at, doc in zip((1, 2, 3), "def", strict=True)})
    outcomes = short_answer.measure(cases)
    assert outcomes["right: verbatim"] == [None] * 3
    assert outcomes["wrong: negation dropped"] == ["negation"] * 3
    assert outcomes["wrong: no citation"] == ["no_citation"] * 3
    table = short_answer.make_precision_table(outcomes)
    assert next(row for row in table.rows if row[0] == "no_citation") == ("no_citation", 3, 0, 1.0)
