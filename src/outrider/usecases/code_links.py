"""Links between papers, repositories and pages: of one work, by a job, from a file"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from outrider.nodes.code_links import describe_links, judge_liveness
from outrider.runtime.threads_and_loops import load_module, run_in_background
from outrider.services import Services, open_services
from outrider.state.code_links import CodeLink, LinkedCode, LinkedPaper, LinkEvidence, Liveness
from outrider.state.errors import BadRequest, LibraryMissing, UnreadableFile
from outrider.state.model import Model
from outrider.state.records import Identifiers, Kind, Record, Repository
from outrider.usecases.jobs import queue_job

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.library.library import Library
    from outrider.state.ports import OnCount

MAX_FILE_BYTES = 512 * 2**20
ROWS_AT_ONCE = 5_000
MOST_NAMED = 10
RECORDS_AT_ONCE = 500


class WorkLinks(Model):
    """The links of one work, with their evidence."""

    doc_id: str
    title: str = ""
    kind: Kind
    liveness: Liveness | None = Field(None, description="Of a repository: whether it is alive.")
    why: str = Field("", description="Why it counts as alive, quiet, unknown or dead.")
    code: tuple[LinkedCode, ...] = Field((), description="Repositories of a paper, alive ones first; archives last.")
    papers: tuple[LinkedPaper, ...] = Field((), description="Papers of a repository, and DOIs under which it is archived.")
    pages: tuple[CodeLink, ...] = ()
    mentions: tuple[CodeLink, ...] = Field((), description="Works that are only used or named: not its own.")


class LinksImport(Model):
    """What a file of links, or a scan of the library, added."""

    rows: int = Field(description="Rows of the file, or records of the library, that were read.")
    evidence: int
    problems: tuple[str, ...] = Field((), description="The first rows that name no paper or no repository.")
    left_out: int = 0


async def get_code_links(services: Services, target: str) -> WorkLinks:
    """The links of a record, named by its id, a DOI, an arXiv number or a repository; also of a work that is no record but has links.

    Raises `BadRequest` for a target of which nothing is known.
    """
    record = await _find_record(services, target)
    known = await services.links.find([record])
    links = known.links.get(record.doc_id, ())
    if not links and not record.source:
        raise BadRequest(f"nothing is known of {target!r}: it is no record of the library, and no link names it")
    now = services.clock()
    code, papers = describe_links(record, links, known, now)
    shown = {*(one.name for one in code), *(one.name for one in papers)}
    liveness, why = judge_liveness(record, now) if isinstance(record, Repository) and record.source else (None, "")
    return WorkLinks(
        doc_id=record.doc_id,
        title=record.title,
        kind=record.kind,
        liveness=liveness,
        why=why,
        code=code,
        papers=papers,
        pages=tuple(link for link in links if link.kind == "page"),
        mentions=tuple(link for link in links if link.kind != "page" and not {link.work, link.target} & shown),
    )


async def _find_record(services: Services, target: str) -> Record:
    """The record of a target; one without source for a work that is none."""
    module = await load_module("outrider.services.code_links")
    try:
        library = await services.library()
        records, addresses, _ = await module.find_targets(library, [target])
    except LibraryMissing:
        records, addresses = (), tuple(filter(None, [module.parse_address(target)]))
        library = None
    if records:
        found: Record = records[0]
        return found
    if not addresses:
        raise BadRequest(f"{target!r} names no record, paper or repository; write an id, a DOI, arxiv:2101.00001 or owner/name")
    name = addresses[0]
    if library is not None:
        finder = await load_module("outrider.library.find_code")
        by_name = await finder.find_records_by_name(library, {name})
        if name in by_name:
            return (await library.fetch([by_name[name].doc_id]))[0]
        described = await library.code_repositories.find([name])
        if name in described:
            return described[name].model_copy(update={"doc_id": name})
    scheme, _, path = name.partition(":")
    identifiers = Identifiers(github=path) if scheme == "github" else Identifiers()
    return Repository(doc_id=name, title=path, identifiers=identifiers, url=None if scheme == "github" else f"https://{path}", source="")


async def queue_code_links(services: Services, targets: Sequence[str], requests: int | None = None) -> str:
    """Queue a job that reads the files of the targets' repositories at GitHub; its number. Raises `BadRequest`, `TargetPaused`."""
    module = await load_module("outrider.services.code_links")
    budget = services.settings.code_links.requests if requests is None else requests
    request = module.check_code_links_request({"targets": list(targets), "requests": budget})
    fields: dict[str, JsonValue] = request.model_dump(mode="json")
    return await queue_job(services, "code_links", targets[0], fields)


async def import_links(services: Services, path: str | PathLike[str], progress: OnCount | None = None) -> LinksImport:
    """Store the links of a file: a JSON list as Papers with Code published it (`.json` or `.json.gz`); reading it again replaces them."""
    rows = await asyncio.to_thread(_load_rows, Path(path))
    library = await _open(services)
    read_in = f"file:{Path(path).name}"
    module = await load_module("outrider.code_links.metadata_files")
    found: list[LinkEvidence | str] = await asyncio.to_thread(lambda: list(module.read_link_rows(rows, read_in)))
    evidence = [one for one in found if isinstance(one, LinkEvidence)]
    problems = [one for one in found if isinstance(one, str)]
    for start in range(0, len(evidence) or 1, ROWS_AT_ONCE):
        part = evidence[start : start + ROWS_AT_ONCE]
        await library.code_links.store([] if start else [read_in], part)
        if progress:
            progress(start + len(part), len(evidence))
    return LinksImport(rows=len(rows), evidence=len(evidence), problems=tuple(problems[:MOST_NAMED]), left_out=len(problems))


def _load_rows(path: Path) -> list[Any]:
    if not path.is_file():
        raise BadRequest(f"{path} is not there")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise UnreadableFile(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise UnreadableFile(f"{path} unpacks to more than {MAX_FILE_BYTES // 2**20} MiB")
        rows = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise UnreadableFile(f"{path} is no JSON: {error}") from error
    if not isinstance(rows, list):
        raise UnreadableFile(f"{path} is no list of links; each is an object with repo_url and paper_url, paper_arxiv_id or paper_title")
    return rows


async def scan_links(services: Services, progress: OnCount | None = None) -> LinksImport:
    """Read the evidence of all records again, as an Outrider without links wrote them."""
    library = await services.library()
    reader = await load_module("outrider.code_links.read_record")
    records = evidence = 0
    total = await library.count()
    batch: list[Record] = []

    async def store() -> int:
        found = await reader.read_all_evidence(batch)
        await library.code_links.store([record.doc_id for record in batch], found)
        return len(found)

    async for record in library.scan():
        batch.append(record)
        records += 1
        if len(batch) == RECORDS_AT_ONCE:
            evidence += await store()
            batch.clear()
            if progress:
                progress(records, total)
    evidence += await store()
    return LinksImport(rows=records, evidence=evidence)


async def _open(services: Services) -> Library:
    from outrider.services.citations import open_library

    return await open_library(services)


async def afind_code_links(target: str, *, library: str | PathLike[str] | None = None, services: Services | None = None) -> WorkLinks:
    """The repositories of a paper, or the papers of a repository, with evidence. Raises `BadRequest` if nothing is known of the target."""
    async with open_services(services, library) as opened:
        return await get_code_links(opened, target)


def find_code_links(target: str, **options: Any) -> WorkLinks:
    """`afind_code_links` for callers without an event loop."""
    return run_in_background(afind_code_links(target, **options))
