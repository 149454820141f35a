"""BibTeX: one broken entry never costs the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers import bibtex
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper

WHOLE = r"""
@string{nat = "Nature Methods"}
@comment{nothing to see}
@Article{muller2019,
  author  = {M{\"u}ller, J{\"o}rg and {World Health Organization} and Ada Lovelace},
  title   = {{Deep} learning -- 50% of {\ss} \& more: $x^2$},
  journal = nat,
  year    = 2019, month = aug, volume = 12, number = {3}, pages = {10--20},
  doi     = {https://doi.org/10.1000/ABC_d}, url = {https://example.org/a_b%20c},
  keywords = {alpha, beta}, pmid = {31366609}, isbn = {0893-8512},
  file    = {C:\Users\me\paper.pdf}, abstract = "Two
  lines", archiveprefix = {arXiv}, eprint = {2101.00001v2},
}
"""


def entries(tmp_path: Path, text: str | bytes) -> list[Parsed]:
    path = tmp_path / "some.bib"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(bibtex.read(path, ReadOptions()))


def paper(parsed: Parsed) -> Paper:
    assert isinstance(parsed, Entry)
    assert isinstance(parsed.record, Paper)
    return parsed.record


def test_an_entry_with_everything(tmp_path: Path) -> None:
    """LaTeX is decoded, `@string` resolved, names stay as given, what has no place stays in the metadata."""
    (only,) = entries(tmp_path, WHOLE)
    read = paper(only)
    assert isinstance(only, Entry)
    assert only.own_id == "muller2019"
    assert read.authors == ("Müller, Jörg", "World Health Organization", "Ada Lovelace")
    assert read.title == "Deep learning – 50% of ß & more: $x^2$"
    assert (read.venue, read.year, read.volume, read.issue, read.pages) == ("Nature Methods", 2019, "12", "3", "10-20")
    assert read.identifiers.model_dump(exclude_none=True) == {"doi": "10.1000/abc_d", "pmid": "31366609", "arxiv": "2101.00001"}
    assert read.url == "https://example.org/a_b%20c"
    assert read.tags == ("alpha", "beta")
    assert read.abstract == "Two\n  lines"
    assert read.metadata == {
        "key": "muller2019", "entry_type": "article", "month": "aug", "isbn": "0893-8512", "file": r"C:\Users\me\paper.pdf",
        "archiveprefix": "arXiv", "eprint": "2101.00001v2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("jh # { Reports}", "J Hepatol Reports"),
        ('{A # {B} "C"} # " # D" # 4', 'A # B "C" # D4'),
        ("LONG", "J Hepatol, Suppl."),
        ('nosuch # "~1"', "nosuch 1"),
        ("C # 3", "C # 3"),
    ],
)
def test_text_is_put_together(tmp_path: Path, value: str, text: str) -> None:
    """`#` joins strings and texts, also in `@string`; it is text within braces and quotes. What nothing defines stays as written."""
    source = '@string{jh = {J Hepatol}}\n@string{long = jh # ", Suppl."}\n@misc{a, title={One}, journal = %s}\n'
    (only,) = entries(tmp_path, source % value)
    assert paper(only).venue == text


def test_a_missing_brace_costs_one_entry(tmp_path: Path) -> None:
    """The entry that lacks a brace is named with its line; those around it are read."""
    first, broken, last = entries(tmp_path, "@article{a, title={One}}\n@article{b, title={Two\n}\n@article{c, title={Three}}\n")
    assert (paper(first).title, paper(last).title) == ("One", "Three")
    assert isinstance(broken, BadEntry)
    assert broken.where == "line 2"
    assert "@article{b" in broken.why


def test_a_file_that_breaks_off(tmp_path: Path) -> None:
    """What precedes the truncation is read, the rest is reported."""
    first, broken = entries(tmp_path, "@article{a, title={One}}\n@article{b, title={Tw")
    assert paper(first).title == "One"
    assert isinstance(broken, BadEntry)


def test_repeated_keys_and_fields_lose_nothing(tmp_path: Path) -> None:
    """Two entries of one key are two entries; of a field given twice both values are kept."""
    read = entries(tmp_path, "@misc{a, title={One}}\n@misc{a, title={Two}}\n@misc{b, title={Three}, note={x}, note={y}}")
    assert sorted(paper(parsed).title for parsed in read) == ["One", "Three", "Two"]
    assert next(paper(parsed) for parsed in read if paper(parsed).title == "Three").metadata["note"] == ["x", "y"]


def test_and_others_is_no_author(tmp_path: Path) -> None:
    """`and others` adds no author; the field stays, so that it is known that there were more."""
    read = paper(entries(tmp_path, "@misc{a, title={T}, author={Curie, M and others}}")[0])
    assert read.authors == ("Curie, M",)
    assert read.metadata["author"] == "Curie, M and others"


def test_strings_reach_over_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long file is parsed in pieces; definitions, line numbers and order go through."""
    monkeypatch.setattr(bibtex, "PIECE_CHARS", 40)
    text = (
        '@string{j = "Journal"}\n'
        + "".join(f"@article{{k{n},\n title = {{T{n}}},\n journal = j}}\n" for n in range(50))
        + "@article{x, title={\n"
    )
    *read, broken = entries(tmp_path, text)
    assert [paper(parsed).title for parsed in read] == [f"T{n}" for n in range(50)]
    assert {paper(parsed).venue for parsed in read} == {"Journal"}
    assert isinstance(broken, BadEntry)
    assert broken.where == "line 152"


def test_latin_1(tmp_path: Path) -> None:
    """A file that is not UTF-8 is read as Windows-1252."""
    assert paper(entries(tmp_path, "@misc{a, title={Köln – café}}".encode("cp1252"))[0]).title == "Köln – café"


@pytest.mark.parametrize("text", ["{" * 5_000 + "a" + "}" * 5_000, "\\verb", "\\'", "$", "{", "%", "\\", "\\begin{x}"])
def test_odd_latex_is_no_trouble(tmp_path: Path, text: str) -> None:
    """LaTeX that cannot be decoded stays, or costs one entry; nothing is raised."""
    read = entries(tmp_path, f"@misc{{a, title={{x {text} }}, note={{y}}}}\n@misc{{b, title={{after}}}}")
    assert any(isinstance(parsed, Entry) and parsed.record.title == "after" for parsed in read)


@pytest.mark.parametrize("content", [b"", b"   \n", b"just prose", b"@comment{only}", b"%PDF-1.7\x00\x01\x02\xff\xfe" * 50])
def test_no_bibtex_in_it(tmp_path: Path, content: bytes) -> None:
    """A file without an entry is refused, whatever it is."""
    with pytest.raises(UnreadableFile):
        entries(tmp_path, content)
