"""A manifest of a real table names its files; of damaged bytes nothing but an error comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.library.copies.lance_manifest import Manifest
from outrider.library.copies.table_copy import MOST_BYTES_OF_ROWS, MOST_FILES_OF_ROWS, are_copied
from outrider.library.library import Library
from outrider.state.records import Paper


async def write(folder: Path) -> list[Path]:
    """Manifests of a table of records, the first version first."""
    library = await Library.open(folder, create=True)
    for batch in ("abc", "de"):
        await library.upsert([Paper(doc_id=letter, title=f"fox {letter}") for letter in batch])
    await library.remove(["b"])
    await library.optimize(force=True)
    return sorted((folder / "records.lance" / "_versions").glob("*.manifest"), reverse=True)


async def test_the_files_of_each_version(tmp_path: Path) -> None:
    manifests = [Manifest.parse(path.read_bytes()) for path in await write(tmp_path)]
    table = tmp_path / "records.lance"
    assert manifests[0].rows == ()
    for manifest in manifests:
        assert all((table / "data" / name).stat().st_size == size for name, size in manifest.rows)
        assert {str(part) for _, part in manifest.indexes} <= {path.name for path in (table / "_indices").iterdir()}
    assert len(manifests[-1].rows) == 1
    assert {name for name, _ in manifests[-1].indexes} >= {"rank_text_idx", "exact_title_idx", "doc_id_idx", "year_idx"}
    (part,) = (part for name, part in manifests[-1].indexes if name == "rank_text_idx")
    assert (table / "_indices" / str(part) / "metadata.lance").exists()


async def test_damaged_bytes(tmp_path: Path) -> None:
    whole = (await write(tmp_path))[-1].read_bytes()

    @given(st.integers(0, len(whole)), st.binary(max_size=9), st.booleans())
    def check(at: int, changed: bytes, is_cut: bool) -> None:
        damaged = whole[:at] + changed + (b"" if is_cut else whole[at + len(changed) :])
        try:
            Manifest.parse(damaged)
        except ValueError:
            return
        assert damaged[-4:] == b"LANC"

    check()


async def test_an_index_without_identifier(tmp_path: Path) -> None:
    whole = (await write(tmp_path))[-1].read_bytes()
    (_, part), *_ = Manifest.parse(whole).indexes
    own, unknown = b"\x0a\x10" + part.bytes, b"\x12\x10" + part.bytes  # the field that is read, and another one
    assert own in whole
    with pytest.raises(ValueError, match="not enough values"):
        Manifest.parse(whole.replace(own, unknown))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("0101ab.lance", 9)], True),
        ([("../0101ab.lance", 9)], False),
        ([("a/0101ab.lance", 9)], False),
        ([("0101ab.lance", 0)], False),
        ([("0101ab.lance", MOST_BYTES_OF_ROWS + 1)], False),
        ([(f"{number}.lance", 9) for number in range(MOST_FILES_OF_ROWS + 1)], False),
        ([], True),
    ],
)
def test_only_few_rows_with_plain_names_are_copied(rows: list[tuple[str, int]], expected: bool) -> None:
    assert are_copied(rows) is expected
