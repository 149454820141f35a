"""Jupyter notebooks of the formats 3 and 4, and damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.readers import notebook
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import BaseRecord

PYTHON = {"language_info": {"name": "python"}, "kernelspec": {"name": "python3"}}


def markdown(source: object, **more: object) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source, **more}


def code(source: object, *outputs: object) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "source": source, "outputs": list(outputs)}


def read(path: Path, content: object, options: ReadOptions | None = None) -> list[Parsed]:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return list(notebook.read(path, options or ReadOptions()))


def record(tmp_path: Path, *cells: object, metadata: object = PYTHON) -> BaseRecord:
    first = read(tmp_path / "analysis_2.ipynb", {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})[0]
    assert isinstance(first, Entry)
    return first.record


def test_cells_become_markdown(tmp_path: Path) -> None:
    """Code in the language of the kernel; a source may be one string or a list of lines; outputs are left out."""
    output = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure size 640x480>"]}}
    cells = (
        markdown(["# Lysis *time*\n", "\n", "Phages lyse bacteria."]),
        code("import numpy\n\nt = 45\n", output),
        code("  "),
        code(["t"]),
    )
    read_record = record(tmp_path, *cells)
    assert read_record.text == "# Lysis *time*\n\nPhages lyse bacteria.\n\n```python\nimport numpy\n\nt = 45\n```\n\n```python\nt\n```"
    assert (read_record.kind, read_record.title, read_record.metadata) == ("document", "Lysis time", {"programming_language": "python"})


def test_format_3(tmp_path: Path) -> None:
    """Worksheets, headings as cells, code under another name, and lines that lack their ends."""
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Lysis time"]}, {"cell_type": "heading", "level": 99, "source": "More"},
        {"cell_type": "markdown", "source": ["Phages lyse", "bacteria."]}, {"cell_type": "code", "language": "R", "input": "t <- 45"},
    ]  # fmt: skip
    sheets = {"nbformat": 3, "metadata": {"name": "x"}, "worksheets": [{"cells": cells}, {"cells": [markdown("Second sheet.")]}, {}, None]}
    (entry,) = read(tmp_path / "a.ipynb", sheets)
    assert isinstance(entry, Entry)
    assert entry.record.text == "## Lysis time\n\n# More\n\nPhages lyse\nbacteria.\n\n```R\nt <- 45\n```\n\nSecond sheet."
    assert entry.record.title == "Lysis time"


def test_the_title(tmp_path: Path) -> None:
    """The notebook's own, that of its front matter, the first heading outside code, the file's name."""
    heading, comment = markdown("# Heading"), code("# a comment")
    assert record(tmp_path, comment, heading).title == "Heading"
    assert record(tmp_path, comment).title == "analysis_2"
    assert record(tmp_path, heading, metadata={"title": "Own", "authors": [{"name": "Ann Smith"}, "Bo Lee"]}).title == "Own"
    front = {"cell_type": "raw", "metadata": {}, "source": "---\ntitle: Front\nauthor: Ann Smith\ndate: 2021-03-04\n---"}
    with_front = record(tmp_path, front, heading, metadata={"title": "Own"})
    assert (with_front.title, with_front.authors, with_front.year, with_front.text) == ("Front", ("Ann Smith",), 2021, "# Heading")


def test_authors_of_the_notebook(tmp_path: Path) -> None:
    assert record(tmp_path, markdown("x"), metadata={"authors": [{"name": "Ann Smith"}, {"name": "Bo Lee"}]}).authors == (
        "Ann Smith",
        "Bo Lee",
    )


def test_pictures_in_cells_are_dropped(tmp_path: Path) -> None:
    """Their bytes, and names of files that stand for a description."""
    data = "data:image/png;base64," + "iVBORw0KGgo" * 1_000
    cells = (
        markdown(f"A ![Lysis curve]({data}) and ![image.png](attachment:image.png)\n\n<img width=3 src='{data}'> end\n\n[x]: {data}\n"),
        markdown('![Screen shot](attachment:Screen%20shot%20(1).png)<img\nSRC = attachment:image.png/>stays\n\n<img src="curve.png">'),
        markdown("![kept](curve.png)", attachments={"image.png": {"image/png": "iVBORw0KGgo="}}),
    )
    elsewhere = 'Screen shotstays\n\n<img src="curve.png">\n\n![kept](curve.png)'
    assert record(tmp_path, *cells).text == f"A Lysis curve and \n\n end\n\n{elsewhere}"


def test_raw_cells_of_markup_are_left_out(tmp_path: Path) -> None:
    raw = [{"cell_type": "raw", "metadata": metadata, "source": name} for name, metadata in (
        ("plain", {}), ("latex", {"raw_mimetype": "text/latex"}), ("md", {"raw_mimetype": "text/markdown"}),
        ("html", {"format": "text/html"}),
        ("odd", {"format": ["a"]}), ("no", None),
    )]  # fmt: skip
    assert record(tmp_path, *raw).text == "plain\n\nmd\n\nno"


def test_code_with_fences_stays_one_block(tmp_path: Path) -> None:
    assert record(tmp_path, code("s = '''\n```\n# no heading\n'''")).text == "````python\ns = '''\n```\n# no heading\n'''\n````"


@pytest.mark.parametrize("language", ["a b", "x`\n# y", "", None, 3, ["python"], "z" * 99])
def test_an_odd_language_is_none(tmp_path: Path, language: object) -> None:
    read_record = record(tmp_path, code("t"), metadata={"language_info": {"name": language}, "kernelspec": "x"})
    assert (read_record.text, read_record.metadata) == ("```\nt\n```", {})


def test_damaged_cells_cost_themselves(tmp_path: Path) -> None:
    cells = [markdown("Good."), None, 3, {"cell_type": "markdown"}, markdown(None), markdown(["a", 3]), {"source": "no type"}, markdown({})]
    entry, note = read(tmp_path / "a.ipynb", {"nbformat": 4, "cells": cells})
    assert isinstance(entry, Entry)
    assert entry.record.text == "Good."
    assert note == FileNote("7 of its 8 cells are damaged and were not read")


@pytest.mark.parametrize(
    "metadata",
    [None, 3, [], {"title": {"a": 1}, "authors": 3}, {"title": 7, "authors": [None, {}, {"name": None}]}, {"authors": {"name": []}}],
)
def test_odd_metadata_are_passed_over(tmp_path: Path, metadata: object) -> None:
    assert record(tmp_path, markdown("Text."), metadata=metadata).text == "Text."


@pytest.mark.parametrize(
    "content", [{"nbformat": 4, "cells": []}, {"cells": [code("")]}, {"nbformat": 3, "worksheets": []}, {"worksheets": [{"cells": None}]}]
)
def test_a_notebook_without_text_is_skipped(tmp_path: Path, content: object) -> None:
    with pytest.raises(NothingToRead, match="a notebook without text"):
        read(tmp_path / "a.ipynb", content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"), (b"{", "not a readable .ipynb notebook: .* in line 1"), (b"[]", "it holds no object"),
        (b"null", "it holds no object"),
        (b'{"cells": null}', "it has no list of cells"), (b'{"cells": {"a": 1}}', "it has no list of cells"),
        (b"{}", "it has no list of cells"),
        (b'{"cells": [1, 2]}', "a notebook without text"), (b"\x00\x01\x02" * 99, "a.ipynb"), (b"<html>", "not a readable .ipynb notebook"),
        (b'{"cells": ' + b"[" * 200_000, "nested too deeply"), (b'{"cells": [' + b"9" * 5_000 + b"]}", "not a readable .ipynb notebook"),
        (b'{"cells": [{"cell_type": "markdown", "source": "x"}]', "not a readable .ipynb notebook"),
    ],
)  # fmt: skip
def test_no_notebook(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFile, match=message) as failure:
        read(tmp_path / "a.ipynb", content)
    assert str(failure.value).startswith(f"{tmp_path / 'a.ipynb'}: ")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(("encoding", "note"), [("utf-8", None), ("utf-8-sig", None), ("utf-16", "utf-16"), ("cp1252", "cp1252 (guessed)")])
def test_encodings(tmp_path: Path, encoding: str, note: str | None) -> None:
    text = "Über die Länge der Straße: größere Häuser für ältere Mütter in München"
    content = json.dumps({"cells": [markdown(text)]}, ensure_ascii=False).encode(encoding)
    (entry,) = read(tmp_path / "a.ipynb", content)
    assert isinstance(entry, Entry)
    assert (entry.record.text, entry.record.metadata.get("encoding")) == (text, note)


def test_what_no_store_takes_is_replaced(tmp_path: Path) -> None:
    """Half of a character, and null characters."""
    assert record(tmp_path, markdown("a\ud83d b\x00c\r\nd")).text == "a\ufffd bc\nd"


def test_many_cells_and_the_limit(tmp_path: Path) -> None:
    cells = [markdown("Text."), code("t = 1")] * 50_000
    assert record(tmp_path, *cells).text.count("Text.") == 50_000
    with pytest.raises(UnreadableFile, match="more than the limit"):
        read(tmp_path / "a.ipynb", {"cells": cells}, ReadOptions(max_bytes=100_000))


@pytest.mark.parametrize(
    "source",
    [
        "![" * 50_000,
        "![a](data:" * 20_000,
        "![a](data:" + "(x" * 50_000,
        "<img " + "src=data: " * 50_000,
        "<img " * 50_000,
        "[a]:" * 50_000,
        "[a]: \n" * 50_000,
        "<img src" * 20_000,
    ],
)
def test_no_cell_takes_long(tmp_path: Path, source: str) -> None:
    assert record(tmp_path, markdown(f"x {source}")).text.startswith("x ")
