"""Digests of a saved search: Markdown, RSS and Atom, and the body of a webhook

RSS 2.0 (rssboard.org/rss-specification) and Atom (RFC 4287), written by the standard library's XML writer. An entry's id is made of the
saved search and the number of its run, so it never changes. Text from outside is escaped, and characters that XML forbids are left out.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from typing import Any
from xml.etree import ElementTree as ET

from outrider.state.records import web_link
from outrider.state.saved import Change, RunDifference, SavedRun, SavedSearch, WorkChange
from outrider.text.sanitize import without_control

ATOM = "http://www.w3.org/2005/Atom"
MAX_ENTRIES = 20
"""Runs in a feed."""
MAX_WORKS = 100
"""Works of one entry of a feed, and of a webhook."""
HEADINGS: Mapping[Change, str] = {"new": "New", "changed": "Changed", "gone": "Gone", "missing": "Not known, because a source failed"}
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""
MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")
Runs = Sequence[tuple[SavedRun, RunDifference | None]]
"""Complete runs, the newest first, each with its difference from the one before."""


def own_name(saved: SavedSearch) -> str:
    """The name without that of its owner."""
    return saved.name.rpartition("/")[2]


def summarize(run: SavedRun, difference: RunDifference | None) -> str:
    """`3 new, 1 changed`; of the first run the number of works."""
    if difference is None:
        return f"first run: {run.works:,} work{'s' if run.works != 1 else ''}"
    counts = [f"{difference.count(change):,} {change}" for change in HEADINGS if difference.count(change)]
    return ", ".join(counts) or "nothing changed"


def write_markdown(saved: SavedSearch, difference: RunDifference) -> str:
    """What changed from one run to another, as Markdown."""
    times = (
        f"Run {difference.before} of {_format_date(difference.before_at)} to run {difference.after} of {_format_date(difference.after_at)}"
    )
    lines = [f"# {_escape(own_name(saved))}", "", f"{times}: {difference.works_before:,} works before, {difference.works_after:,} now.", ""]
    for change, heading in HEADINGS.items():
        works = [work for work in difference.works if work.change == change]
        if works:
            lines += [f"## {heading} ({len(works):,})", "", *(_format_markdown(work) for work in works), ""]
    if difference.is_empty:
        lines += ["Nothing changed.", ""]
    if difference.counts_only:
        lines += [f"Only counts, such as citations, changed in {difference.counts_only:,} more.", ""]
    if difference.still_missing:
        lines += [f"{difference.still_missing:,} more were missing before, and still are: their source failed again.", ""]
    if difference.remarks:
        lines += ["## Remarks", "", *(f"- {_escape(remark)}" for remark in difference.remarks), ""]
    return "\n".join(lines)


def _format_markdown(work: WorkChange) -> str:
    title = _escape(work.title or work.doc_id)
    url = web_link(work.url) or ""
    link = f"[{title}](<{url}>)" if url and not re.search(r"[<>\s\\]", url) else title
    described = _escape(_describe(work))
    return f"- {link}{' ' if described else ''}{described}\n  {_escape(_explain(work))}"


def _describe(work: WorkChange) -> str:
    authors = ", ".join(work.authors[:3]) + (" et al." if len(work.authors) > 3 else "")
    parts = [part for part in (authors, work.venue, str(work.year or "")) if part]
    return f" ({'; '.join(parts)})" if parts else ""


def _explain(work: WorkChange) -> str:
    fields = f" ({', '.join(work.fields)})" if work.fields else ""
    return f"{work.cause}{fields}{': ' if work.why else ''}{work.why} [{work.doc_id}]"


def _escape(text: str) -> str:
    return MARKUP.sub(r"\\\1", " ".join(without_control(_clean(text)).split()))


def write_atom(saved: SavedSearch, runs: Runs, address: str = "") -> str:
    """The newest runs as an Atom feed; `address` is its own."""
    ET.register_namespace("", ATOM)
    feed = ET.Element(f"{{{ATOM}}}feed")
    newest = runs[0][0].finished_at if runs else saved.created_at
    _add(feed, "id", _name_entry(saved, 0))
    _add(feed, "title", f"{own_name(saved)} - Outrider")
    _add(feed, "updated", _format_time(newest or saved.created_at))
    _add(_add(feed, "author", ""), "name", "Outrider")
    if address:
        ET.SubElement(feed, f"{{{ATOM}}}link", {"rel": "self", "type": "application/atom+xml", "href": _clean(address)})
    for run, difference in runs[:MAX_ENTRIES]:
        entry = ET.SubElement(feed, f"{{{ATOM}}}entry")
        _add(entry, "id", _name_entry(saved, run.number))
        _add(entry, "title", f"{own_name(saved)}: {summarize(run, difference)}")
        _add(entry, "updated", _format_time(run.finished_at or run.started_at))
        _add(entry, "content", _write_html(run, difference)).set("type", "html")
    return _serialize(feed)


def write_rss(saved: SavedSearch, runs: Runs, address: str = "") -> str:
    """The newest runs as an RSS 2.0 feed."""
    ET.register_namespace("atom", ATOM)
    rss = ET.Element("rss", {"version": "2.0"})
    channel = ET.SubElement(rss, "channel")
    fields = {
        "title": f"{own_name(saved)} - Outrider",
        "link": address or "about:blank",
        "description": f"What changed in the saved search: {saved.query}",
    }
    for name, text in fields.items():
        ET.SubElement(channel, name).text = _clean(text)
    if address:
        ET.SubElement(channel, f"{{{ATOM}}}link", {"rel": "self", "type": "application/rss+xml", "href": _clean(address)})
    for run, difference in runs[:MAX_ENTRIES]:
        item = ET.SubElement(channel, "item")
        ET.SubElement(item, "title").text = _clean(f"{own_name(saved)}: {summarize(run, difference)}")
        ET.SubElement(item, "guid", {"isPermaLink": "false"}).text = _name_entry(saved, run.number)
        ET.SubElement(item, "pubDate").text = format_datetime(datetime.fromtimestamp(run.finished_at or run.started_at, UTC))
        ET.SubElement(item, "description").text = _clean(_write_html(run, difference))
    return _serialize(rss)


def make_payload(saved: SavedSearch, run: SavedRun, difference: RunDifference) -> dict[str, Any]:
    """The body of a webhook."""
    works = [work.model_dump(mode="json", exclude_defaults=True) for work in difference.works[:MAX_WORKS]]
    return {
        "event": "saved.run",
        "id": _name_entry(saved, run.number),
        "saved": {"name": own_name(saved), "kind": saved.kind, "query": saved.query},
        "run": run.number,
        "before": difference.before,
        "at": _format_time(run.finished_at or run.started_at),
        "counts": {change: difference.count(change) for change in HEADINGS} | {"counts_only": difference.counts_only},
        "works": works,
        "more": len(difference.works) - len(works),
        "remarks": list(difference.remarks),
    }


def _write_html(run: SavedRun, difference: RunDifference | None) -> str:
    return "".join(_iter_html(run, difference))


def _iter_html(run: SavedRun, difference: RunDifference | None) -> Iterator[str]:
    yield f"<p>{escape(summarize(run, difference).capitalize())}.</p>"
    left = MAX_WORKS
    for change, heading in HEADINGS.items() if difference else ():
        assert difference is not None  # noqa: S101 - as the loop says
        works = [work for work in difference.works if work.change == change][:left]
        left -= len(works)
        if works:
            yield f"<h3>{heading}</h3><ul>"
            yield from (f"<li>{_link(work)}{escape(_describe(work))}<br>{escape(_explain(work))}</li>" for work in works)
            yield "</ul>"
    if difference and len(difference.works) > MAX_WORKS:
        yield f"<p>And {len(difference.works) - MAX_WORKS:,} more.</p>"
    yield from (f"<p>{escape(remark)}</p>" for remark in (difference.remarks if difference else ()))


def _link(work: WorkChange) -> str:
    title, url = escape(work.title or work.doc_id), web_link(work.url)
    return f'<a href="{escape(url)}">{title}</a>' if url and url.startswith(("http://", "https://")) else title


def _name_entry(saved: SavedSearch, number: int) -> str:
    return uuid.uuid5(uuid.UUID(saved.id), f"run {number}" if number else "feed").urn


def _add(parent: ET.Element, name: str, text: str) -> ET.Element:
    element = ET.SubElement(parent, f"{{{ATOM}}}{name}")
    element.text = _clean(text) or None
    return element


def _clean(text: str) -> str:
    return FORBIDDEN.sub(" ", text)


def _serialize(root: ET.Element) -> str:
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _format_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _format_date(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"
