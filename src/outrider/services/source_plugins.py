"""Sources that other packages add, by entry points of the group `outrider.sources`: each names a factory of a `Source`.

What such a package does wrong costs its own results only, and its line in the answer says what it was: it is code that nobody here has
read, so whatever it raises is caught, and it runs on a loop of its own (`run_isolated`): when it blocks, nobody else is held up.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from typing import Any, TypeVar, cast, get_args

from pydantic import JsonValue

from outrider.runtime.background_loop import run_isolated
from outrider.settings.section import is_secret
from outrider.sources.adapter import Off, spared
from outrider.sources.http.client import Caller
from outrider.state.errors import Malformed, SearchError, SourceTimeout, SourceUnavailable
from outrider.state.hits import Scored
from outrider.state.ports import AnswerStatus, BatchSource, Capabilities, Source, SourceAnswer, SourceQuery
from outrider.state.records import Document, Page, Paper, Record, Repository
from outrider.state.request import KNOWN_SOURCES, source_plugins
from outrider.text.sanitize import HIDDEN, redact

Result = TypeVar("Result")
Settings = Mapping[str, JsonValue]
Factory = Callable[[Settings, Caller], Source]
"""Gets what stands in `sources.extra.<name>`, without `enabled`, and who asks services for everybody."""
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
"""As variables and files can write it."""
STRATEGIES = ("plugin",)
LAST_SECOND = 253_402_300_799
"""Of the year 9999, which is the last that has a date."""


def plugged(extra: Mapping[str, Settings], caller: Caller) -> Iterator[Source]:
    """Those that can be asked, and a line for each that cannot; none that is switched off. Raises nothing."""
    taken = set(KNOWN_SOURCES)
    entries = source_plugins()
    for entry in entries:
        settings = extra.get(entry.name, {})
        if settings.get("enabled", True) is False:
            continue
        yield _twice(entry) if entry.name in taken else _made(entry, settings, caller)
        taken.add(entry.name)
    for name in sorted(extra.keys() - {entry.name for entry in entries}):
        if extra[name].get("enabled", True) is not False:
            yield Off(name, STRATEGIES, f"sources.extra.{name} is set, but no installed package adds a source of that name")


def _twice(entry: EntryPoint) -> Off:
    who = "Outrider's own" if entry.name in KNOWN_SOURCES else "another package's"
    return Off(
        f"{entry.name} of {package_of(entry)}", STRATEGIES, f"its name is {who}; sources.extra.{entry.name}.enabled: false hides this"
    )


def _made(entry: EntryPoint, settings: Settings, caller: Caller) -> Source:
    secrets = tuple(str(value) for name, value in settings.items() if is_secret(name) and value)

    def off(why: str) -> Off:
        return Off(entry.name, STRATEGIES, f"{why} ({package_of(entry)}); sources.extra.{entry.name}.enabled: false switches it off")

    if not NAME.fullmatch(entry.name):
        return off("its name must be of a-z, 0-9 and single _")
    if settings.get("enabled", True) is not True:
        return off(f"sources.extra.{entry.name}.enabled takes true or false")
    try:
        factory: Factory = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module does when it is imported
        return off(f"{entry.value} cannot be imported: {_shown(error, secrets)}")
    try:
        made = factory({name: value for name, value in settings.items() if name != "enabled"}, caller)
        return off(why) if (why := no_source(made, entry.name)) else Plugged.of(made, package_of(entry), secrets)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a factory or a property does
        return off(f"{entry.value} made no source: {_shown(error, secrets)}")


def no_source(made: Any, name: str) -> str:
    """What is missing to make it a `Source` of this name; empty where nothing is."""
    missing = [part for part in ("name", "strategies", "capabilities", "timeout_s", "search", "get") if not hasattr(made, part)]
    if missing:
        return f"what it made is no Source: {type(made).__name__} lacks {', '.join(missing)}"
    if made.name != name:
        return f"the source calls itself {made.name!r}, and its entry point {name!r}"
    if not (isinstance(made.strategies, tuple) and made.strategies and all(isinstance(one, str) and one for one in made.strategies)):
        return "its strategies must be a tuple of one name or more"
    if not isinstance(made.capabilities, Capabilities):
        return "its capabilities must be Capabilities"
    if not (_is_number(made.timeout_s) and made.timeout_s > 0):
        return "its timeout_s must be a number of seconds above 0"
    asked = ("search", "get", *(["get_many"] if made.capabilities.batch > 1 else ()))
    wanting = [part for part in asked if not inspect.iscoroutinefunction(getattr(made, part, None))]
    return f"its {' and '.join(wanting)} must be async functions" if wanting else ""


@dataclass(frozen=True, slots=True)
class Plugged:
    """A `Source` around one of somebody else: raises nothing but `SearchError`, and gives nothing that is not what it should be."""

    source: Source
    package: str
    secrets: tuple[str, ...] = field(repr=False)
    name: str
    strategies: tuple[str, ...]
    capabilities: Capabilities
    timeout_s: float

    @classmethod
    def of(cls, source: Source, package: str, secrets: tuple[str, ...]) -> Plugged:
        return cls(source, package, secrets, source.name, source.strategies, source.capabilities, source.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        answer = await self._caught(lambda: self.source.search(query), query.within_s)
        if isinstance(answer, SourceAnswer) and isinstance(answer.results, tuple) and len(answer.results) > query.limit:
            answer = replace(answer, results=answer.results[: query.limit])
        if why := no_answer(answer, self.name):
            raise Malformed(f"{self.name} ({self.package}) gave {why}")
        return answer

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        found = await self._caught(lambda: self.source.get(scheme, value, within_s), within_s)
        if found is not None and (why := no_record(found, self.name)):
            raise Malformed(f"{self.name} ({self.package}) gave {why}")
        return found

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        source = cast("BatchSource", self.source)
        found = await self._caught(lambda: source.get_many(scheme, values, within_s), within_s)
        if not isinstance(found, Mapping):
            raise Malformed(f"{self.name} ({self.package}) gave {type(found).__name__} instead of records by identifier")
        if why := next(filter(None, (no_record(record, self.name) for record in found.values())), ""):
            raise Malformed(f"{self.name} ({self.package}) gave {why}")
        return found

    async def _caught(self, ask: Callable[[], Awaitable[Result]], within_s: float) -> Result:
        who = f"{self.name} ({self.package})"
        try:
            done = await run_isolated(self.name, ask, spared(within_s))
        except TimeoutError as error:
            raise SourceTimeout(f"{who} {error}") from error
        problem = done.exception()
        if problem is None or isinstance(problem, SearchError):
            return done.result()
        if isinstance(problem, TimeoutError):
            raise SourceTimeout(f"{who} took too long: {_shown(problem, self.secrets)}") from problem
        raise SourceUnavailable(f"{who} failed: {_shown(problem, self.secrets)}") from problem


def no_answer(answer: Any, name: str) -> str:
    """What is given instead of a `SourceAnswer` with records of this source; empty where it is one."""
    if not isinstance(answer, SourceAnswer):
        return f"{type(answer).__name__} instead of a SourceAnswer"
    if not isinstance(answer.results, tuple) or not all(isinstance(one, Scored) for one in answer.results):
        return "results that are no tuple of Scored"
    if why := next(filter(None, (no_record(one.record, name) for one in answer.results)), ""):
        return why
    if not all(_is_number(one.score) and isinstance(one.why, str) and isinstance(one.paths, tuple) for one in answer.results):
        return "a result whose score is no finite number"
    if len({one.record.doc_id for one in answer.results}) < len(answer.results):
        return "one doc_id twice"
    total, retry_at = answer.total, answer.retry_at
    if not (total is None or (type(total) is int and total >= 0)):
        return "a total that is no whole number from 0 on"
    if not (retry_at is None or (_is_number(retry_at) and 0 <= retry_at <= LAST_SECOND)):
        return "a retry_at that is no time"
    texts = isinstance(answer.message, str) and isinstance(answer.model, str)
    return "" if texts and answer.status in get_args(AnswerStatus) else f"the status {answer.status!r}, or a message that is no text"


def no_record(record: Any, name: str) -> str:
    """Ids begin with the source's name, so that they are those of no other."""
    if not isinstance(record, Paper | Repository | Page | Document):
        return f"{type(record).__name__} instead of a record"
    if record.source != name or not record.doc_id.startswith(f"{name}:"):
        return f"a record whose source is not {name!r}, or whose doc_id does not begin with '{name}:'"
    return ""


def package_of(entry: EntryPoint) -> str:
    """Name and version of the distribution, as far as it says them."""
    try:
        assert entry.dist is not None  # noqa: S101 - `entry_points` sets it
        return f"{entry.dist.metadata['Name']} {entry.dist.version}"
    except (AssertionError, LookupError, TypeError, AttributeError, ValueError, OSError, ImportError):
        return "a package without metadata"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shown(error: BaseException, secrets: tuple[str, ...]) -> str:
    text = str(error)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redact(f"{type(error).__name__}: {text}" if text else type(error).__name__, "")
