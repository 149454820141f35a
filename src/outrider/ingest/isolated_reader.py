"""Reading of a PDF from the network, in a process of its own

A file of the user's own is read in a thread (`reader_thread`). A file that anybody may have made could crash the parser, which is C, or
keep it busy; a thread cannot be stopped. This process is killed at its time limit, may take `MOST_MEMORY_BYTES`, gets no settings and no
keys, and its own code opens no connection. It starts in about 0.3 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from outrider.ingest.entry import Entry, ReadOptions
from outrider.state.errors import SourceTimeout, UnreadableFile
from outrider.state.records import RECORD, Record

AT_ONCE = asyncio.Semaphore(2)
"""For the process; used on the background loop only."""
MOST_MEMORY_BYTES = 2 * 2**30
MOST_ANSWER_BYTES = 64 * 2**20
SHOWN_CHARS = 300


async def read_pdf(body: bytes, within_s: float, options: ReadOptions) -> Record:
    """The record of a PDF. Runs on the background loop; raises `UnreadableFile`, `SourceTimeout`."""
    try:
        async with asyncio.timeout(max(within_s, 0.0)):
            async with AT_ONCE:
                folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="outrider-pdf-")
                try:
                    path = Path(folder.name, "text.pdf")
                    await asyncio.to_thread(path.write_bytes, body)
                    return _parse_answer(*await _run(path, within_s, options))
                finally:
                    await asyncio.to_thread(folder.cleanup)
    except TimeoutError as error:
        raise SourceTimeout(f"the PDF was not read within {max(within_s, 0.0):.3g} s") from error


async def _run(path: Path, within_s: float, options: ReadOptions) -> tuple[int, bytes]:
    """The exit code of the process and what it wrote."""
    arguments = (str(path), str(options.max_pages), str(max(1, round(within_s) + 1)))
    # the paths of this process, since an editable or frozen installation may be found by them alone; nothing else of its environment
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONIOENCODING": "utf-8"}
    environment |= {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG", "TMPDIR", "TEMP") if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *arguments, env=environment, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        answer = bytearray()
        while part := await process.stdout.read(2**16):
            answer += part
            if len(answer) > MOST_ANSWER_BYTES:
                raise UnreadableFile(f"its text has more than {MOST_ANSWER_BYTES:,} bytes")
        return await process.wait(), bytes(answer)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())


def _parse_answer(code: int, answer: bytes) -> Record:
    try:
        fields = json.loads(answer)
        if isinstance(fields, dict) and "error" in fields:
            raise UnreadableFile(str(fields["error"])[:SHOWN_CHARS])
        return RECORD.validate_python(fields)
    except (ValueError, ValidationError) as error:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        raise UnreadableFile(f"the process that reads it {how}: it is damaged, or made to be slow or large") from error


def limit_resources(seconds: int) -> None:
    """Limit the memory and the processor time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for what, most in ((resource.RLIMIT_AS, MOST_MEMORY_BYTES), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


def main(path: str, max_pages: str, seconds: str) -> None:
    """Write the record of a PDF to standard output, or `{"error": ...}`."""
    limit_resources(int(seconds))
    from outrider.ingest.readers import pdf

    try:
        entries = [entry for entry in pdf.read(Path(path), ReadOptions(max_pages=int(max_pages))) if isinstance(entry, Entry)]
        answer = entries[0].record.model_dump(mode="json") | {"kind": entries[0].record.kind}
    except UnreadableFile as error:
        answer = {"error": str(error).removeprefix(f"{path}: ")}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:4])
