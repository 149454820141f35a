"""Ingestion into a real library: interrupted, killed, concurrent, and over real files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.ingest.pipeline import ingest
from outrider.library.library import Library
from support.shared_data import DATA
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow
ROWS = 2_000
SCRIPT = """
import asyncio, sys
from pathlib import Path
from outrider.ingest.pipeline import ingest
from outrider.library.library import Library

async def run():
    library = await Library.open(sys.argv[1], create=True)
    report = await ingest(library, [Path(sys.argv[2])], progress=lambda now: print(now.records, flush=True), batch_records=100)
    print("report", report.added, report.updated, report.unchanged, report.failed, flush=True)

try:
    asyncio.run(run())
except KeyboardInterrupt:
    sys.exit(130)
"""


def start_process(library: Path, source: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(library), str(source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows(path: Path) -> Path:
    path.write_text(
        "".join(json.dumps({"id": str(number), "title": f"Title {number}", "abstract": "words " * 40}) + "\n" for number in range(ROWS))
    )
    return path


def stopped_midway(library: Path, source: Path, how: signal.Signals) -> tuple[int, str]:
    """Starts an ingestion, sends the signal once some batches are in; the exit status and what it said on standard error."""
    process = start_process(library, source)
    assert process.stdout
    assert any(line.strip().isdigit() and int(line) >= 300 for line in process.stdout)
    process.send_signal(how)
    _, output = process.communicate(timeout=300)
    return process.returncode, output


@pytest.mark.parametrize(("how", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
async def test_an_interrupted_run_is_completed_by_the_next(tmp_path: Path, how: signal.Signals, status: int) -> None:
    """Killed or interrupted in the middle of a file: the library stays sound, what was stored stays, nothing is doubled."""
    source = rows(tmp_path / "rows.jsonl")
    code, output = stopped_midway(tmp_path / "library", source, how)
    assert (code, "Traceback" in output) == (status, False)
    library = await Library.open(tmp_path / "library")
    before = await library.count()
    assert 300 <= before < ROWS
    assert await library.check() == ()
    report = await ingest(library, [source])
    assert (report.added, report.unchanged, report.updated, report.failed) == (ROWS - before, before, 0, 0)
    assert await library.count() == ROWS
    assert (await ingest(library, [source])).unchanged == ROWS


EMBEDDING = SCRIPT.replace("batch_records=100", "batch_records=100, embedder=WordEmbedder(dimension=8)").replace(
    "import asyncio, sys", "import asyncio, sys\nfrom support.word_embedder import WordEmbedder"
)


async def test_a_killed_run_leaves_no_record_without_its_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", EMBEDDING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(__file__).parents[up] / name) for up, name in ((2, "src"), (1, ""))))
    source = rows(tmp_path / "rows.jsonl")
    code, output = stopped_midway(tmp_path / "library", source, signal.SIGKILL)
    assert (code, output) == (-signal.SIGKILL, "")
    library = await Library.open(tmp_path / "library")
    assert 300 <= await library.count() < ROWS
    assert await library.check() == ()
    report = await ingest(library, [source], embedder=WordEmbedder(dimension=8))
    assert report.vectors.without == 0
    about = (await library.info()).vectors
    assert about is not None
    assert (about.vectors, about.without) == (ROWS, 0)
    assert await library.check() == ()


async def test_two_runs_at_once_make_no_duplicates(tmp_path: Path) -> None:
    """Two processes, one new library, the same files: both end well and the library holds each record once."""
    source = rows(tmp_path / "rows.jsonl")
    runs = [start_process(tmp_path / "library", source) for _ in range(2)]
    for run in runs:
        out, error = run.communicate(timeout=600)
        assert run.returncode == 0, error
        summary = out.splitlines()[-1].split()
        assert summary[0] == "report"
        assert sum(map(int, summary[1:4])) == ROWS
    library = await Library.open(tmp_path / "library")
    assert await library.count() == ROWS
    assert await library.check() == ()
    report = await ingest(library, [source])
    assert (report.added, report.updated, report.unchanged) == (0, 0, ROWS)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(["1", "2", "3", None]), st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)), max_size=6)
)
def test_ingestion_twice_equals_once(entries: list[tuple[str | None, str]]) -> None:
    """On the real library as on the one in memory; also when the file is set back to an earlier content."""

    async def run(folder: Path) -> None:
        library = await Library.open(folder / "library", create=True)
        source = folder / "rows.jsonl"
        lines = [json.dumps({"title": "T", "abstract": text} | ({"id": own} if own else {})) + "\n" for own, text in entries]
        source.write_text("".join(lines))
        first = await ingest(library, [source])
        once = [record async for record in library.scan()]
        second = await ingest(library, [source])
        assert (second.added, second.updated, second.failed) == (0, 0, first.failed)
        assert [record async for record in library.scan()] == once
        assert len(once) == first.added == len(set(entries))
        library.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def test_a_removed_record_comes_back(tmp_path: Path) -> None:
    """Removing a record forgets its file."""
    (tmp_path / "a.md").write_text("# Note")
    library = await Library.open(tmp_path / "library", create=True)
    await ingest(library, [tmp_path / "a.md"])
    await library.remove([record.doc_id async for record in library.scan()])
    assert (await ingest(library, [tmp_path / "a.md"])).added == 1


async def test_a_file_set_back_is_read_again(tmp_path: Path) -> None:
    """An origin's earlier content is forgotten when a later one is remembered."""
    library = await Library.open(tmp_path / "library", create=True)
    for text in ("# One", "# Two", "# One"):
        (tmp_path / "a.md").write_text(text)
        await ingest(library, [tmp_path / "a.md"])
    assert [record.title async for record in library.scan()] == ["One"]


@pytest.mark.skipif(not DATA.exists(), reason=f"no data at {DATA}; set OUTRIDER_DATA")
async def test_everything_real_is_accounted_for(tmp_path: Path) -> None:
    """Bibliographies, full texts and saved pages: each file in the report, none lost; a second run changes nothing."""
    folders = [DATA / "bibliographies", DATA / "fulltext", DATA / "web/readability"]
    library = await Library.open(tmp_path / "library", create=True)
    first = await ingest(library, folders)
    files = sorted(str(path.resolve()) for folder in folders for path in folder.rglob("*") if path.is_file())
    assert sorted(file.path for file in first.files) == files
    assert all(file.reasons for file in first.files if file.status in ("skipped", "failed", "partial"))
    assert first.added == await library.count() > 500
    assert sum(file.status == "failed" for file in first.files) <= 2
    second = await ingest(library, folders)
    assert (second.added, second.updated, second.skipped, second.failed) == (0, 0, first.skipped, first.failed)
    assert second.unchanged == first.added + first.unchanged
