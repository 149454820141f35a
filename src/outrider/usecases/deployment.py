"""Check of the settings for several servers: `outrider doctor --deployment`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from outrider.jobs.job_table import POSTGRES
from outrider.services.citation_queue import find_job_table
from outrider.services.deployment import SETTING, Deployment, Member, find_folders, list_differences, mark_folder, refuse_learning
from outrider.services.saved_queue import find_saved_store
from outrider.state.errors import LibraryMissing, SearchError
from outrider.state.model import Model
from outrider.text.sanitize import explain_database_error, without_credentials, without_password

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.model import Settings

Status = Literal["ok", "warning", "broken"]
MAX_SKEW_S, BROKEN_SKEW_S = 1.0, 10.0
"""Leases last some seconds: clocks that differ by more end them early or late."""
CONNECT_S = 5
FULL = 0.9
SAFE_POLICY = "noeviction"
TABLES = ("checkpoints", "outrider_runs", "outrider_jobs")
"""Of threads and jobs, made by the first server that needs them."""


class Check(Model):
    what: str
    status: Status
    says: str
    todo: str = Field("", description="What mends it.")


class DeploymentReport(Model):
    ready: bool = Field(description="Whether nothing is broken.")
    servers: int = Field(description="Servers that are up.")
    checks: tuple[Check, ...]


async def check_deployment(services: Services) -> DeploymentReport:
    """Whether several servers with these settings would answer for each other. Nothing is written but the marks of folders."""
    settings = services.settings
    checks: list[Check] = []
    members: tuple[Member, ...] = ()
    try:
        async with Deployment.open(settings) as deployment:
            found, members = await _check_redis(deployment)
            checks += found
    except SearchError as error:
        checks.append(Check(what="redis", status="broken", says=str(error), todo=f"correct {SETTING}"))
    checks += await _check_databases(settings)
    checks.append(await _check_library(services, members))
    checks += await asyncio.to_thread(lambda: [*_check_folders(settings, members)])
    checks += [*_check_settings(settings), *_check_members(members)]
    return DeploymentReport(ready=all(check.status != "broken" for check in checks), servers=len(members), checks=tuple(checks))


async def _check_redis(deployment: Deployment) -> tuple[list[Check], tuple[Member, ...]]:
    """How Redis is, and the servers that it knows."""
    redis = deployment.redis
    if redis is None:
        todo = f"set {SETTING} to a Redis server that all servers reach, such as redis://redis:6379/0"
        says = f"{SETTING} is empty: each server has searches and limits of its own"
        return [Check(what="redis", status="broken", says=says, todo=todo)], ()
    from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

    shown = without_credentials(deployment.settings.shared.redis_url)
    try:
        began = time.perf_counter()
        await redis.ping()
        took_ms = (time.perf_counter() - began) * 1_000
        skew_s = await deployment.measure_skew()
        info: Mapping[str, Any] = await redis.info()
        if info.get("cluster_enabled"):
            says = f"{shown} belongs to a Redis Cluster, which cannot change several keys in one step"
            return [Check(what="redis", status="broken", says=says, todo=f"name a single server in {SETTING}")], ()
        members = await deployment.members()
    except (AuthenticationError, NoPermissionError) as error:
        says = f"{shown} refuses its user: {explain_database_error(error, deployment.settings.shared.redis_url)}"
        todo = f"correct user and password in {SETTING}; it needs INFO, TIME, scripts, and what begins with outrider:"
        return [Check(what="redis", status="broken", says=says, todo=todo)], ()
    except (RedisError, OSError, TimeoutError) as error:
        says = f"{shown} does not answer: {type(error).__name__}"
        return [Check(what="redis", status="broken", says=says, todo="start it, and let this machine reach it")], ()
    checks = [
        Check(what="redis", status="ok", says=f"{shown} answers in {took_ms:.1f} ms, version {info.get('redis_version', 'unknown')}"),
        _check_memory(info),
        _check_restart(info),
        _check_clock("clock", "this machine's", skew_s, "Redis"),
    ]
    return checks, members


def _check_memory(info: Mapping[str, Any]) -> Check:
    what, policy, most, used = "redis memory", info.get("maxmemory_policy", ""), info.get("maxmemory", 0), info.get("used_memory", 0)
    if policy != SAFE_POLICY and most:
        says = f"maxmemory-policy is {policy}: a full Redis drops limits and searches that are under way"
        return Check(what=what, status="broken", says=says, todo=f"set maxmemory-policy {SAFE_POLICY} in its configuration")
    if most and used > FULL * most:
        says = f"{used / 2**20:,.0f} of {most / 2**20:,.0f} MiB are used; when it is full, it takes no more searches"
        return Check(what=what, status="warning", says=says, todo="raise maxmemory, or lower serve.keep_s")
    return Check(what=what, status="ok", says=f"at most {most / 2**20:,.0f} MiB, {policy}" if most else "without a limit of its own")


def _check_restart(info: Mapping[str, Any]) -> Check:
    what = "redis restart"
    if info.get("aof_enabled"):
        return Check(what=what, status="ok", says="its append-only file keeps limits and searches")
    says = "without an append-only file it forgets answers, and limits begin one period late"
    return Check(what=what, status="warning", says=says, todo="set appendonly yes in its configuration")


def _check_clock(what: str, whose: str, skew_s: float, other: str) -> Check:
    says = f"{whose} clock differs from that of {other} by {abs(skew_s):.2f} s"
    if abs(skew_s) <= MAX_SKEW_S:
        return Check(what=what, status="ok", says=says)
    return Check(what=what, status="broken" if abs(skew_s) > BROKEN_SKEW_S else "warning", says=says, todo="let NTP set the clocks")


async def _check_databases(settings: Settings) -> list[Check]:
    """Threads, jobs and saved searches; each database is asked once."""
    found: list[tuple[str, str]] = [("threads", settings.threads.uri)]
    checks = []
    others: tuple[tuple[str, Callable[[], str]], ...] = (
        ("jobs", lambda: find_job_table(settings).uri),
        ("saved searches", lambda: str(find_saved_store(settings).path)),
    )
    for what, find in others:
        try:
            found.append((what, find()))
        except SearchError as error:
            checks.append(Check(what=what, status="broken", says=str(error), todo="correct the address"))
    answers: dict[str, list[Check]] = {}
    for what, uri in found:
        if not uri.startswith(POSTGRES):
            setting = {"threads": "threads.uri", "jobs": "jobs.uri", "saved searches": "saved.uri"}[what]
            todo = f"set {setting} to postgresql://..., the same on all servers"
            if "://" in uri:
                says = f"{without_credentials(uri)} is no Postgres database"
                checks.append(Check(what=what, status="broken", says=says, todo=todo))
                continue
            says = f"{uri or 'a file of this machine'}: enough for servers on one machine, and unknown to those on another"
            checks.append(Check(what=what, status="warning", says=says, todo=todo))
            continue
        if uri not in answers:
            answers[uri] = await asyncio.to_thread(_check_postgres, uri)
        checks += [check.model_copy(update={"what": what if check.what == "postgres" else check.what}) for check in answers[uri][:1]]
    return checks + [check for rest in answers.values() for check in rest[1:]]


def _check_postgres(uri: str) -> list[Check]:
    shown = without_credentials(uri)
    try:
        import psycopg
    except ImportError:
        return [Check(what="postgres", status="broken", says="its client is not installed", todo="pip install 'outrider[postgres]'")]
    try:
        with psycopg.connect(uri, connect_timeout=CONNECT_S, autocommit=True) as connection:
            before = time.time()
            (now,), after = _one(connection, "SELECT extract(epoch FROM clock_timestamp())"), time.time()
            version, most = _one(connection, "SELECT current_setting('server_version'), current_setting('max_connections')::int")
            tables = _one(connection, "SELECT count(*) FROM pg_tables WHERE tablename = ANY(%s)", (list(TABLES),))[0]
            used = _one(connection, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")[0]
            may_create = _one(connection, "SELECT has_schema_privilege(current_schema(), 'CREATE')")[0]
    except psycopg.Error as error:
        says = f"{shown} cannot be read: {explain_database_error(error, uri)}"
        return [Check(what="postgres", status="broken", says=says, todo="start it, or correct the address")]
    clock = _check_clock("clock of Postgres", "its", float(now) - (before + after) / 2, "this machine")
    if tables < len(TABLES) and not may_create:
        todo = "GRANT CREATE ON SCHEMA public TO that user, or start one server with a user that may"
        return [Check(what="postgres", status="broken", says=f"{shown} lacks tables, and its user may not create them", todo=todo), clock]
    state = "set up" if tables == len(TABLES) else "without all tables yet, which the first use makes"
    room = Check(what="connections of Postgres", status="ok", says=f"{used:,} of {most:,} are open")
    if used > FULL * most:
        room = room.model_copy(update={"status": "warning", "todo": "raise max_connections, or run fewer servers"})
    return [Check(what="postgres", status="ok", says=f"{shown}, version {version.split()[0]}, {state}"), clock, room]


def _one(connection: Any, query: str, values: tuple[object, ...] = ()) -> tuple[Any, ...]:
    row: tuple[Any, ...] = connection.execute(query, values).fetchone()
    return row


async def _check_library(services: Services, members: tuple[Member, ...]) -> Check:
    uri, what = services.settings.library.uri, "library"
    shown = without_password(uri)
    try:
        number = (await services.library()).library_id
    except LibraryMissing:
        number = ""
    except SearchError as error:
        return Check(what=what, status="broken", says=str(error), todo="outrider library check")
    others = {member.library for member in members if member.library} - {number}
    if number and others:
        says = f"{shown} is another library than that of {_list_names(member for member in members if member.library in others)}"
        return Check(what=what, status="broken", says=says, todo="name one library in library.uri of all servers")
    if "://" in uri:
        return Check(what=what, status="ok", says=f"{shown}, an object store" + ("" if number else "; nothing is in it yet"))
    if members and number:
        return Check(what=what, status="ok", says=f"{shown} is the same library at {len(members)} servers")
    says = f"{shown} is a folder: every server needs the same one, on a file system with locks"
    return Check(what=what, status="warning", says=says, todo="name an object store (s3://, gs://, az://), or mount shared storage there")


def _check_folders(settings: Settings, members: tuple[Member, ...]) -> Iterator[Check]:
    setting = {"runs": "systematic.folder", "reviews": "review.folder"}
    what = {"runs": "systematic runs", "reviews": "reviews"}
    for kind, folder in find_folders(settings).items():
        mark = mark_folder(folder)
        others = [member for member in members if member.folders.get(kind, "") != mark]
        if not mark:
            yield Check(what=what[kind], status="broken", says=f"{folder} cannot be written", todo=f"correct {setting[kind]}")
        elif others:
            says = f"{folder} is another folder than that of {_list_names(others)}: what one server has, another one refuses with 503"
            yield Check(what=what[kind], status="broken", says=says, todo=f"set {setting[kind]} to storage that all servers share")
        elif members:
            yield Check(what=what[kind], status="ok", says=f"{folder} is the same folder at {len(members)} servers")
        else:
            says = f"{folder}; no server is up whose folder could be compared"
            yield Check(what=what[kind], status="warning", says=says, todo="check again while all servers are up")


def _check_settings(settings: Settings) -> Iterator[Check]:
    serve = settings.serve
    if serve.api_keys:
        yield Check(what="keys", status="ok", says=f"{len(serve.api_keys)} accepted: {', '.join(sorted(serve.api_keys))}")
    else:
        todo = "outrider serve key NAME; set the same serve.api_keys on all servers"
        yield Check(what="keys", status="warning", says="none: whoever reaches the proxy may search", todo=todo)
    if not serve.drain_s:
        says = "a server that stops closes its port at once, before the proxy has noticed"
        yield Check(what="stop", status="warning", says=says, todo="set serve.drain_s to a little more than two health checks, such as 10")
    else:
        yield Check(what="stop", status="ok", says=f"/readyz says 503 for {serve.drain_s:g} s before a server stops")
    if not serve.proxies:
        says = "the log names the proxy instead of the client"
        yield Check(what="proxy", status="warning", says=says, todo="set serve.trusted_proxies to the addresses of the proxy")
    else:
        yield Check(what="proxy", status="ok", says=f"the client's address is read from {', '.join(serve.proxies)}")
    try:
        refuse_learning(settings)
    except SearchError as error:
        yield Check(what="learning", status="broken", says=str(error), todo="set learning.enabled: false")


def _check_members(members: tuple[Member, ...]) -> Iterator[Check]:
    if not members:
        yield Check(what="servers", status="warning", says="none is up", todo="start them, and check again")
        return
    yield Check(what="servers", status="ok", says=f"{len(members)} up: {_list_names(members)}")
    for member in members:
        if abs(member.skew_s) > MAX_SKEW_S:
            yield _check_clock(f"clock of {member.host}", "its", member.skew_s, "Redis")
    versions = {member.version for member in members}
    if len(versions) > 1:
        yield Check(what="versions", status="warning", says=f"servers run {', '.join(sorted(versions))}", todo="update all servers")
    for name in sorted(set().union(*(member.settings for member in members))):
        groups = list_differences(members, name)
        if len(groups) > 1:
            says = f"{name} differs between {' and '.join(', '.join(group) for group in groups.values())}"
            status: Status = "broken" if name == "serve.api_keys" else "warning"
            yield Check(what="settings", status=status, says=says, todo="give all servers the same settings file")


def _list_names(members: Iterable[Member]) -> str:
    return ", ".join(member.name for member in members)
