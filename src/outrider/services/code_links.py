"""Jobs of the kind `code_links`: files of repositories, read for their papers

CITATION.cff, codemeta.json and README of the targets' repositories, and what GitHub says about each. A paper's repositories are those that
its texts and earlier evidence name as its own. Offline, the records that the library keeps are read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue, ValidationError

from outrider.code_links.metadata_files import read_citation_file, read_codemeta
from outrider.code_links.names import list_names, list_repository_names, parse_repository_address
from outrider.code_links.read_record import read_all_evidence
from outrider.code_links.read_repository import RepositoryReader
from outrider.ingest.readers.text_documents import parse_mapping
from outrider.library.code_link_tables import KnownRepository
from outrider.library.find_code import CodeFinder
from outrider.services.citations import find_seeds, open_library
from outrider.services.sources import find_github
from outrider.state.code_links import CodeLinksRequest, CodeLinksResult, LinkEvidence
from outrider.state.errors import BadRequest, Malformed, RateLimited, SourceError, explain_wrong_fields
from outrider.state.records import Record, Repository
from outrider.text.sanitize import OFFLINE

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.sources.github.repository import GithubRepositories
    from outrider.state.jobs import JobSteps

FILES = ("CITATION.cff", "codemeta.json")
MAX_FILE_CHARS = 2**20
WITHIN_S = 20.0
"""Time limit of one request, waiting for the rate limit included."""
REQUESTS_EACH = 4
"""Of one repository: itself, two files, README."""
CURE = "with GITHUB_TOKEN set there are 5,000 requests an hour instead of 60"


def check_code_links_request(request: Mapping[str, Any] | CodeLinksRequest) -> CodeLinksRequest:
    """Validate a request; `BadRequest` names every wrong field."""
    try:
        return CodeLinksRequest.model_validate(request)
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), CodeLinksRequest.model_fields)) from error


async def run_code_links_job(services: Services, request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
    """A job of the kind `code_links`: the fields of a `CodeLinksRequest` in, those of a `CodeLinksResult` out."""
    result = await read_code_links(services, check_code_links_request(request), steps)
    fields: dict[str, JsonValue] = result.model_dump(mode="json")
    return fields


async def read_code_links(services: Services, request: CodeLinksRequest, steps: JobSteps) -> CodeLinksResult:
    """Each repository is one step, with its write: after a crash only the one that was under way is read again."""
    library = await open_library(services)
    records, names, missing = await find_targets(library, request.targets)
    remarks: list[str] = []
    evidence = _count(await steps.step("records", partial(_read_records, library, records)))
    github = None if services.settings.sources.offline else find_github(services.sources)
    repositories = [name for name in await _list_repositories(library, records, names) if name.startswith("github:")]
    if github is None:
        why = OFFLINE if services.settings.sources.offline else "sources.github is switched off"
        remarks.append(f"GitHub was not asked: {why}; what the library keeps was read again")
        return CodeLinksResult(targets=request.targets, evidence=evidence, missing=missing, remarks=tuple(remarks))
    read, sent = 0, 0
    for number, name in enumerate(repositories, start=1):
        if sent + REQUESTS_EACH > request.requests:
            remarks.append(f"{len(repositories) - number + 1} repositories are left: the budget of {request.requests} requests is spent")
            break
        await steps.report(f"repository {number} of {len(repositories)}: {name}")
        answer = await steps.step(f"repository {name}", partial(_read_repository, services, library, github, name))
        outcome = answer if isinstance(answer, dict) else {}
        sent += _count(outcome.get("requests"))
        evidence += _count(outcome.get("evidence"))
        read += outcome.get("found") is True
        if remark := str(outcome.get("remark") or ""):
            remarks.append(remark)
        if outcome.get("stop") is True:
            break
    return CodeLinksResult(
        targets=request.targets, repositories=read, evidence=evidence, requests=sent, missing=missing, remarks=tuple(remarks)
    )


def _count(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


async def find_targets(library: Library, targets: Sequence[str]) -> tuple[tuple[Record, ...], tuple[str, ...], tuple[str, ...]]:
    """The records of targets, repositories that targets name by address, and targets that name neither."""
    addresses = {target: name for target in targets if (name := parse_address(target))}
    seeds, _ = await find_seeds(library, targets)
    ids = [seed.name for seed in seeds if not seed.name.startswith(("doi:", "arxiv:", "pmid:", "pmcid:", "openalex:", "s2:"))]
    records = {record.doc_id: record for record in await library.fetch(list(dict.fromkeys([*targets, *ids])))}
    known = {name for record in records.values() for name in (record.doc_id, *list_names(record))}
    loose = [seed.paper for seed in seeds if seed.name not in records]
    every = {name for paper in loose for name in list_names(paper)}
    missing = tuple(
        target
        for target in targets
        if target not in records and target not in addresses and not {target, f"doi:{target}"} & (known | every)
    )
    return (*records.values(), *loose), tuple(addresses.values()), missing


def parse_address(target: str) -> str | None:
    """The repository of an address, `github:owner/name` or `owner/name`; None for anything else."""
    if "://" in target or target.startswith(("github.com/", "gitlab.com/", "codeberg.org/", "bitbucket.org/")):
        return parse_repository_address(target)
    bare = target.removeprefix("github:")
    return parse_repository_address(f"https://github.com/{bare}") if bare.count("/") == 1 and not bare.startswith("10.") else None


async def _list_repositories(library: Library, records: Sequence[Record], names: Sequence[str]) -> list[str]:
    """Repositories of the targets, in their order, each once."""

    async def get_library() -> Library:
        return library

    found = dict.fromkeys(names)
    found.update(dict.fromkeys(name for record in records if isinstance(record, Repository) for name in list_repository_names(record)))
    known = await CodeFinder(get_library).find(records)
    for record in records:
        for link in known.links.get(record.doc_id, ()):
            if link.is_own or link.kind == "archive":
                found[link.target] = None
    return list(found)


async def _read_records(library: Library, records: Sequence[Record]) -> JsonValue:
    """Read the evidence of records again: those of an Outrider without links have none yet."""
    stored = [record for record in records if record.source]
    evidence = await read_all_evidence(stored)
    await library.code_links.store([record.doc_id for record in stored], evidence)
    return len(evidence)


async def _read_repository(services: Services, library: Library, github: GithubRepositories, name: str) -> dict[str, JsonValue]:
    """One repository: what GitHub says about it, and the evidence in its files, written."""
    reader = FileReader(github)
    path = name.removeprefix("github:")
    try:
        repository = await reader.repository(path)
        if repository is None:
            return {"requests": reader.sent, "found": False, "remark": f"{path} is gone from GitHub, or private"}
        now_named = f"github:{repository.identifiers.github or path}"
        texts = {file: await reader.read(path, f"/contents/{file}") for file in FILES}
        readme = await reader.read(path, "/readme")
    except RateLimited as error:
        return {"requests": reader.sent, "found": False, "stop": True, "remark": f"{error}; {CURE}"}
    except SourceError as error:
        return {"requests": reader.sent, "found": False, "remark": f"{path}: {error}"}
    described = repository.model_copy(update={"doc_id": now_named, "text": readme})
    evidence = [*RepositoryReader(described).read(), *_read_files(texts, now_named)]
    both = dict.fromkeys((name, now_named))
    renamed = [one.model_copy(update={"target": alias}) if one.target == now_named else one for alias in both for one in evidence]
    own = [one.model_copy(update={"read_in": f"{one.read_in}#files"}) for one in dict.fromkeys(renamed)]
    await library.code_links.store([f"{now_named}#files"], own)
    at = datetime.fromtimestamp(services.clock(), UTC).isoformat(timespec="seconds")
    brief = described.model_copy(update={"text": ""})
    await library.code_repositories.add([KnownRepository(alias, brief, at) for alias in both])
    moved = f"{path} is now {now_named.removeprefix('github:')}" if now_named != name else ""
    return {"requests": reader.sent, "found": True, "evidence": len(evidence), "remark": moved}


def _read_files(texts: Mapping[str, str], name: str) -> list[LinkEvidence]:
    evidence: list[LinkEvidence] = []
    if cff := texts["CITATION.cff"]:
        content, problem = parse_mapping(cff, MAX_FILE_CHARS)
        evidence += [] if problem else read_citation_file(content, name, name, text=cff)
    if codemeta := texts["codemeta.json"]:
        try:
            loaded = json.loads(codemeta)
        except ValueError:
            loaded = None
        evidence += read_codemeta(loaded, name, name, text=codemeta) if isinstance(loaded, dict) else []
    return evidence


class FileReader:
    """Requests to GitHub, counted."""

    def __init__(self, github: GithubRepositories) -> None:
        self.github = github
        self.sent = 0

    async def repository(self, path: str) -> Repository | None:
        self.sent += 1
        return await self.github.repository(path, WITHIN_S)

    async def read(self, path: str, part: str) -> str:
        """The text of a file; empty for one that is not there, is too large, or is none."""
        from outrider.sources.github.parse import RAW, parse_readme
        from outrider.sources.github.repository import GONE, JSON, NOTHING, OK, redirect_path, repository_path
        from outrider.sources.http.service import MOVED

        self.sent += 1
        calls, until = self.github, time.monotonic() + WITHIN_S
        headers = {**JSON, "Accept": RAW}
        address = repository_path(path) + part
        accept = OK | GONE | NOTHING | MOVED
        reply = await calls.caller.get(calls.service, address, within_s=WITHIN_S, headers=headers, accept=accept)
        if reply.status in MOVED:
            self.sent += 1
            address = redirect_path(reply, calls.service) + part
            reply = await calls.caller.get(calls.service, address, within_s=until - time.monotonic(), headers=headers, accept=accept)
        if reply.status not in OK:
            return ""
        try:
            return (parse_readme(reply) or "")[:MAX_FILE_CHARS]
        except Malformed:
            return ""
