"""Texts that nobody wrote to be read: no crash, in linear time, with offsets into the text and at most the allowed units."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.distiller.distiller import Distiller
from outrider.distiller.engines.answering import Answering
from outrider.distiller.engines.by_kind_of_text import ByKindOfText
from outrider.distiller.engines.ensemble import Ensemble
from outrider.distiller.engines.lexical import Lexical, Rhetoric
from outrider.distiller.selection import SelectionSettings
from outrider.distiller.structure.read_structure import read_structure
from outrider.state.distilling import Distilled, Reading
from support.token_embedder import TokenEmbedder

QUESTION = "How many units may a hit have, and where does it say so?"
JUNK = frozenset({"heading", "badge", "links", "furniture"})
MAX_UNITS, MAX_UNITS_FIRST = 3, 5
ENGINES = {
    "words": ByKindOfText(Ensemble((Lexical(), Rhetoric())), Answering()),
    "words+": ByKindOfText(Ensemble((Lexical(), Rhetoric())), Answering(TokenEmbedder(), 800)),  # type: ignore[arg-type]
}

HOSTILE: dict[str, Callable[[int], str]] = {
    "one line": lambda n: "a hit may have many units " * (n // 26),
    "one word": lambda n: "a" * n,
    "brackets": lambda n: "[" * n,
    "parted brackets": lambda n: "[ " * (n // 2),
    "brackets and links": lambda n: "[a](" * (n // 4),
    "images": lambda n: "![" * (n // 2),
    "asterisks": lambda n: "*a " * (n // 3),
    "ticks": lambda n: "".join("`" * (k % 60 + 1) + "a" for k in range(n // 31)),
    "nested list": lambda n: "".join(f"{' ' * min(k, 5_000)}- unit {k}\n" for k in range(int((2 * n) ** 0.5))),
    "nested quotes": lambda n: "\n".join(">" * min(k, 3_000) + " unit" for k in range(1, int((2 * n) ** 0.5))),
    "table": lambda n: "# Units\n\n| hit | units |\n|---|---|\n" + "| a | 3 |\n" * (n // 10),
    "wide table": lambda n: "| a " * (n // 8) + "|\n" + "|---" * (n // 8) + "|\n",
    "wide header": lambda n: "| " + "units " * (n // 12) + "| hit |\n|---|---|\n" + "| a | 3 |\n" * (n // 20),
    "rst table": lambda n: "=====  =====\nhit    units\n=====  =====\n" + "a      3\n" * (n // 9) + "=====  =====\n",
    "long heading": lambda n: "# " + "units " * (n // 12) + "\n\n" + "A hit has three.\n\n" * (n // 36),
    "long lead-in": lambda n: "# Units\n\n" + "many units " * (n // 22) + ":\n\n" + "- a hit has three\n" * (n // 36),
    "headings": lambda n: "".join(f"{'#' * (k % 6 + 1)} Units {k}\n\nA hit has {k}.\n\n" for k in range(n // 30)),
    "line ends": lambda n: "A hit\r\nhas\rthree\nunits.\r\n\r\n# Units\r\r" * (n // 36),
    "nulls": lambda n: "# Units\n\nA hit\x00 has three\x00.\n\n" * (n // 28),
    "open fence": lambda n: "# Units\n\n```\n" + "units = 3\n" * (n // 10),
    "open fences": lambda n: "# Units\n\n" + "```python\nunits = 3\n" * (n // 20),
    "open html": lambda n: "<div><p>A hit has <b>three units<table><tr><td>" * (n // 47),
    "open tag": lambda n: "<p>units</p>" + "<a href='" * (n // 9),
    "open comment": lambda n: "<p>units</p>" + "<!-- " * (n // 5),
    "entities": lambda n: "<p>units &amp;" * (n // 14),
    "links": lambda n: "\n".join(f"[{k}]: https://example.org/{k}" for k in range(n // 28)) + "\n\n# Units\n\nA hit has [three][1].",
    "references": lambda n: "[a][b] " * (n // 7) + "\n\n[b]: https://example.org\n",
    "directives": lambda n: "Units\n=====\n\n" + ".. note:: A hit has three units.\n\n" * (n // 34),
    "commas": lambda n: "# Units\n\n" + "," * n,
    "full stops": lambda n: "# Units\n\n" + "A hit has three. " * (n // 17),
    "spaces": lambda n: "# Units\n\n" + " " * n + "a hit has three",
    "surrogates": lambda n: "# Units\n\n" + "A hit has \ud800 three. " * (n // 20),
}


def distil(text: str, engine: str = "words+", second: str = "") -> Distilled:
    limits = SelectionSettings(max_units=MAX_UNITS, max_units_first=MAX_UNITS_FIRST)
    readings = [Reading("a", text), *([Reading("b", second)] if second else [])]
    return Distiller(ENGINES[engine], selection=limits).distil(QUESTION, readings)


def check(result: Distilled, texts: dict[str, str]) -> None:
    for unit in result.units:
        assert texts[unit.doc_id][unit.start : unit.end] == unit.text != ""
        assert unit.kind in ("sentence", "item", "row", "code")
        assert 0 <= unit.score <= 1
    for name, most in (("a", MAX_UNITS_FIRST), ("b", MAX_UNITS)):
        spans = sorted((unit.start, unit.end) for unit in result.units if unit.doc_id == name)
        assert len(spans) <= most
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    for name, text in texts.items():
        junk = [block for block in read_structure(text) if block.kind in JUNK]
        own = [unit for unit in result.units if unit.doc_id == name]
        assert not any(unit.start < block.end and block.start < unit.end for unit in own for block in junk)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", HOSTILE)
def test_a_hostile_text_is_distilled(shape: str, engine: str) -> None:
    text = HOSTILE[shape](20_000)
    check(distil(text, engine), {"a": text})


@pytest.mark.parametrize("shape", HOSTILE)
def test_the_time_is_linear_in_the_length(shape: str) -> None:
    """In CPU time; a quadratic step would take sixteen times as long for four times the text."""
    least = []
    for size in (20_000, 80_000):
        text = HOSTILE[shape](size)
        times = []
        for _ in range(2):
            start = time.thread_time()
            read_structure(text)
            times.append(time.thread_time() - start)
        least.append(min(times))
    assert least[1] < 9 * least[0] + 0.2


@pytest.mark.parametrize("shape", ["one line", "one word", "brackets", "table", "commas"])
def test_two_megabytes_are_distilled(shape: str) -> None:
    text = HOSTILE[shape](2_000_000)
    start = time.thread_time()
    result = distil(text)
    assert time.thread_time() - start < 60
    check(result, {"a": text})


PIECES = st.sampled_from(
    [
        *("# Units", "## License", "A hit has three units.", "- an item with units", "  - nested", "1. first", "| a | b |", "|---|---|"),
        *("```", "~~~", "    code", "> quote", "[x]: https://e.org", "[![b](https://e.org/b.svg)](https://e.org)", "<div>", "</div>"),
        *("<p>units</p>", "<!--", "-->", "Title\n=====", ".. note::", ".. image:: x.png", "It does so.", "::", "a\x00b", "\r", "\r\n"),
        *("\u2028", "中文 单位。", "References", ""),
    ]
)
ENDS = st.sampled_from(["\n", "\n\n", "\r\n", " ", "\r"])


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES | st.text(max_size=30), max_size=40), ENDS, st.sampled_from(list(ENGINES)))
def test_any_mixture_of_marks_is_distilled(pieces: list[str], end: str, engine: str) -> None:
    first, second = end.join(pieces), end.join(reversed(pieces))
    check(distil(first, engine, second), {"a": first, "b": second})
