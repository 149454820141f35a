"""Word documents, written by hand as Word, LibreOffice and libraries write them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.readers import docx
from outrider.ingest.readers.packed_file import MAX_TREE_BYTES
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import BaseRecord
from support.packed_members import write_packed

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STYLES = {"Title": "Title", "berschrift1": "heading 1", "berschrift2": "heading 2", "Verzeichnis1": "toc 1", "Standard": "Normal"}
"""Ids as a German Word gives them; the names are the same in every language."""
PROSE = "Phages lyse bacteria within an hour."


def p(text: str, style: str = "", properties: str = "") -> str:
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f'<w:p><w:pPr>{named}{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def item(text: str, level: int = 0, number: int = 1) -> str:
    return p(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(f'<w:tc>{p(cell)}</w:tc>' for cell in cells)}</w:tr>"


def write_docx(path: Path, body: str, properties: str = "", parts: dict[str, str | bytes] | None = None) -> Path:
    """The parts of a package as ECMA-376 has them; `parts` replaces or adds some, and an empty one is left out."""
    styles = "".join(f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/></w:style>' for key, name in STYLES.items())
    level = '<w:lvl w:ilvl="{}"><w:numFmt w:val="bullet"/></w:lvl>'
    files: dict[str, str | bytes] = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="word/document.xml"/>'
        f'<Relationship Id="r2" Type="{PACKAGE}/relationships/metadata/core-properties" Target="docProps/core.xml"/></Relationships>',
        "word/_rels/document.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{OFFICE}/styles" Target="styles.xml"/>'
        f'<Relationship Id="r2" Type="{OFFICE}/numbering" Target="numbering.xml"/>'
        f'<Relationship Id="r3" Type="{OFFICE}/footnotes" Target="footnotes.xml"/>'
        f'<Relationship Id="r4" Type="{OFFICE}/image" Target="media/image1.png"/></Relationships>',
        "word/document.xml": f'<?xml version="1.0" encoding="UTF-8"?><w:document {W} {R}><w:body>{body}<w:sectPr/></w:body></w:document>',
        "word/styles.xml": f"<w:styles {W}>{styles}</w:styles>",
        "word/numbering.xml": f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">{"".join(map(level.format, range(3)))}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>',
        "docProps/core.xml": f'<cp:coreProperties xmlns:cp="{PACKAGE}/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">{properties}</cp:coreProperties>',
        **(parts or {}),
    }
    return write_packed(path, files)


def read(path: Path, options: ReadOptions | None = None) -> list[Parsed]:
    return list(docx.read(path, options or ReadOptions()))


def document(tmp_path: Path, body: str, properties: str = "", parts: dict[str, str | bytes] | None = None) -> BaseRecord:
    first = read(write_docx(tmp_path / "study_final.docx", body, properties, parts))[0]
    assert isinstance(first, Entry)
    return first.record


def test_headings_lists_and_tables_stand_apart(tmp_path: Path) -> None:
    """As in a saved page, whatever language the program has; a table of contents, deleted text and pictures are left out."""
    table = f"<w:tbl><w:tr><w:trPr><w:tblHeader/></w:trPr><w:tc>{p('T')}</w:tc><w:tc>{p('Time')}</w:tc></w:tr>{row('30', '45')}</w:tbl>"
    deleted = "<w:p><w:del><w:r><w:delText>Deleted.</w:delText></w:r></w:del><w:ins><w:r><w:t>Inserted.</w:t></w:r></w:ins></w:p>"
    drawing = (
        '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing">'
        '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData>'
        '<pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill><a:blip r:embed="r4"/></pic:blipFill>'
        "</pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r></w:p>"
    )
    body = (
        p("Contents 1", "Verzeichnis1") + p("Meth\u00adods", "berschrift1") + p(PROSE) + p("Media", "berschrift2")
        + item("broth") + item("agar", 1) + item("water") + table + deleted + drawing
    )  # fmt: skip
    record = document(tmp_path, body, parts={"word/media/image1.png": b"\x89PNG" + bytes(100)})
    assert record.text == (
        f"# Methods\n\n{PROSE}\n\n## Media\n\n- broth\n  - agar\n- water\n\n| T | Time |\n|---|---|\n| 30 | 45 |\n\nInserted."
    )
    assert (record.kind, record.title) == ("document", "Methods")


def test_notes_follow_with_their_numbers(tmp_path: Path) -> None:
    """A full stop stands behind the number, where it ends the sentence. Comments are left out."""
    body = (
        f"<w:p><w:r><w:t>{PROSE}</w:t></w:r><w:r><w:footnoteReference w:id='2'/></w:r><w:r><w:t> More.</w:t></w:r>"
        "<w:r><w:commentReference w:id='0'/></w:r></w:p>"
    )
    notes = f"<w:footnotes {W}><w:footnote w:id='2'>{p('See Wang (2006).')}</w:footnote></w:footnotes>"
    comments = f"<w:comments {W}><w:comment w:id='0'>{p('Really?')}</w:comment></w:comments>"
    record = document(tmp_path, body, parts={"word/footnotes.xml": notes, "word/comments.xml": comments})
    assert record.text == f"{PROSE[:-1]}[1]. More.\n\n[1] See Wang (2006)."


@pytest.mark.parametrize(
    ("declared", "body", "title"),
    [
        ("Lysis time of phages", p(PROSE), "Lysis time of phages"), ("", p("Lysis time", "Title") + p("One", "berschrift1"), "Lysis time"),
        ("Document1", p("Lysis time", "berschrift1") + p(PROSE), "Lysis time"), ("", p("1. Introduction", "berschrift1"), "study_final"),
        ("Annual report of the year before", p("Lysis time", "Title") + p(PROSE), "Lysis time"), ("", p(PROSE), "study_final"),
        ("draft_v3.docx", p(PROSE), "study_final"), ("  ", p("Lysis[1]", "Title") + p(PROSE), "Lysis"),
    ],
)  # fmt: skip
def test_the_title(tmp_path: Path, declared: str, body: str, title: str) -> None:
    """The declared one, unless it is a file's name or that of another document; else the style Title, the first heading, the file."""
    assert document(tmp_path, body, f"<dc:title>{declared}</dc:title>").title == title


@pytest.mark.parametrize(
    ("creator", "authors"),
    [
        ("Ann Smith", ("Ann Smith",)), ("Ann Smith; Bo Lee", ("Ann Smith", "Bo Lee")), ("Microsoft Office User", ()), ("python-docx", ()),
        ("Windows User", ()), ("user1", ()), ("Apache POI", ()), ("", ()), ("Un-named", ()), ("asmith", ()),
    ],
)  # fmt: skip
def test_names_of_accounts_and_programs_are_no_authors(tmp_path: Path, creator: str, authors: tuple[str, ...]) -> None:
    """They stay in the metadata."""
    record = document(tmp_path, p(PROSE), f"<dc:creator>{creator}</dc:creator>")
    assert record.authors == authors
    assert record.metadata.get("declared_author") == (creator if creator and not authors else None)


def test_other_properties(tmp_path: Path) -> None:
    """A date of creation is no year of publication."""
    properties = (
        "<dc:subject>Viruses</dc:subject><cp:keywords>phage; lysis, heat</cp:keywords><dc:language>en-GB</dc:language>"
        "<dcterms:created>2013-12-23T23:15:00Z</dcterms:created><dc:description>generated by python-docx</dc:description>"
    )
    record = document(tmp_path, p(PROSE), properties)
    assert (record.tags, record.language, record.year, record.description) == (("phage", "lysis", "heat"), "en", None, "")
    assert record.metadata == {"subject": "Viruses", "created": "2013-12-23T23:15:00Z"}


def test_a_document_without_properties_styles_and_lists(tmp_path: Path) -> None:
    """Converters write no more than the main part; an id such as Heading1 then says what the style is."""
    parts: dict[str, str | bytes] = dict.fromkeys(("docProps/core.xml", "word/styles.xml", "word/numbering.xml", "[Content_Types].xml"), "")
    record = document(tmp_path, p("Lysis", "Heading1") + p(PROSE, "Unknown") + item("agar"), parts=parts)
    assert record.text == f"# Lysis\n\n{PROSE}\n\nagar"


def test_equations_are_linear_text(tmp_path: Path) -> None:
    """So that no sentence has a hole."""
    m = "http://schemas.openxmlformats.org/officeDocument/2006/math"

    def run(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    fraction = f"<m:f><m:num>{run('a+b')}</m:num><m:den>{run('2')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{run('c')}</m:e><m:sup>{run('2')}</m:sup></m:sSup>"
    equation = f'<m:oMath xmlns:m="{m}">{run("E=m")}{power}{run("+")}{fraction}</m:oMath>'
    body = f"<w:p><w:r><w:t>As </w:t></w:r>{equation}<w:r><w:t> shows.</w:t></w:r></w:p>"
    assert document(tmp_path, body).text == "As E=mc^2+(a+b)/2 shows."
    deep = f"{'<m:box><m:e>' * 90}{power}{'</m:e></m:box>' * 90}"
    assert document(tmp_path, f'<w:p><m:oMathPara xmlns:m="{m}"><m:oMath>{deep}</m:oMath></m:oMathPara></w:p>').text == "c^2"


def test_signs_of_sums_and_names_of_functions(tmp_path: Path) -> None:
    m = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    sum_of = "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr><m:sub>{0}</m:sub><m:sup>{1}</m:sup><m:e>{2}</m:e></m:nary>"
    function = "<m:func><m:fName>{0}</m:fName><m:e>{1}</m:e></m:func>"
    i, n, x, sin = (f"<m:r><m:t>{text}</m:t></m:r>" for text in ("i=1", "n", "x", "sin"))
    body = f'<w:p><m:oMath xmlns:m="{m}">{sum_of.format(i, n, function.format(sin, x))}</m:oMath></w:p>'
    assert document(tmp_path, body).text == "∑_(i=1)^n sin x"


def test_text_in_every_kind_of_run_is_read(tmp_path: Path) -> None:
    """Results of fields, runs of a direction, the base of ruby text; line ends and tabs part words."""

    def run(content: str) -> str:
        return f"<w:r>{content}</w:r>"

    see, seven, end = (run(f'<w:t xml:space="preserve">{text}</w:t>') for text in ("See Table ", "7", " here."))
    begin, separate, stop = (run(f"<w:fldChar w:fldCharType='{kind}'/>") for kind in ("begin", "separate", "end"))
    code = run("<w:instrText> SEQ Table </w:instrText>")
    ruby = "<w:ruby><w:rt><w:r><w:t>とう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東</w:t></w:r></w:rubyBase></w:ruby>"
    body = (
        f"<w:p>{see}<w:fldSimple w:instr=' SEQ Table '>{seven}</w:fldSimple>{end}</w:p>"
        f"<w:p>{see}{begin}{code}{separate}{seven}{stop}{end}</w:p>"
        f"<w:p><w:dir w:val='rtl'>{run('<w:t>שלום</w:t>')}</w:dir><w:bdo w:val='rtl'>{run('<w:t>עולם</w:t>')}</w:bdo></w:p>"
        f"<w:p>{run(ruby)}{run('<w:t>京</w:t>')}</w:p><w:p>{run('<w:t>a</w:t><w:cr/><w:t>b</w:t><w:ptab/><w:t>c</w:t>')}</w:p>"
    )
    assert document(tmp_path, body).text == "See Table 7 here.\n\nSee Table 7 here.\n\nשלוםעולם\n\n東京\n\na\nb c"


def test_links_and_pictures_that_are_missing_cost_no_text(tmp_path: Path) -> None:
    wp = "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
    a, pic = (f"http://schemas.openxmlformats.org/drawingml/2006/{name}" for name in ("main", "picture"))
    drawing = (
        f'<w:r><w:drawing><wp:inline xmlns:wp="{wp}"><wp:docPr><a:hlinkClick xmlns:a="{a}" r:id="no1"/></wp:docPr>'
        f'<a:graphic xmlns:a="{a}"><a:graphicData><pic:pic xmlns:pic="{pic}"><pic:blipFill><a:blip r:embed="no2"/></pic:blipFill></pic:pic>'
        "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    )
    old = '<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml"><v:imagedata r:id="no3"/></v:shape></w:pict></w:r>'
    body = f"<w:p><w:hyperlink r:id='no4'><w:r><w:t>{PROSE}</w:t></w:r></w:hyperlink>{drawing}{old}</w:p>"
    assert document(tmp_path, body).text == PROSE


@pytest.mark.parametrize("body", ["", p(""), f"<w:tbl>{row('', '')}</w:tbl>"])
def test_a_document_without_text_is_skipped(tmp_path: Path, body: str) -> None:
    with pytest.raises(NothingToRead, match="holds no text"):
        read(write_docx(tmp_path / "a.docx", body))


ENTITY = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><w:document %s><w:body><w:p><w:r><w:t>&a;</w:t></w:r></w:p></w:body></w:document>' % W.encode()
OUTSIDE = ENTITY.replace(b'"aaaa"', b'SYSTEM "file:///etc/passwd"')
DEEP = f"<w:document {W}><w:body>{'<w:sdt><w:sdtContent>' * 400}{p(PROSE)}{'</w:sdtContent></w:sdt>' * 400}</w:body></w:document>"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"word/document.xml": ""}, "it has no main part"), ({"word/document.xml": "<w:document"}, "not well-formed XML"),
        ({"word/document.xml": ENTITY}, "refused, its XML declares entities"), ({"word/document.xml": OUTSIDE}, "refused, its XML"),
        ({"word/styles.xml": ENTITY}, "refused, its XML declares entities"), ({"word/document.xml": DEEP}, "nested more than"),
        ({"word/document.xml": f"<w:document {W}/>"}, "not a readable .docx document"),
        ({"_rels/.rels": "<a"}, "not well-formed XML"), ({"word/document.xml": "<a><oMath><t>x</t></oMath></a>"}, "not a readable .docx"),
        ({"_rels/.rels": b" " * (MAX_TREE_BYTES + 1)}, "bytes of XML, more than the limit"),
        ({"word/document.xml": b"<a>\xff\xfe</a>"}, "not well-formed XML"),
    ],
)  # fmt: skip
def test_broken_and_hostile_parts(tmp_path: Path, parts: dict[str, str | bytes], message: str) -> None:
    """The failure is one line with the file's name, and nothing outside is read."""
    with pytest.raises(UnreadableFile, match=message) as failure:
        read(write_docx(tmp_path / "a.docx", p(PROSE), parts=parts))
    assert str(failure.value).startswith(f"{tmp_path / 'a.docx'}: ")
    assert "\n" not in str(failure.value)
    assert "root:" not in str(failure.value)


def test_broken_properties_cost_themselves(tmp_path: Path) -> None:
    entry, note = read(write_docx(tmp_path / "a.docx", p(PROSE), parts={"docProps/core.xml": ENTITY}))
    assert isinstance(entry, Entry)
    assert (entry.record.title, entry.record.text) == ("a", PROSE)
    assert isinstance(note, FileNote)
    assert note.text.startswith("its properties (title, author) are not read: docProps/core.xml: refused")


def test_a_directory_that_points_outside_the_file(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", p(PROSE))
    data = bytearray(path.read_bytes())
    place = data.rfind(b"PK\x05\x06") + 12
    data[place : place + 4] = (len(data) * 2).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"not a readable \.docx document"):
        read(path)


def test_what_is_not_read_may_be_broken(tmp_path: Path) -> None:
    """A theme, comments, fields of a form."""
    parts: dict[str, str | bytes] = dict.fromkeys(
        ("word/theme/theme1.xml", "word/comments.xml", "customXml/item1.xml", "word/header1.xml"), "<broken"
    )
    assert document(tmp_path, p(PROSE), parts=parts).text == PROSE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"), (b"no archive", "not a readable .docx document"), (b"PK\x03\x04 broken", "not a readable .docx document"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "an old .doc or an encrypted document"), (b"{\\rtf1 text}", "not a readable .docx document"),
    ],
)  # fmt: skip
def test_no_document(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=message):
        read(path)


def test_a_damaged_archive(tmp_path: Path) -> None:
    """A byte of the packed text, and the end of the file."""
    path = write_docx(tmp_path / "a.docx", p(PROSE) * 200)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("word/document.xml").header_offset + 60
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"not a readable \.docx document"):
        read(path)
    path.write_bytes(data[:-30])
    with pytest.raises(UnreadableFile, match=r"not a readable \.docx document"):
        read(path)


def test_archive_bombs_are_refused(tmp_path: Path) -> None:
    """By the sum of the stated sizes, by that of the XML alone, and where a size is stated too small."""
    path = write_docx(tmp_path / "a.docx", p(PROSE), parts={"word/media/image1.png": bytes(5_000_000)})
    with pytest.raises(UnreadableFile, match="when unpacked, more than the limit"):
        read(path, ReadOptions(max_bytes=1_000_000))
    path = write_docx(tmp_path / "a.docx", p(PROSE), parts={"word/styles.xml": b"<a>" + b" " * MAX_TREE_BYTES + b"</a>"})
    assert path.stat().st_size < 100_000
    with pytest.raises(UnreadableFile, match="bytes of XML, more than the limit"):
        read(path)
    path = write_docx(tmp_path / "a.docx", p(PROSE) * 2_000)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("word/document.xml").file_size
    path.write_bytes(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(UnreadableFile, match=r"not a readable \.docx document"):
        read(path)


def test_an_encrypted_member_and_a_strange_method(tmp_path: Path) -> None:
    path = write_docx(tmp_path / "a.docx", p(PROSE))
    data = bytearray(path.read_bytes())
    place = data.find(b"PK\x01\x02")
    while place >= 0:  # flags of the directory's entries
        data[place + 8] |= 1
        place = data.find(b"PK\x01\x02", place + 4)
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match="encrypted; save a copy without its password"):
        read(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("_rels/.rels", "<a/>")
    with pytest.raises(UnreadableFile, match="packed by another method"):
        read(path)


def test_many_paragraphs_take_linear_time(tmp_path: Path) -> None:
    record = document(tmp_path, p(PROSE) * 4_000)
    assert record.text.count(PROSE) == 4_000


@pytest.mark.parametrize(
    "body",
    [
        p("[1]" * 60_000 + "x", "Title"),
        "<w:p>" + "<w:r><w:fldChar w:fldCharType='begin'/></w:r>" * 20_000 + "<w:r><w:t>x</w:t></w:r></w:p>",
    ],
)
def test_hostile_parts_take_linear_time(tmp_path: Path, body: str) -> None:
    """Marks of notes in a title without end, and fields without end."""
    record = document(tmp_path, body)
    assert (record.title, record.text[-1]) == ("study_final", "x")


def test_nothing_is_said_of_a_whole_document(tmp_path: Path) -> None:
    assert not [parsed for parsed in read(write_docx(tmp_path / "a.docx", p(PROSE))) if isinstance(parsed, FileNote)]
