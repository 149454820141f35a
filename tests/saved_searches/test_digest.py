"""Digests: Markdown, feeds that a strict parser reads, and text from outside that stays text."""

from __future__ import annotations

import uuid
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from defusedxml import ElementTree
from lxml import etree, html
from markdown_it import MarkdownIt

from outrider.saved_searches.digest import ATOM, make_payload, write_atom, write_markdown, write_rss
from outrider.state.saved import RunDifference, SavedRun, SavedSearch, WorkChange

HOSTILE = "<script>alert(1)</script> & ]]> \x00\x0b\ud800 [click](javascript:alert(1)) **bold** | `code` \u202e\nnext"
ADDRESS = "http://127.0.0.1:8000/api/saved/liver/feed.atom?a=1&b=2"
TAG = f"{{{ATOM}}}"


def make_saved(name: str = "ann/liver") -> SavedSearch:
    return SavedSearch(id="0" * 31 + "1", name=name, kind="search", request={"query": HOSTILE}, created_at=1_790_000_000.0)


def make_runs(works: int = 3) -> list[tuple[SavedRun, RunDifference | None]]:
    changes = [
        WorkChange(
            change=("new", "changed", "gone", "missing")[number % 4],  # type: ignore[arg-type]
            cause="record changed",
            doc_id=f"w{number}",
            title=HOSTILE,
            authors=(HOSTILE,),
            year=2020,
            url="javascript:alert(1)" if number else "https://example.org/?a=1&b=<2>",
            why=HOSTILE,
        )
        for number in range(works)
    ]
    difference = RunDifference(
        name="liver", before=1, after=2, before_at=1.79e9, after_at=1.791e9, works_before=5, works_after=6, works=tuple(changes),
        counts_only=2, remarks=(HOSTILE,),
    )  # fmt: skip
    second = SavedRun(number=2, status="complete", started_at=1.791e9, finished_at=1.7911e9, works=6)
    return [(second, difference), (SavedRun(number=1, status="complete", started_at=1.79e9, finished_at=1.79e9, works=5), None)]


def parse_strictly(text: str) -> Any:
    """By two parsers: none may recover from anything."""
    etree.fromstring(text.encode(), etree.XMLParser(recover=False, resolve_entities=False))
    return ElementTree.fromstring(text, forbid_dtd=True)


def check_html(content: str) -> None:
    """Nothing of a title became an element; only the one web address is a link."""
    tree = html.fromstring(f"<div>{content}</div>")
    assert {element.tag for element in tree.iter()} <= {"div", "p", "h3", "ul", "li", "a", "br"}
    assert [link.get("href") for link in tree.iter("a")] == ["https://example.org/?a=1&b=<2>"]
    assert "<script>alert(1)</script>" in tree.text_content()


def test_an_atom_feed_has_what_rfc_4287_requires() -> None:
    feed = parse_strictly(write_atom(make_saved(), make_runs(), ADDRESS))
    entries = feed.findall(f"{TAG}entry")
    assert feed.tag == f"{TAG}feed"
    for element in (feed, *entries):  # RFC 4287, 4.1.1 and 4.1.2: exactly one of each
        assert [len(element.findall(f"{TAG}{name}")) for name in ("id", "title", "updated")] == [1, 1, 1]
        assert uuid.UUID(element.findtext(f"{TAG}id"))
        assert datetime.fromisoformat(element.findtext(f"{TAG}updated")).tzinfo is not None
    assert feed.find(f"{TAG}author/{TAG}name").text == "Outrider"
    assert feed.find(f"{TAG}link").attrib == {"rel": "self", "type": "application/atom+xml", "href": ADDRESS}
    assert [entry.findtext(f"{TAG}title") for entry in entries] == ["liver: 1 new, 1 changed, 1 gone", "liver: first run: 5 works"]
    assert entries[0].find(f"{TAG}content").get("type") == "html"
    check_html(entries[0].findtext(f"{TAG}content"))


def test_an_rss_feed_has_what_rss_2_requires() -> None:
    rss = parse_strictly(write_rss(make_saved(), make_runs(), ADDRESS))
    channel = rss.find("channel")
    assert (rss.tag, rss.get("version"), len(rss.findall("channel"))) == ("rss", "2.0", 1)
    assert all(channel.findtext(name) for name in ("title", "link", "description"))
    items = channel.findall("item")
    assert len(items) == 2
    for item in items:
        assert item.find("guid").get("isPermaLink") == "false"
        assert parsedate_to_datetime(item.findtext("pubDate")).tzinfo is not None
    check_html(items[0].findtext("description"))


def test_ids_of_entries_never_change() -> None:
    saved, runs = make_saved(), make_runs()
    renamed = saved.model_copy(update={"name": "other"})
    texts = [write_atom(saved, runs), write_atom(renamed, runs[1:]), write_rss(saved, runs)]
    first = parse_strictly(texts[0]).findall(f"{TAG}entry")[1].findtext(f"{TAG}id")
    assert parse_strictly(texts[1]).find(f"{TAG}entry").findtext(f"{TAG}id") == first
    assert parse_strictly(texts[2]).findall("channel/item")[1].findtext("guid") == first
    assert len({make_payload(saved, run, runs[0][1])["id"] for run, _ in runs}) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("write", [write_atom, write_rss])
def test_a_feed_without_runs_and_address_is_whole(write: Any) -> None:
    parse_strictly(write(make_saved(), []))


def test_markdown_shows_titles_as_text() -> None:
    text = write_markdown(make_saved(), make_runs()[0][1])  # type: ignore[arg-type]
    rendered = MarkdownIt("commonmark").render(text)
    tree = html.fromstring(rendered)
    assert {element.tag for element in tree.iter()} <= {"div", "h1", "h2", "p", "ul", "li", "a"}
    assert [link.get("href") for link in tree.iter("a")] == [], "an address with < or > is no link"
    assert "## New (1)" in text
    assert tree.text_content().count("[click](javascript:alert(1))") >= 3
    assert "Only counts, such as citations, changed in 2 more." in text


def test_long_digests_are_cut_and_say_so() -> None:
    saved, runs = make_saved(), make_runs(250)
    payload = make_payload(saved, runs[0][0], runs[0][1])  # type: ignore[arg-type]
    assert (len(payload["works"]), payload["more"], payload["counts"]["new"]) == (100, 150, 63)
    assert "And 150 more." in write_atom(saved, runs)
    assert write_markdown(saved, runs[0][1]).count("\n- ") == 251, "a file has them all, and one remark"  # type: ignore[arg-type]
