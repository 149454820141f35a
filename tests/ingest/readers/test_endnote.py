"""EndNote XML."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers import endnote
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper
from support.shared_data import DATA

SAVED = DATA / "dedup" / "tafenoquine.endnote.xml"
RECORD = """<record><database name="x.enl" path="C:\\x.enl">x.enl</database><rec-number>19</rec-number>
<ref-type name="Journal Article">17</ref-type>
<contributors><authors><author><style face="normal">Baird, J. K.</style></author><author>Smith; Sons</author></authors>
<secondary-authors><author>Editor, E.</author></secondary-authors></contributors>
<titles><title><style>Therapy of </style><style face="italic">P. vivax</style></title><secondary-title>Clin Rev</secondary-title></titles>
<periodical><full-title>Clin Rev</full-title><abbr-1>C. R.</abbr-1></periodical><pages>1-9</pages><volume>32</volume><number>4</number>
<keywords><keyword>Humans</keyword><keyword>*G6PD</keyword></keywords>
<dates><year>2019</year><pub-dates><date>Sep 18</date></pub-dates></dates>
<isbn>0893-8512 (Print)&#xD;0893-8512</isbn><accession-num>31366609</accession-num><abstract>One&#xD;Two</abstract>
<electronic-resource-num>10.1128/CMR.00011-19</electronic-resource-num><language>eng</language><custom2>PMC6750137</custom2>
<remote-database-provider>NLM</remote-database-provider><notes>n</notes>
<urls><related-urls><url>https://example.org/1</url><url>https://example.org/2</url></related-urls></urls></record>"""


def entries(tmp_path: Path, text: str | bytes) -> list[Parsed]:
    path = tmp_path / "some.xml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(endnote.read(path, ReadOptions()))


def test_a_record_with_everything(tmp_path: Path) -> None:
    """Styled runs are joined; each element goes to its place or stays under its name."""
    (only,) = entries(tmp_path, f"<?xml version='1.0'?><xml><records>{RECORD}</records></xml>")
    assert isinstance(only, Entry)
    read = only.record
    assert isinstance(read, Paper)
    assert only.own_id == "19"
    assert (read.title, read.venue, read.year, read.volume, read.issue) == ("Therapy of P. vivax", "Clin Rev", 2019, "32", "4")
    assert read.authors == ("Baird, J. K.", "Smith; Sons")
    assert read.abstract == "One\nTwo"
    assert read.tags == ("Humans", "*G6PD")
    assert read.identifiers.model_dump(exclude_none=True) == {"doi": "10.1128/cmr.00011-19", "pmid": "31366609", "pmcid": "PMC6750137"}
    assert read.metadata == {
        "database": "x.enl", "rec-number": "19", "ref-type": "Journal Article", "secondary-authors": "Editor, E.", "notes": "n",
        "periodical": ["Clin Rev", "C. R."], "pub-dates": "Sep 18", "issn": "0893-8512",
        "remote-database-provider": "NLM", "related-urls": "https://example.org/2",
    }  # fmt: skip


def test_a_truncated_file_gives_what_came_before(tmp_path: Path) -> None:
    """Records before the break are read, the break is reported."""
    first, broken = entries(tmp_path, f"<xml><records>{RECORD}<record><titles><title>Half")
    assert isinstance(first, Entry)
    assert isinstance(broken, BadEntry)
    assert broken.where == "after record 1"


def test_entity_expansion_is_refused(tmp_path: Path) -> None:
    """A file that declares entities is refused before any is expanded."""
    declared = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    bomb = declared + "<xml><records><record><titles><title>&b;</title></titles></record></records></xml>"
    with pytest.raises(UnreadableFile, match="entities"):
        entries(tmp_path, bomb)


def test_an_empty_record_is_reported(tmp_path: Path) -> None:
    """A record number alone is no record."""
    (only,) = entries(tmp_path, "<xml><records><record><rec-number>1</rec-number></record></records></xml>")
    assert isinstance(only, BadEntry)


@pytest.mark.parametrize("content", [b"", b"<xml><records/></xml>", b"no xml", b"\x00\x01\x02", b"<xml>" * 1000])
def test_no_endnote_in_it(tmp_path: Path, content: bytes) -> None:
    """A file without a record is refused, whatever it is."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content)


@pytest.mark.skipif(not SAVED.is_file(), reason=f"no shared data at {SAVED}")
def test_a_real_export() -> None:
    """179 records, all with title and own id; PubMed's accession numbers are PMIDs; the marks of duplicates stay."""
    read = list(endnote.read(SAVED, ReadOptions()))
    records = [parsed.record for parsed in read if isinstance(parsed, Entry)]
    assert len(records) == len(read) == 179
    assert all(record.title for record in records)
    assert len({parsed.own_id for parsed in read if isinstance(parsed, Entry)}) == 179
    assert sum(record.metadata.get("caption") == "Duplicate" for record in records) == 114
