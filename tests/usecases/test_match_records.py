from __future__ import annotations

from pathlib import Path

import pytest

from outrider.library.library import Library
from outrider.state.records import Identifiers, Repository
from outrider.usecases.ingest import aadd_to_library
from outrider.usecases.match_records import match_records
from support.fakes import doi, paper


async def test_records_are_named_by_any_identifier(library: Library) -> None:
    await library.upsert(
        [
            paper("a", "One", identifiers=doi("10.1000/x")),
            paper("b", "One again", identifiers=doi("10.1000/x")),
            paper("c", "Two", identifiers=Identifiers(pmid="12345")),
            paper("d", "Three", identifiers=Identifiers(arxiv="2101.00001")),
            paper("10.9000/own", "Four"),
            Repository(doc_id="pypi:typing-extensions", title="typing_extensions"),
            Repository(doc_id="github:encode/httpx", title="encode/httpx"),
        ]
    )
    names = {
        "a": ("a",),
        "https://doi.org/10.1000/X": ("a", "b"),
        "pmid:12345": ("c",),
        "12345": ("c",),
        "arXiv:2101.00001v2": ("d",),
        "10.9000/own": ("10.9000/own",),
        "typing_extensions": ("pypi:typing-extensions",),
        "pypi:Typing.Extensions": ("pypi:typing-extensions",),
        "https://github.com/Encode/httpx": ("github:encode/httpx",),
        "nowhere": None,
        "10.1000/none": None,
    }
    matches = await match_records(library, names)
    assert matches.doc_ids == {name: doc_ids for name, doc_ids in names.items() if doc_ids}
    assert matches.unknown == ("nowhere", "10.1000/none")
    assert await match_records(library, []) == type(matches)({})


async def test_entries_of_ingested_files_are_named_by_their_own_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that two files give to different entries names none of them."""
    (tmp_path / "one.jsonl").write_text('{"id": "1", "title": "Zinc in the lung"}\n{"id": "2", "title": "Copper in bones"}\n')
    (tmp_path / "two.bib").write_text("@article{smith20, title={Iron and age}}\n@article{2, title={Lead in paint}}\n")
    monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "none")
    await aadd_to_library(tmp_path / "one.jsonl", tmp_path / "two.bib", library=tmp_path / "library")
    library = await Library.open(tmp_path / "library")
    try:
        matches = await match_records(library, ["1", "smith20", "2", "3"])
        titles = {name: [record.title for record in await library.fetch(doc_ids)] for name, doc_ids in matches.doc_ids.items()}
    finally:
        library.close()
    assert titles == {"1": ["Zinc in the lung"], "smith20": ["Iron and age"]}
    assert (matches.unknown, matches.ambiguous) == (("3",), ("2",))
