"""Four hits for the comparison: usual ones, and one of the worst that sources return."""

from __future__ import annotations

from typing import Any

RTL = "هل يضر الأسبرين الكبد؟ مراجعة منهجية للجرعات العالية لدى البالغين"
LONG = "A library that retries failing calls " * 11
NAMES = ("activity", "community", "documentation", "ease_of_use", "maintenance", "maturity")


def make_hit(rank: int, title: str, **fields: Any) -> dict[str, Any]:
    """A hit as the answer has it, as far as the comparison reads it."""
    base = {
        "rank": rank, "doc_id": f"hit:{rank}", "kind": "paper", "title": title, "url": f"https://example.org/{rank}", "authors": [],
        "year": None, "venue": None, "citations": None, "stars": None, "language": None, "score": 0.5, "scored_by": "rules", "reason": "",
        "found_by": [{"source": "library", "strategy": "lance_fts", "rank": 1, "query": "q"}], "duplicates": [], "related": [], "radar": [],
        "flags": [], "summary": "", "content": "", "answers": "unread", "metadata": {},
    }  # fmt: skip
    return {**base, **fields}


def make_radar(*scores: float | None) -> list[dict[str, Any]]:
    return [
        {"dimension": name, "score": score, **({"counted": 2.6, "missing": ["stars"]} if score is None else {"reason": "as measured"})}
        for name, score in zip(NAMES, scores, strict=True)
    ]


def make_reading(*sentences: str) -> dict[str, Any]:
    parts = [[{"text": text, "is_code": False, "kept": at}] for at, text in enumerate(sentences)]
    pieces = [{"start": at, "kind": "sentence", "parts": one, "more_lines": 0} for at, one in enumerate(parts)]
    return {"why": ["matched by words"], "pieces": pieces, "summary": "", "hidden": 0}


QUOTE = "Tenacity is a general-purpose retrying library that simplifies the task of adding retry behavior to just about anything. "
HITS: list[dict[str, Any]] = [
    make_hit(
        1, "jd/tenacity", kind="repository", authors=["Danjou, J."], year=2016, stars=7_234, language="Python",
        score=0.91, scored_by="model", reason="A library for exactly this: retries with back-off, as decorators.",
        radar=make_radar(8.2, 9.1, 6, 8, 7.3, 10), found_by=[{"source": "github"}, {"source": "library"}],
        reading=make_reading(QUOTE * 4, "Short end."), answers="yes", metadata={"licence": "Apache-2.0", "version": "9.1.2"},
    ),
    make_hit(
        2, LONG, kind="repository", stars=12, scored_by="model", score=0.62, radar=make_radar(None, None, 6, 8, None, None),
        answers="no", summary="Retries, as its title says at length.", reason="Retries.", metadata={"archived": True},
    ),
    make_hit(
        3, RTL, authors=[f"Author {at}" for at in range(40)], year=2019, venue="مجلة الكبد", citations=1_204,
        answers="perhaps", reading=make_reading(RTL * 6), reason="title has: aspirin",
        notices=[{"kind": "retracted", "reported_by": ["openalex"]}, {"kind": "corrected"}],
        metadata={"retracted": True}, related=[{"relation": "corrected by", "doc_id": "y", "title": ""}],
    ),
    make_hit(
        4, "", url="javascript:alert(1)", kind="repository", venue='<img src=x onerror="document.title=1">',
        radar=make_radar(9, 9, 0, 1, 10, 2.25), flags=["instruction"], content="<b>bold</b> & more",
        found_by=[{"source": "crossref"}, {"source": "pypi"}],
    ),
]  # fmt: skip
