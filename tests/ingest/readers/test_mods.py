"""MODS records: articles in a host, books, theses."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, ReadOptions
from outrider.ingest.readers import mods
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import Paper

ARTICLE = """<mods ID="a1">
<titleInfo><nonSort>The</nonSort><title>title of an article</title><subTitle>with a subtitle</subTitle></titleInfo>
<titleInfo type="abbreviated"><title>Title</title></titleInfo>
<name type="personal"><namePart type="family">van Berg</namePart><namePart type="given">Ada</namePart><namePart type="given">M.</namePart>
<role><roleTerm type="text">author</roleTerm></role></name>
<name type="personal"><namePart>Kim, Sun-Hee</namePart><role><roleTerm type="code">aut</roleTerm></role></name>
<name type="personal"><namePart>Editor, An</namePart><role><roleTerm type="code">edt</roleTerm></role></name>
<genre>journal article</genre><language><languageTerm type="code">eng</languageTerm></language>
<abstract>Some words.</abstract><subject><topic>pain</topic><topic>headache</topic></subject>
<subject authority="mesh"><topic>Aspirin</topic><topic>adverse effects</topic></subject>
<identifier type="doi">10.1000/X.1</identifier><identifier type="pmid">12345678</identifier>
<location><url>https://example.org/a</url></location>
<relatedItem type="host"><titleInfo><title>Journal of Testing</title></titleInfo><identifier type="issn">1471-2105</identifier>
<originInfo><dateIssued>1996-07-09</dateIssued><publisher>P</publisher></originInfo>
<part><detail type="volume"><number>93</number></detail><detail type="issue"><caption>no.</caption><number>14</number></detail>
<extent unit="pages"><start>6913</start><end>6917</end></extent></part></relatedItem>
</mods>"""


def read(tmp_path: Path, xml: str) -> list[Paper]:
    path = tmp_path / "a.xml"
    path.write_text(xml, encoding="utf-8")
    records = [entry.record for entry in mods.read(path, ReadOptions()) if isinstance(entry, Entry)]
    return [record for record in records if isinstance(record, Paper)]


def test_an_article(tmp_path: Path) -> None:
    (paper,) = read(tmp_path, f'<modsCollection xmlns="http://www.loc.gov/mods/v3">{ARTICLE}</modsCollection>')
    assert (paper.title, paper.year, paper.venue) == ("The title of an article: with a subtitle", 1996, "Journal of Testing")
    assert (paper.volume, paper.issue, paper.pages, paper.language) == ("93", "14", "6913-6917", "en")
    assert paper.authors == ("van Berg, Ada M.", "Kim, Sun-Hee")
    assert (paper.identifiers.doi, paper.identifiers.pmid) == ("10.1000/x.1", "12345678")
    assert (paper.tags, paper.abstract, paper.url) == (("pain", "headache"), "Some words.", "https://example.org/a")
    assert paper.mesh == ("Aspirin",)
    expected = {"publication_types": ["journal article"], "issn": "1471-2105", "publisher": "P"}
    assert paper.metadata == {**expected, "mesh_qualified": ["Aspirin/adverse effects"]}


def test_a_book_and_an_empty_record(tmp_path: Path) -> None:
    """A single `mods` is a record; names without a role are authors; nothing is reported as nothing."""
    path = tmp_path / "b.mods"
    path.write_text(
        '<m:modsCollection xmlns:m="http://www.loc.gov/mods/v3"><m:mods><m:titleInfo><m:title>A book</m:title></m:titleInfo><m:name>'
        "<m:namePart>Calvino, Italo</m:namePart></m:name><m:originInfo><m:dateIssued>[c1982]</m:dateIssued></m:originInfo>"
        '<m:identifier type="isbn">9783034604796</m:identifier><m:recordInfo><m:recordIdentifier>77</m:recordIdentifier></m:recordInfo>'
        "</m:mods>"
        "<m:mods/></m:modsCollection>"
    )
    book, nothing = mods.read(path, ReadOptions())
    assert isinstance(book, Entry)
    assert (book.own_id, book.record.title, book.record.authors, book.record.year) == ("77", "A book", ("Calvino, Italo",), 1982)
    assert book.record.identifiers.isbn == "9783034604796"
    assert isinstance(nothing, BadEntry)


def test_languages_in_the_form_of_early_versions(tmp_path: Path) -> None:
    (paper,) = read(tmp_path, "<mods><titleInfo><title>T</title></titleInfo><language authority='iso639-2b'>ger</language></mods>")
    assert paper.language == "de"


def test_other_xml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead):
        read(tmp_path, "<other/>")
    with pytest.raises(UnreadableFile):
        read(tmp_path, "<mods>")
