"""Health of the engine for `outrider doctor` and `GET /health`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.library.address_and_locks import Location
from outrider.models.chat.endpoint import EndpointChat
from outrider.models.rerank.endpoint import EndpointReranker
from outrider.models.rerank.late_interaction import LateInteraction
from outrider.models.servers.health import ServerReport
from outrider.runtime.tape import without_port
from outrider.runtime.threads_and_loops import in_background, run_in_thread
from outrider.services.sources import explain_missing_contact, open_shared_redis
from outrider.state.errors import ChatError, EmbeddingSpaceMismatch, LibraryError, LibraryMissing, LibraryReadOnly, SearchError
from outrider.state.model import Model
from outrider.text.sanitize import OFFLINE, split_addresses

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.services import Services
    from outrider.state.ports import Reranker

HEALTH_S = 60.0
"""Limit on the loading of a model, or the answer of its server; after that it counts as missing."""
SERVERS_S = 5.0
"""Limit on the checks of several servers of one model."""


class Part(Model):
    """One part of the engine."""

    what: str
    on: bool
    says: str
    broken: bool = Field(False, description="Configured, but unusable.")
    command: str = Field("", description="A command that mends it.")


async def health(services: Services) -> tuple[Part, ...]:
    """Library, models, full texts, links to code, servers, plans. Loads the embedding model, which takes seconds at first."""
    store, limits = await _check_store(services), await _check_shared_limits(services)
    return (*await _check_search(services), *store, *limits, await _check_plans(services))


async def _check_store(services: Services) -> tuple[Part, ...]:
    """Whether the object store of the library can be reached, read and written; nothing for a library in a folder."""
    what, settings = "object store", services.settings.library
    location = Location.parse(settings.uri)
    if location.path is not None:
        return ()
    try:
        library = await services.library()
        await library.probe(writes=True)
    except LibraryMissing:
        return (Part(what=what, on=True, says=f"it can be reached; there is no library at {location.address} yet"),)
    except LibraryReadOnly as error:
        return (Part(what=what, on=True, says=str(error)),)
    except SearchError as error:
        return (Part(what=what, on=False, says=str(error), broken=True),)
    seconds = settings.read_consistency_s
    reads = f"searches may miss what was written in the last {seconds:g} s" if seconds else "each search asks for the latest version"
    return (Part(what=what, on=True, says=f"{location.address} can be read and written; {reads} (library.read_consistency_s)"),)


async def _check_shared_limits(services: Services) -> tuple[Part, ...]:
    """Whether the server that holds the limits of all processes can be used; nothing where the settings name none."""
    what, redis = "shared limits", open_shared_redis(services.settings)
    if redis is None:
        return ()
    if fault := await in_background(redis.check()):
        says = f"the Redis server of shared.redis_url is unavailable: {fault}; each process uses its share of a limit, or none"
        return (Part(what=what, on=False, says=says, broken=True),)
    disk = "" if redis.keeps_data else "; it keeps nothing on disk (appendonly no), so limits begin up to a minute after its restart"
    return (Part(what=what, on=True, says=f"kept in Redis; processes that use it now: {redis.processes:,}{disk}"),)


async def _check_plans(services: Services) -> Part:
    """How often the outcome of earlier runs lay in the interval that was predicted."""
    what, planner = "plans", services.planner
    if planner is None:
        return _off(what, "what searches take is not recorded (planner.enabled); plans rest on priors")
    try:
        runs, calibrations = await asyncio.to_thread(planner.calibrate)
    except SearchError as error:
        return Part(what=what, on=False, says=str(error), broken=True)
    if not calibrations:
        return Part(what=what, on=True, says="no search is recorded yet; plans rest on priors")
    figures = (f"{one.quantity} {one.coverage:.0%} (median width {one.median_width:.3g})" for one in calibrations)
    return Part(what=what, on=True, says=f"of {runs:,} run{'s' if runs != 1 else ''} within their 80 % intervals: {', '.join(figures)}")


async def _check_search(services: Services) -> tuple[Part, ...]:
    model, texts = await _check_model(services), _check_full_text(services)
    try:
        library = await services.library()
        records = await library.count()
    except LibraryError as error:
        failed = Part(what="library", on=False, says=str(error), broken=not isinstance(error, LibraryMissing))
        servers = await _check_servers(services, None, None)
        return failed, _off("dense search", "needs a library"), _off("reranker", "needs a library"), model, *servers, texts
    stored = Part(what="library", on=True, says=f"{records:,} records at {library.shown}")
    dense = await _check_dense_search(services, library)
    try:
        reranker, why = await services.reranker()
    except SearchError as error:
        reranker, why = None, str(error)
    part = Part(what="reranker", on=reranker is not None, says=why)
    reranks = await _check_token_vectors(part, library) if isinstance(reranker, LateInteraction) else part
    servers = await _check_servers(services, library, reranker)
    return stored, dense, reranks, model, *servers, texts, await _check_code_links(services, library)


async def _check_servers(services: Services, library: Library | None, reranker: Reranker | None) -> list[Part]:
    """A line for each section of the settings with several servers of one model; the line of the section itself reports a single one."""
    settings, chat, reranker = services.settings, without_port(services.chat), without_port(reranker)
    checks: list[Awaitable[Part]] = []
    if len(split_addresses(settings.embedding.base_url)) > 1 and settings.embedding.model_name != "none":
        checks.append(_describe_servers("embedding servers", _report_embedding_servers(services, library)))
    if isinstance(reranker, EndpointReranker) and len(split_addresses(reranker.base_url)) > 1:
        report = partial(reranker.report_servers, SERVERS_S)
        checks.append(_describe_servers("rerank servers", run_in_thread(report)))
    if isinstance(chat, EndpointChat) and len(split_addresses(settings.llm.base_url)) > 1:
        checks.append(_describe_servers("model servers", chat.report_servers(SERVERS_S)))
    return list(await asyncio.gather(*checks))


async def _report_embedding_servers(services: Services, library: Library | None) -> tuple[ServerReport, ...]:
    embedder = services.embedder(await library.space() if library else None)
    return await run_in_thread(partial(embedder.report_servers, SERVERS_S))


async def _describe_servers(what: str, report: Awaitable[Sequence[ServerReport]]) -> Part:
    try:
        servers = await report
    except SearchError as error:  # none answers
        return _off(what, str(error))
    problems = [one.problem for one in servers if one.problem]
    used = [one.name for one in servers if not one.problem]
    says = f"{len(used)} of {len(servers)} in use: {', '.join(used)}" if used else f"none of {len(servers)} in use"
    return Part(what=what, on=not problems, says="; ".join((says, *problems)))


def _check_full_text(services: Services) -> Part:
    """Which services are asked for open full texts, and what others need. Nothing is contacted."""
    settings, what = services.settings, "full text"
    if settings.enrich.full_text == "off":
        return _off(what, "switched off (enrich.full_text)")
    if settings.sources.offline:
        return _off(what, f"only texts that the library holds are read, {OFFLINE}; it needs a network")
    own, missing = settings.sources, explain_missing_contact(settings.sources)
    switched = (
        ("Europe PMC", own.europe_pmc.enabled),
        ("PubMed Central", own.pmc.enabled),
        ("arXiv", own.arxiv_texts.enabled),
        ("open links", own.open_links.enabled),
        ("Unpaywall", own.open_links.enabled and own.unpaywall.enabled and not missing),
    )
    names = [name for name, is_on in switched if is_on]
    when = {"on_demand": "on demand", "first_n": f"for the first {settings.enrich.full_text_first} hits"}[settings.enrich.full_text]
    says = f"{when}, from {', '.join(names)}" if names else "no service is switched on"
    return Part(what=what, on=bool(names), says="; ".join(filter(None, (says, missing))))


async def _check_token_vectors(part: Part, library: Library) -> Part:
    """The part of a late interaction, with the command that computes what it reads."""
    stored = (await library.info()).token_vectors
    if stored is not None and not stored.without:
        return part
    lacking = "without stored token vectors a search takes seconds" if stored is None else f"{stored.without:,} records lack token vectors"
    command = library.index_command()
    return part.model_copy(update={"says": f"{part.says}; {lacking}, compute them with: {command}", "command": command})


async def _check_code_links(services: Services, library: Library) -> Part:
    """How many links between papers and code are kept, and what a job that reads repositories would need."""
    settings = services.settings.sources
    try:
        kept = f"{await library.code_links.count():,} pieces of evidence are kept"
    except LibraryError as error:
        return Part(what="links to code", on=False, says=str(error), broken=True)
    if settings.offline or not settings.github.enabled:
        why = "sources.offline" if settings.offline else "sources.github.enabled"
        return Part(what="links to code", on=False, says=f"{kept}; repositories are not read at GitHub ({why}), kept records are")
    token = "" if settings.github.api_key.get_secret_value() else "; without GITHUB_TOKEN it has 60 requests an hour, 4 a repository"
    return Part(what="links to code", on=True, says=f"{kept}; outrider library links ID --read asks GitHub for more{token}")


async def _check_model(services: Services) -> Part:
    """The model is not asked a question, which costs money; but a server is asked which model it serves if the settings name none."""
    try:
        await services.find_model_name()
    except ChatError as error:
        return Part(what="model", on=False, says=str(error), broken=True)
    return Part(
        what="model",
        on=services.chat is not None,
        says=services.chat_says,
        broken=bool(services.lost_model) and not services.settings.sources.offline,
    )


async def _check_dense_search(services: Services, library: Library) -> Part:
    try:
        library_space = await library.space()
        embedder = services.embedder(library_space)
        async with asyncio.timeout(HEALTH_S):
            space = await run_in_thread(lambda: embedder.space)
        try:
            await library.accept(space)
        except EmbeddingSpaceMismatch as error:
            explained = await (await services.engine()).explain_mismatch(error, space, start=False)
            return Part(what="dense search", on=False, says=str(explained), command=explained.command)
    except SearchError as error:
        return _off("dense search", str(error))
    except TimeoutError:
        return _off("dense search", f"its model was not ready within {HEALTH_S:.0f} s")
    if library_space is None:
        command = library.reindex_command()
        how = f"new records are embedded as they are ingested, the others by: {command}"
        says = f"{space.model_name} is available, but the library has no vectors yet; {how}"
        return Part(what="dense search", on=False, says=says, command=command)
    vectors = (await library.info()).vectors
    assert vectors is not None  # noqa: S101 - there is a space
    text = f"{vectors.vectors:,} records by {space.model_name} ({space.dimension} dimensions, {vectors.index})"
    if not vectors.without:
        return Part(what="dense search", on=True, says=text)
    command = library.reindex_command()
    text += f"; {vectors.without:,} without vector, embed them with: {command}"
    return Part(what="dense search", on=True, says=text, command=command)


def _off(what: str, why: str) -> Part:
    return Part(what=what, on=False, says=why)
