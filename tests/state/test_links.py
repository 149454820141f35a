"""Links of records: addresses of the web, and nothing that a browser would run."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.export import FORMATS, make_writer
from outrider.ingest.readers.select_reader import FileReader, select_reader
from outrider.library.library import Library
from outrider.state.hits import Hit
from outrider.state.records import RECORD, Paper, Record, link_scheme, web_link

SCRIPTS = [
    "javascript:alert(1)", "javascript:1/alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)",
    "java\nscript:alert(1)",
    "\x01javascript:alert(1)", "javascript&#58;alert(1)", "&#x6A;avascript:alert(1)", "javascript&colon;alert(1)",
    "java\u200bscript:alert(1)", "javascript\uff1aalert(1)", "\u00a0javascript:alert(1)",
    "vbscript:msgbox(1)", "data:text/html,<script>alert(1)</script>",
    "data:;base64,PHNjcmlwdD4=", "DATA:text/html;charset=utf-8,x",
]  # fmt: skip
OTHERS = [
    "file:///etc/passwd",
    "ftp://ftp.example.org/a",
    "mailto:a@example.org",
    "zotero://select/1",
    "blob:x",
    "view-source:http://e.org",
]
WEB = [
    "https://example.org/a?b=javascript:1", "HTTP://example.org", "www.example.org/a", "example.org:8080/x", "localhost:8000",
    "//example.org",
    "/a/b", "10.1000/x:y", "https://doi.org/10.1000/(sici)1:2<3::aid>4", "",
]  # fmt: skip


@pytest.mark.parametrize("address", [*SCRIPTS, *OTHERS])
def test_only_the_web_is_a_link(address: str) -> None:
    assert web_link(address) is None
    assert Paper(doc_id="", url=address).url is None
    assert Hit(rank=1, doc_id="", kind="paper", title="", score=0, url=address).url is None


@pytest.mark.parametrize("address", WEB)
def test_addresses_of_the_web_stay_as_they_are(address: str) -> None:
    assert web_link(address) == Paper(doc_id="", url=address).url == address


@given(st.text(max_size=30), st.sampled_from(["javascript:", "vbscript:"]), st.text("\t\n\r", max_size=3), st.integers(0, 11))
def test_no_white_space_hides_a_scheme(payload: str, scheme: str, gap: str, place: int) -> None:
    """Browsers remove tabs and line ends from an address, and what is before its first letter."""
    assert link_scheme(gap + scheme[:place] + gap + scheme[place:] + payload) == scheme[:-1]


@pytest.mark.parametrize("address", SCRIPTS)
def test_scripts_are_not_kept_in_the_metadata_either(address: str) -> None:
    """In no field, list or object; a text that only speaks of them stays."""
    metadata = {"L1": address, "links": [address, "https://e.org"], "deep": {"a": [{"b": address}]}, "note": "on javascript: urls", "n": 1}
    record = RECORD.validate_python({"kind": "paper", "doc_id": "", "metadata": metadata})
    assert record.metadata == {"links": ["https://e.org"], "deep": {"a": [{}]}, "note": "on javascript: urls", "n": 1}


FILES = {
    "refs.ris": "TY  - JOUR\nTI  - T\nUR  - {0}\nUR  - https://e.org/2\nL1  - {0}\nL2  - {0}\nER  - \n",
    "refs.bib": "@misc{{k, title={{T}}, url={{{0}}}, link={{{0}}}, pdf={{{0}}}, howpublished={{\\url{{{0}}}}}}}\n",
    "refs.csv": 'title,url,L1\nT,"{0}","{0}"\n',
    "refs.jsonl": '{{"title": "T", "url": "{0}", "links": ["{0}"]}}\n',
    "refs.xml": "<xml><records><record><titles><title>T</title></titles><urls><related-urls><url>{0}</url></related-urls>"
    "<pdf-urls><url>{0}</url></pdf-urls></urls></record></records></xml>",
    "note.md": "---\ntitle: T\nurl: '{0}'\nlink: '{0}'\n---\nText\n",
}


def read(path: Path) -> list[Record]:
    reader = select_reader(path)
    assert isinstance(reader, FileReader)
    return [entry.record for entry in reader.read(path, ReadOptions()) if isinstance(entry, Entry)]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "vbscript:alert(1)", "JAVASCRIPT:alert(1)"])
@pytest.mark.parametrize("name", FILES)
def test_no_reader_and_no_export_passes_a_script_on(name: str, address: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name].format(address))
    (record,) = read(tmp_path / name)
    for form in FORMATS:
        stream = io.StringIO(newline="")
        writer = make_writer(form, stream)
        writer.begin()
        writer.record(record)
        writer.end()
        assert "alert" not in stream.getvalue(), form
    assert "alert" not in record.model_dump_json()


@pytest.mark.parametrize("form", ["bibtex", "ris", "markdown"])
def test_other_schemes_are_texts_of_the_metadata_and_no_links_of_an_export(form: str, tmp_path: Path) -> None:
    """An address of another scheme is not lost; the first one of the web is the link."""
    (tmp_path / "refs.ris").write_text(
        "TY  - JOUR\nTI  - T\nUR  - ftp://example.org/a\nUR  - https://example.org/b\nL1  - file:///home/a.pdf\nL1  - a/b.pdf\nER  - \n"
    )
    (record,) = read(tmp_path / "refs.ris")
    assert (record.url, record.metadata["UR"]) == ("https://example.org/b", "ftp://example.org/a")
    stream = io.StringIO(newline="")
    make_writer(form, stream).record(record)
    assert "https://example.org/b" in stream.getvalue()
    assert "ftp:" not in stream.getvalue()
    assert "file:" not in stream.getvalue()
    assert form != "ris" or "L1  - a/b.pdf" in stream.getvalue()


def test_a_file_in_bibtex_is_written_unless_it_is_an_address() -> None:
    stream = io.StringIO(newline="")
    for text in ("Snapshot:/home/a.html:text/html", ":home/a.pdf:PDF", "file:///home/secret.pdf"):
        make_writer("bibtex", stream).record(Paper(doc_id="d", title="T", metadata={"file": text}))
    assert stream.getvalue().count("file = {") == 2
    assert "secret" not in stream.getvalue()


async def test_a_library_of_an_earlier_version_gives_no_script_away(tmp_path: Path) -> None:
    """Its stored records are read through the same gate."""
    library = await Library.open(tmp_path / "library", create=True)
    before = Paper(doc_id="a", title="Liver").model_copy(update={"url": "javascript:alert(1)", "metadata": {"L2": "javascript:alert(1)"}})
    await library.upsert([before])
    found = [hit.record for hit in await library.search("liver")] + await library.fetch(["a"]) + [one async for one in library.scan()]
    assert [(record.url, record.metadata) for record in found] == [(None, {})] * 3
    library.close()


def test_a_saved_answer_gives_no_script_away() -> None:
    hit = Hit(rank=1, doc_id="a", kind="paper", title="T", score=1)
    saved = {**json.loads(hit.model_dump_json()), "url": "javascript:alert(1)", "metadata": {"x": "javascript:alert(1)"}}
    assert "alert" not in Hit.model_validate_json(json.dumps(saved)).model_dump_json()
