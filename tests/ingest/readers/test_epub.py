"""E-books of EPUB 2 and 3, with and without faults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.readers import epub
from outrider.ingest.readers.packed_file import MAX_TREE_BYTES
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import BaseRecord
from support.packed_members import write_packed

CONTAINER = (
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
HEAD = '<?xml version="1.0" encoding="UTF-8"?><html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
PROSE = "Phages lyse bacteria within an hour."
METADATA = "<dc:title>Phages of warm water</dc:title>"
ENCRYPTED = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#">'
    '<EncryptionMethod Algorithm="{}"/><CipherData><CipherReference URI="{}"/></CipherData></EncryptedData></encryption>'
)


def page(body: str, title: str = "") -> str:
    return f"{HEAD}<head><title>{title}</title></head><body>{body}</body></html>"


def write_epub(
    path: Path, pages: Mapping[str, str | bytes], metadata: str = METADATA, files: Mapping[str, str | bytes] | None = None, spine: str = ""
) -> Path:
    """A book of these pages in this order; `files` replaces or adds members, and an empty one is left out."""
    items = "".join(f'<item id="i{at}" href="{name}" media-type="application/xhtml+xml"/>' for at, name in enumerate(pages))
    order = spine or "".join(f'<itemref idref="i{at}"/>' for at in range(len(pages)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/" '
        f'xmlns:opf="http://www.idpf.org/2007/opf">{metadata}</metadata><manifest>{items}'
        '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
        '<item id="cover" href="cover.svg" media-type="image/svg+xml"/></manifest>'
        f'<spine><itemref idref="cover"/><itemref idref="nav"/><itemref idref="none"/>{order}</spine></package>'
    )
    members: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": package,
        "OEBPS/nav.xhtml": page("<nav><ol><li>Chapter one</li></ol></nav>"),
        **{f"OEBPS/{name.replace('%20', ' ')}": content for name, content in pages.items()},
        **(files or {}),
    }
    return write_packed(path, members)


def read(path: Path, options: ReadOptions | None = None) -> list[Parsed]:
    return list(epub.read(path, options or ReadOptions()))


def book(tmp_path: Path, pages: Mapping[str, str | bytes], metadata: str = METADATA) -> BaseRecord:
    first = read(write_epub(tmp_path / "book_17.epub", pages, metadata))[0]
    assert isinstance(first, Entry)
    return first.record


def test_parts_are_read_in_order(tmp_path: Path) -> None:
    """Headings, lists and tables apart; no titles of pages, no navigation, no pictures; boxes and notes stay."""
    pages = {
        "z%20one.xhtml": page("<h1>One</h1><p>First <b>bold</b>.</p><ul><li>a</li><li>b</li></ul>", "Part 1"),
        "a.xhtml": page("<h2>Two</h2><table><tr><th>T</th><td>30</td></tr></table><aside><p>A box.</p></aside><img src='x.png' alt='x'/>"),
    }
    record = book(tmp_path, pages)
    assert record.text == "# One\n\nFirst bold.\n\n- a\n- b\n\n## Two\n\n| T | 30 |\n|---|---|\n\nA box."
    assert (record.kind, record.title, record.metadata) == ("document", "Phages of warm water", {"publication_types": ["Book"]})


def test_markup_of_xhtml(tmp_path: Path) -> None:
    """Elements that close themselves hold nothing; named entities; ruby; numbers of pages; scripts; comments."""
    body = (
        '<p><a id="x"/>Ca&shy;f&eacute;&nbsp;<i/>o&#173;ne<span epub:type="pagebreak" id="p2" title="2">2</span> two</p>'
        '<script src="x.js"/><title/>'
        '<p><ruby>漢<rt>かん</rt></ruby>字 &amp; &#8212; <span class="pagenum">[3]</span>end<!-- no --></p><div/><p>last</p>'
    )
    assert book(tmp_path, {"a.xhtml": page(body)}).text == "Café one two\n\n漢字 & — end\n\nlast"


def test_numbers_of_notes_are_in_brackets(tmp_path: Path) -> None:
    """In the text before a full stop, which then ends the sentence, and before the note if it has none of its own."""
    body = (
        f'<p>{PROSE}<a epub:type="noteref" href="#n1">1</a> More.<sup><a href="notes.xhtml#n2">2</a></sup> See <a href="#x">12</a>.</p>'
        '<aside epub:type="footnote" id="n1"><p>See Wang (2006).</p></aside>'
    )
    assert book(tmp_path, {"a.xhtml": page(body)}).text == f"{PROSE[:-1]}[1]. More[2]. See 12.\n\n[1] See Wang (2006)."


def test_links_within_numbers(tmp_path: Path) -> None:
    """Of pages, as Project Gutenberg writes them, and of notes, where one link is by mistake in another one."""
    body = (
        '<p>One<span class="pagenum"><a id="Page_12">[Pg 12]</a></span> two.</p>'
        '<p>Three.<a href="#n1"><sup><a href="#n1">1</a></sup></a></p><aside id="n1"><p>A note.</p></aside>'
    )
    assert book(tmp_path, {"a.xhtml": page(body)}).text == "One two.\n\nThree[1].\n\n[1] A note."


def test_metadata_of_epub_2(tmp_path: Path) -> None:
    metadata = (
        '<dc:title>Phages</dc:title><dc:creator opf:role="aut" opf:file-as="Smith, Ann">Ann Smith</dc:creator>'
        '<dc:creator opf:role="ill">Bo Lee</dc:creator><dc:date opf:event="modification">2020-01-02</dc:date>'
        '<dc:date opf:event="publication">1999-05-06</dc:date><dc:language>en-GB</dc:language>'
        '<dc:identifier opf:scheme="ISBN">0-306-40615-2</dc:identifier><dc:identifier id="u">urn:uuid:1</dc:identifier>'
        "<dc:publisher>Press</dc:publisher><dc:subject>Viruses</dc:subject><dc:subject>Water</dc:subject>"
        "<dc:description>&lt;p&gt;About &lt;i&gt;phages&lt;/i&gt;.&lt;/p&gt;</dc:description>"
    )
    record = book(tmp_path, {"a.xhtml": page(f"<p>{PROSE}</p>")}, metadata)
    assert (record.kind, record.title, record.authors, record.year, record.language) == ("paper", "Phages", ("Ann Smith",), 1999, "en")
    assert (record.identifiers.isbn, record.tags, record.description) == ("9780306406157", ("Viruses", "Water"), "About phages .")
    assert record.metadata == {"publication_types": ["Book"], "publisher": "Press"}


def test_metadata_of_epub_3(tmp_path: Path) -> None:
    """What other elements say of a title and of a creator."""
    metadata = (
        '<dc:title id="s">A series</dc:title><dc:title id="t">Phages</dc:title><meta refines="#t" property="title-type">main</meta>'
        '<dc:creator id="c">Ann Smith</dc:creator><dc:creator id="d">Bo Lee</dc:creator>'
        '<meta refines="#c" property="role" scheme="marc:relators">aut</meta><meta refines="#d" property="role">trl</meta>'
        "<dc:date>2019-05-06T00:00:00Z</dc:date><meta property='dcterms:modified'>2024-01-01T00:00:00Z</meta>"
        "<dc:identifier>urn:isbn:9780306406157</dc:identifier><dc:identifier>https://doi.org/10.1000/ABC</dc:identifier>"
    )
    record = book(tmp_path, {"a.xhtml": page(f"<p>{PROSE}</p>")}, metadata)
    assert (record.title, record.authors, record.year) == ("Phages", ("Ann Smith",), 2019)
    assert dict(record.identifiers.pairs()) == {"doi": "10.1000/abc", "isbn": "9780306406157"}


@pytest.mark.parametrize(
    ("metadata", "title", "authors"),
    [
        ("", "One", ()), ("<dc:title>Unknown</dc:title><dc:creator>Unknown</dc:creator>", "One", ()),
        ("<dc:title>1984</dc:title><dc:creator>Orwell, George</dc:creator>", "1984", ("Orwell, George",)),
        ("<dc:title>book.docx</dc:title>", "One", ()), ("<dc:title/><dc:creator>A B; C D</dc:creator>", "One", ("A B", "C D")),
    ],
)  # fmt: skip
def test_what_programs_write_for_nothing(tmp_path: Path, metadata: str, title: str, authors: tuple[str, ...]) -> None:
    """Also the year 101, and a number that is no ISBN."""
    more = "<dc:date>0101-01-01T00:00:00+00:00</dc:date><dc:identifier>urn:uuid:9780306406158</dc:identifier>"
    record = book(tmp_path, {"a.xhtml": page(f"<h1>One</h1><p>{PROSE}</p>")}, metadata + more)
    assert (record.title, record.authors, record.year, record.identifiers.pairs()) == (title, authors, None, ())


def test_without_title_and_heading_the_file_names_it(tmp_path: Path) -> None:
    assert book(tmp_path, {"a.xhtml": page(f"<p>{PROSE}</p>")}, "").title == "book_17"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
def test_encodings_of_parts(tmp_path: Path, encoding: str) -> None:
    text = page("<p>Über die Länge der Straße</p>").replace("UTF-8", {"utf-16": "utf-16", "cp1252": "windows-1252"}.get(encoding, "utf-8"))
    assert book(tmp_path, {"a.xhtml": text.encode(encoding)}).text == "Über die Länge der Straße"


def test_a_part_that_is_missing_or_damaged_costs_itself(tmp_path: Path) -> None:
    pages = {"a.xhtml": page(f"<p>{PROSE}</p>"), "gone.xhtml": "", "b.xhtml": bytes(range(256)) * 9, "c.xhtml": page(f"<p>{PROSE}</p>")}
    entry, note = read(write_epub(tmp_path / "a.epub", pages))
    assert isinstance(entry, Entry)
    assert entry.record.text == f"{PROSE}\n\n{PROSE}"
    assert note == FileNote("2 of its 4 parts are missing or damaged and were not read: OEBPS/gone.xhtml, OEBPS/b.xhtml")


@pytest.mark.parametrize("body", ["<img src='1.jpg' alt='a page'/>", "<svg><image href='1.jpg'/><text>Zap!</text></svg>", ""])
def test_a_book_of_pictures_is_skipped(tmp_path: Path, body: str) -> None:
    """As a Word document without text is: nothing of it is damaged."""
    with pytest.raises(NothingToRead, match="holds no text"):
        read(write_epub(tmp_path / "a.epub", {"a.xhtml": page(body), "b.xhtml": page(body)}))


def test_a_part_is_read_once(tmp_path: Path) -> None:
    """However often the order names it: a small book could else become a large text."""
    path = write_epub(tmp_path / "a.epub", {"a.xhtml": page(f"<p>{PROSE}</p>")}, spine='<itemref idref="i0"/>' * 5_000)
    (entry,) = read(path)
    assert isinstance(entry, Entry)
    assert entry.record.text == PROSE


@pytest.mark.parametrize("href", ["/OEBPS/b.xhtml", "../../OEBPS/b.xhtml", "../OEBPS/./b.xhtml", "c/../b.xhtml#p2"])
def test_addresses_from_the_root(tmp_path: Path, href: str) -> None:
    """As EPUB 3.3 resolves them: nothing is above the root of the archive."""
    path = write_epub(tmp_path / "a.epub", {href: ""}, files={"OEBPS/b.xhtml": page(f"<p>{PROSE}</p>")})
    (entry,) = read(path)
    assert isinstance(entry, Entry)
    assert entry.record.text == PROSE


def test_metadata_and_page_numbers_take_linear_time(tmp_path: Path) -> None:
    """Each author's role, and each number of a page in one long paragraph."""
    creators = (
        f"<dc:creator id='c{at}'>Ann{at} Lee</dc:creator><meta refines='#c{at}' property='role'>{'ill' if at else 'aut'}</meta>"
        for at in range(20_000)
    )
    body = "<p>" + "word <span class='pagenum'>[3]</span>" * 100_000 + "</p>"
    record = book(tmp_path, {"a.xhtml": page(body)}, METADATA + "".join(creators))
    assert record.authors == ("Ann0 Lee",)
    assert record.text.count("word") == 100_000


def test_encrypted_text_is_refused_and_encrypted_fonts_are_not(tmp_path: Path) -> None:
    pages = {"a.xhtml": page(f"<p>{PROSE}</p>")}
    drm = ENCRYPTED.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "OEBPS/a.xhtml")
    with pytest.raises(UnreadableFile, match=r"its text is encrypted \(DRM\); ingest a copy without it"):
        read(write_epub(tmp_path / "a.epub", pages, files={"META-INF/encryption.xml": drm}))
    for algorithm, name in (
        ("http://www.idpf.org/2008/embedding", "OEBPS/f.otf"),
        ("http://www.w3.org/2001/04/xmlenc#aes128-cbc", "f.mp3"),
    ):
        assert read(write_epub(tmp_path / "b.epub", pages, files={"META-INF/encryption.xml": ENCRYPTED.format(algorithm, name)}))


ENTITY = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"META-INF/container.xml": ""}, "it has no META-INF/container.xml"), ({"OEBPS/book.opf": ""}, "it has no package document"),
        ({"META-INF/container.xml": "<container/>"}, "it has no package document"), ({"OEBPS/book.opf": "<package"}, "not well-formed XML"),
        ({"OEBPS/book.opf": f"{ENTITY}<package>&a;</package>"}, "refused, its XML"),
        ({"OEBPS/book.opf": "<package/>"}, "its reading order names no text"), ({"OEBPS/a.xhtml": ""}, "none of its parts can be read"),
        ({"META-INF/encryption.xml": "<broken"}, "not well-formed XML"),
        ({"OEBPS/book.opf": b" " * (MAX_TREE_BYTES + 1)}, "bytes of XML, more than the limit"),
    ],
)  # fmt: skip
def test_broken_books(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    path = write_epub(tmp_path / "a.epub", {"a.xhtml": page(f"<p>{PROSE}</p>")}, files=files)
    with pytest.raises(UnreadableFile, match=message) as failure:
        read(path)
    assert str(failure.value).startswith(f"{path}: ")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken", b"\xd0\xcf\x11\xe0" + bytes(600), b"BOOKMOBI" * 20])
def test_no_book(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.epub"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=r"a\.epub"):
        read(path)


def test_archive_bombs_are_refused(tmp_path: Path) -> None:
    """By the sum of the sizes, and a part that is too large for a tree."""
    pages = {"a.xhtml": page(f"<p>{PROSE}</p>"), "b.xhtml": b" " * (MAX_TREE_BYTES + 1)}
    path = write_epub(tmp_path / "a.epub", pages)
    assert path.stat().st_size < 100_000
    with pytest.raises(UnreadableFile, match="when unpacked, more than the limit"):
        read(path, ReadOptions(max_bytes=1_000_000))
    assert [parsed.text for parsed in read(path) if isinstance(parsed, FileNote)]


@pytest.mark.parametrize("body", ["<a " * 30_000, "<p" * 30_000, "<div>" * 5_000 + PROSE, "<x/" * 30_000, "<i/>" * 30_000 + PROSE])
def test_no_markup_takes_long(tmp_path: Path, body: str) -> None:
    pages = {"a.xhtml": page(body), "b.xhtml": page(f"<p>{PROSE}</p>")}
    assert PROSE in book(tmp_path, pages).text
