"""Sources of other packages: the guide's example works, and each fault of a package is a line of the answer."""

from __future__ import annotations

import asyncio
import functools
import importlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.graph.pipeline import build
from outrider.library.fusion import interleave, reciprocal_rank_fusion
from outrider.nodes.scout import Scout
from outrider.services import Services
from outrider.services.sources import PluginSource, find_answer_fault, load_plugins
from outrider.settings.load import load
from outrider.settings.model import EnrichSettings, LibrarySettings, RunSettings, Settings
from outrider.settings.redact import redact
from outrider.settings.sections import CacheSettings, SourcesSettings
from outrider.sources.adapter import DisabledSource
from outrider.sources.http.client import Caller
from outrider.state.errors import BadRequest, Malformed, SearchError, SettingsError, SourceTimeout, SourceUnavailable
from outrider.state.hits import Scored
from outrider.state.intent import PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState
from outrider.state.ports import Capabilities, Source, SourceAnswer, SourceQuery
from outrider.state.request import KNOWN_SOURCES, RetrieverType, check_request, known_sources
from outrider.state.response import SearchResponse
from support.fakes import NOON, Shelf, no_reranker, paper
from support.http_server import Answer, Request, as_json, serving
from support.patience import BUSY_S

pytestmark = pytest.mark.blocking  # tests load packages on their own loop, some of which block

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "extend.md").read_text(encoding="utf-8")
QUERY = SourceQuery("liver", "relevance", None, 10)
STRATEGY = SearchStrategy(
    queries=(PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver"),), sources=(), strategies=(RetrieverType.LANCE_FTS,)
)
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution like pip: its metadata and its module."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    modules: list[str] = []

    def put(entries: str, code: str = "", module: str = "acme_papers", package: str = "acme-papers") -> None:
        info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[outrider.sources]\n{entries}\n")
        (folder / f"{module}.py").write_text(code)
        modules.append(module)
        importlib.invalidate_caches()

    yield put
    for module in modules:
        sys.modules.pop(module, None)


def block(language: str) -> str:
    part = GUIDE.split("## A source as a package")[1].split("\n## ")[0]
    match = re.search(rf"```{language}[^\n]*\n(.*?)```", part, re.DOTALL)
    assert match
    return match.group(1)


def load_sources(**extra: dict[str, Any]) -> dict[str, Source]:
    return {source.name: source for source in load_plugins(extra, Caller())}


def papers(request: Request) -> Answer:
    one = {"id": 7, "title": "Liver injury by drugs", "link": "https://acme.example/7", "doi": "10.1000/7"}
    return as_json({"papers": [one], "total": 1} if request.path == "/search" else one)


# --- the guide's example ----------------------------------------------------------------------------------------------------------------


async def test_the_example_of_the_guide_is_searched_like_the_others(install: Install, tmp_path: Path) -> None:
    (entry,) = [line for line in block("toml").splitlines() if line.startswith("acme = ")]
    install(entry.replace('"', ""), block("python"))
    with serving(papers) as server:
        (tmp_path / "search_config.yaml").write_text(block("yaml").replace("https://api.acme.example", server.base_url))
        guide_settings = load(environ={"ACME_KEY": "s3cret-of-acme"}, cwd=tmp_path / "none", user_dir=tmp_path).settings
        disabled = {
            name: section.model_copy(update={"enabled": False}) for name, section in guide_settings.sources if hasattr(section, "enabled")
        }
        sources = guide_settings.sources.model_copy(update=disabled)
        overrides: dict[str, Any] = {
            "library": LibrarySettings(uri=str(tmp_path / "library")),
            "cache": CacheSettings(folder=str(tmp_path / "cache")),
        }
        overrides |= {"enrich": EnrichSettings(enabled=False)}
        services = Services(
            guide_settings.model_copy(update={"sources": sources, **overrides}), shelf=Shelf(), reranker=no_reranker, clock=lambda: NOON
        )
        assert services.source_names == ("acme",)
        request = check_request({"query": "liver injury", "sources": ["acme"]})
        answer = SearchResponse.model_validate(await build(services).ainvoke(request))
        (acme,) = services.sources
        record = await acme.get("doi", "10.1000/7", 30.0)
    assert record is not None
    assert [(hit.doc_id, hit.url) for hit in answer.hits] == [("acme:7", "https://acme.example/7")]
    assert [(row.source, row.status, row.total) for row in answer.sources] == [("acme", "ok", 1)]
    assert {call.headers["x-api-key"] for call in server.requests} == {"s3cret-of-acme"}
    assert "s3cret" not in str(redact(guide_settings)) + repr(guide_settings)


def test_its_name_is_a_valid_source_of_a_request(install: Install) -> None:
    with pytest.raises(BadRequest, match="unknown source 'acme'; known: library, github"):
        check_request({"query": "liver", "sources": ["acme"]})
    install("acme = acme_papers:source", "raise RuntimeError('imported')")
    assert check_request({"query": "liver", "sources": ["acme"]}).sources == ("acme",)
    assert known_sources() == (*KNOWN_SOURCES, "acme")


def test_offline_or_disabled_no_package_is_imported(install: Install, tmp_path: Path) -> None:
    install("acme = acme_papers:source", f"import pathlib; pathlib.Path({str(tmp_path / 'imported')!r}).touch()")
    assert load_sources(acme={"enabled": False}) == {}
    offline = Services(Settings(sources=SourcesSettings(offline=True), library=LibrarySettings(uri=str(tmp_path))))
    assert offline.source_names == ("library",)
    assert not (tmp_path / "imported").exists()
    assert "acme" in load_sources()
    assert (tmp_path / "imported").exists()


# --- what can be wrong with a package ----------------------------------------------------------------------------------------------------

GOOD = """
from outrider.state.ports import Capabilities, SourceAnswer
class Good:
    name, strategies, capabilities, timeout_s = "acme", ("all",), Capabilities(frozenset({"paper"})), 5.0
    async def search(self, query): return SourceAnswer(())
    async def get(self, scheme, value, within_s): return None
"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_this_name", "cannot be imported: ModuleNotFoundError: No module named"),
        ("def other(): ...", "cannot be imported: AttributeError"),
        ("source = = 1", "cannot be imported: SyntaxError"),
        ("raise SystemExit('bye')", "cannot be imported: SystemExit: bye"),
        ("def source(settings, caller): raise ValueError('key s3cret-of-acme is wrong')", "made no source: ValueError: key ******** is"),
        ("def source(settings, caller): raise SystemExit", "made no source: SystemExit"),
        ("def source(settings): ...", "made no source: TypeError"),
        ("source = 7", "made no source: TypeError: 'int' object is not callable"),
        ("def source(settings, caller): return None", "what it made is no Source: NoneType lacks name, strategies"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.name = 'github'; return made", "calls itself 'github'"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.strategies = 'all'; return made", "strategies must be a tuple"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.strategies = (); return made", "strategies must be a tuple"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.capabilities = {}; return made", "must be Capabilities"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.timeout_s = float('nan'); return made", "timeout_s must be"),
        (GOOD + "def source(settings, caller):\n    made = Good(); made.search = print; return made", "must be async functions"),
        (GOOD + "class Bad(Good):\n    @property\n    def name(self): return 1 / 0\ndef source(*_): return Bad()", "ZeroDivisionError"),
    ],
)
async def test_a_package_without_a_source_is_a_line_with_the_reason(install: Install, code: str, why: str) -> None:
    install("acme = acme_papers:source", code)
    (source,) = load_sources(acme={"api_key": "s3cret-of-acme"}).values()
    assert (type(source), source.name) == (DisabledSource, "acme")
    with pytest.raises(SearchError) as caught:
        await source.search(QUERY)
    message = str(caught.value)
    assert why in message
    assert "acme-papers 1.0" in message
    assert "s3cret" not in message
    assert "sources.extra.acme.enabled: false" in message


@pytest.mark.parametrize("name", ["Acme", "ac me", "a__b", "acme.papers", "acmé"])
def test_an_invalid_name_is_reported(install: Install, name: str) -> None:
    install(f"{name} = acme_papers:source", GOOD + "source = lambda *_: Good()")
    (source,) = load_sources().values()
    assert isinstance(source, DisabledSource)
    assert "must be of a-z" in source.why


def test_duplicate_names_are_reported_and_replace_no_source(install: Install) -> None:
    install("github = acme_papers:source\nacme = acme_papers:source", GOOD + "source = lambda *_: Good()")
    install("acme = other_papers:source", GOOD + "source = lambda *_: Good()", "other_papers", "other-papers")
    sources_by_name = load_sources()
    assert {name: type(source) for name, source in sources_by_name.items()} == {
        "acme": PluginSource, "acme of other-papers 1.0": DisabledSource, "github of acme-papers 1.0": DisabledSource,
    }  # fmt: skip
    assert "Outrider's own" in sources_by_name["github of acme-papers 1.0"].why  # type: ignore[attr-defined]
    assert not any("github" in name for name in load_sources(github={"enabled": False}))


def test_settings_without_a_package_are_reported() -> None:
    (source,) = load_sources(acme={"base_url": "https://acme.example"}, other={"enabled": False}).values()
    assert isinstance(source, DisabledSource)
    assert "no installed package" in source.why


def test_enabled_takes_a_flag(install: Install) -> None:
    install("acme = acme_papers:source", GOOD + "source = lambda *_: Good()")
    assert isinstance(load_sources(acme={"enabled": "yes"})["acme"], DisabledSource)
    assert isinstance(load_sources(acme={"enabled": True})["acme"], PluginSource)


async def test_a_failing_package_loses_only_its_own_results(install: Install, tmp_path: Path) -> None:
    bad = GOOD + "class Bad(Good):\n    async def search(self, query): return query / 0\nsource = lambda *_: Bad()"
    install("acme = acme_papers:source\nbroken = acme_papers:missing", bad)
    extra = {source.name: source for source in load_plugins({}, Caller())}
    shelf = Shelf([paper("a", "Liver injury")])
    configured = Settings(library=LibrarySettings(uri=str(tmp_path)), enrich=EnrichSettings(enabled=False))
    services = Services(configured, shelf=shelf, sources=(shelf, *extra.values()), reranker=no_reranker, clock=lambda: NOON)
    answer = SearchResponse.model_validate(await build(services).ainvoke(check_request({"query": "liver"})))
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert {row.source: row.status for row in answer.sources} == {"library": "ok", "acme": "unavailable", "broken": "off"}
    assert not answer.failures


# --- what can be wrong with its answers --------------------------------------------------------------------------------------------------


def wrap_answer(answer: Any = None, error: BaseException | None = None) -> PluginSource:
    async def respond(*_: Any) -> Any:
        if error:
            raise error
        return answer

    return PluginSource(
        SimpleNamespace(search=respond, get=respond), "acme 1.0", ("s3cret",), "acme", ("all",), Capabilities(frozenset()), 5.0
    )  # type: ignore[arg-type]


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(200), "x")


def make_record(doc_id: str = "acme:1", **fields: Any) -> Any:
    return paper(doc_id, "Title", **{"source": "acme", **fields})


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        SourceAnswer([Scored(make_record(), 1.0)]),  # type: ignore[arg-type]
        SourceAnswer((make_record(),)),
        SourceAnswer((Scored("no record", 1.0),)),  # type: ignore[arg-type]
        SourceAnswer((Scored(make_record("github:1"), 1.0),)),
        SourceAnswer((Scored(make_record(source="library"), 1.0),)),
        SourceAnswer((Scored(make_record(), float("nan")),)),
        SourceAnswer((Scored(make_record(), "1"),)),  # type: ignore[arg-type]
        SourceAnswer((Scored(make_record(), 1.0), Scored(make_record(), 0.5))),
        SourceAnswer((Scored(make_record("acme:\ud800"), 1.0),)),
        SourceAnswer((Scored(make_record(metadata={"deep": DEEP}), 1.0),)),
        SourceAnswer((), total="many"),  # type: ignore[arg-type]
        SourceAnswer((), total=True),
        SourceAnswer((), total=-5),
        SourceAnswer((), message=None),  # type: ignore[arg-type]
        SourceAnswer((), status="fine"),  # type: ignore[arg-type]
        SourceAnswer((), retry_at=float("inf")),
        SourceAnswer((), retry_at=1e300),
    ],
)
async def test_an_invalid_answer_is_malformed(answer: Any) -> None:
    with pytest.raises(Malformed, match=r"acme \(acme 1.0\) gave "):
        await wrap_answer(answer).search(QUERY)


async def test_a_valid_answer_is_unchanged_and_get_is_checked_too() -> None:
    answer = SourceAnswer((Scored(make_record(), 1.0),), total=1, status="cached", message="old")
    assert await wrap_answer(answer).search(QUERY) == answer
    assert await wrap_answer(make_record()).get("doi", "10.1/1", 1.0) == make_record()
    assert await wrap_answer().get("doi", "10.1/1", 1.0) is None
    with pytest.raises(Malformed):
        await wrap_answer(make_record("library:1")).get("doi", "10.1/1", 1.0)


async def test_half_a_character_in_an_answer_is_replaced_and_the_search_goes_on() -> None:
    """JSON can hold a lone surrogate, and UTF-8 cannot."""
    broken = make_record(abstract="Liver \ud83d injury", authors=("Doe\udc00, Jane",), metadata={"note": ["\ud800"]})
    answer = SourceAnswer((Scored(broken, 1.0, "why \ud800"),), message="\ud800", model="m\ud800")
    shelf = Shelf([paper("a", "Liver injury")])
    services = Services(Settings(), shelf=shelf, sources=(shelf, wrap_answer(answer)), reranker=no_reranker, clock=lambda: NOON)
    found = SearchResponse.model_validate(await build(services).ainvoke(check_request({"query": "liver injury"})))
    found.model_dump_json()
    assert ("acme:1", ("Doe\ufffd, Jane",)) in [(hit.doc_id, hit.authors) for hit in found.hits]
    record = await wrap_answer(broken).get("doi", "10.1/1", 1.0)
    assert record is not None
    assert (record.abstract, record.metadata) == ("Liver \ufffd injury", {"note": ["\ufffd"]})


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (ZeroDivisionError("s3cret"), SourceUnavailable),
        (SystemExit("s3cret"), SourceUnavailable),
        (TimeoutError("s3cret"), SourceTimeout),
        (asyncio.CancelledError("s3cret"), SourceUnavailable),
        (KeyboardInterrupt("s3cret"), SourceUnavailable),
        (GeneratorExit("s3cret"), SourceUnavailable),
        (BadRequest("said in its own words"), BadRequest),
    ],
)
async def test_any_exception_becomes_a_search_error_without_the_key(error: BaseException, becomes: type[SearchError]) -> None:
    for ask in (lambda: wrap_answer(error=error).search(QUERY), lambda: wrap_answer(error=error).get("doi", "10.1/1", 1.0)):
        with pytest.raises(becomes) as caught:
            await ask()  # type: ignore[no-untyped-call]
        assert "s3cret" not in str(caught.value)


async def test_results_are_cut_to_the_requested_limit() -> None:
    many = tuple(Scored(make_record(f"acme:{number}"), 1 / (number + 1)) for number in range(50))
    answer = await wrap_answer(SourceAnswer(many, total=50)).search(QUERY)
    assert (answer.results, answer.total) == (many[:10], 50)


def plugin(search: Callable[..., Any], name: str = "acme") -> PluginSource:
    return PluginSource(SimpleNamespace(search=search, get=search), "acme 1.0", (), name, ("all",), Capabilities(frozenset()), 1.0)  # type: ignore[arg-type]


LET: list[threading.Event] = []
"""Event of the running test: set when it ends."""


@pytest.fixture
def let() -> Iterator[None]:
    LET.append(threading.Event())
    yield
    LET.pop().set()


async def stubborn(*_: Any) -> Any:
    """Swallows every cancellation until the test has ended."""
    let = LET[-1]
    while not let.is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
    raise RuntimeError("raised after the caller left")


async def blocking(*_: Any) -> Any:
    LET[-1].wait(600)  # as a package may
    return SourceAnswer(())


@pytest.mark.usefixtures("let")
@pytest.mark.parametrize(("search", "name"), [(stubborn, "stubborn"), (blocking, "blocking")])
async def test_a_package_that_does_not_stop_delays_no_other(search: Callable[..., Any], name: str) -> None:
    """Neither by ignoring cancellation nor by blocking; later searches on its loop get an error."""
    shelf = Shelf([paper("a", "Liver injury")])
    scout = Scout((shelf, plugin(search, name)), reciprocal_rank_fusion, interleave, RunSettings(run_timeout_s=60.0), lambda: NOON)
    state = PipelineState.model_validate({"query": "liver", "started_at": NOON})
    started = time.monotonic()
    update = dict(await scout(state.model_copy(update={"strategy": STRATEGY}), None))  # type: ignore[arg-type]
    assert time.monotonic() - started < BUSY_S
    assert [(row.source, row.status) for row in update["sources"]] == [("library", "ok"), (name, "timeout")]
    assert "acme 1.0) did not answer within the 0." in update["sources"][1].message
    if search is blocking:
        with pytest.raises(SourceTimeout, match="is still held up by an earlier search"):
            await plugin(search, name).get("doi", "10.1/1", 0.2)
        assert await plugin(stubborn_not, "other").get("doi", "10.1/1", 30.0) is None
    assert time.monotonic() - started < 2 * BUSY_S


async def stubborn_not(*_: Any) -> Any:
    return None


async def test_a_package_that_cancels_itself_loses_only_its_own_results() -> None:
    async def search(*_: Any) -> Any:
        task = asyncio.current_task()
        assert task
        task.cancel("mine")
        await asyncio.sleep(1)

    shelf = Shelf([paper("a", "Liver injury")])
    configured = Settings(enrich=EnrichSettings(enabled=False))
    services = Services(configured, shelf=shelf, sources=(shelf, plugin(search)), reranker=no_reranker, clock=lambda: NOON)
    answer = SearchResponse.model_validate(await build(services).ainvoke(check_request({"query": "liver"})))
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert [(row.status, row.message) for row in answer.sources if row.source == "acme"] == [
        ("unavailable", "acme (acme 1.0) failed: CancelledError: mine")
    ]


@pytest.mark.usefixtures("let")
async def test_a_cancelled_caller_returns_at_once() -> None:
    started = time.monotonic()
    task = asyncio.ensure_future(plugin(stubborn, "gone").search(QUERY))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < BUSY_S


ANY = st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.tuples(st.floats()) | st.just(make_record())


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([make_record(), make_record("acme:2")]) | ANY, ANY), max_size=2), ANY, ANY, ANY, ANY)
def test_an_accepted_answer_can_be_reported(results: list[Any], total: Any, message: Any, status: Any, retry_at: Any) -> None:
    """The scout makes a line and a ranked list of it without an error."""
    from outrider.nodes.run_settings import format_time
    from outrider.nodes.scout import make_ranked_list
    from outrider.state.response import SourceReport

    answer = SourceAnswer(tuple(Scored(*one) for one in results), total, message, "", status, retry_at)
    if not find_answer_fault(answer, "acme"):
        make_ranked_list("acme", "all", "liver", answer.results)
        row = {"source": "acme", "strategy": "all", "asked": 1, "status": answer.status or "ok", "total": answer.total}
        SourceReport.model_validate({**row, "message": answer.message, "retry_at": format_time(answer.retry_at)})


# --- settings ----------------------------------------------------------------------------------------------------------------------------


def load_extra(folder: Path, text: str = "", user: str = "", **environ: str) -> dict[str, Any]:
    for name, content in (("work", text), ("user", user)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "search_config.yaml").write_text(content)
    return load(environ=environ, cwd=folder / "work", user_dir=folder / "user").settings.sources.extra


def test_settings_of_a_source_come_from_all_layers(tmp_path: Path) -> None:
    text = "sources: {extra: {acme: {rows: 5, api_key: 0123}, empty: }}"
    user = 'sources: {extra: {acme: {fields: [a, 1, {b: "${N}"}], rows: 4, pages: 2}}}'
    assert load_extra(tmp_path, text, user, N="7") == {"acme": {"fields": ["a", 1, {"b": 7}], "rows": 5, "api_key": "0123", "pages": 2}}
    variables = {"OUTRIDER_SOURCES__EXTRA__ACME__ROWS": "6", "OUTRIDER_SOURCES__EXTRA__OTHER": '{"enabled": false}'}
    assert load_extra(tmp_path, "sources: {extra: {acme: {rows: 5}}}", **variables) == {"acme": {"rows": 6}, "other": {"enabled": False}}
    assert load_extra(tmp_path, OUTRIDER_SOURCES__EXTRA='{"acme": {"token": 17, "a.b": 1}}') == {"acme": {"token": 17, "a.b": 1}}
    assert load_extra(tmp_path, OUTRIDER_SOURCES__EXTRA__ACME__TOKEN="017") == {"acme": {"token": "017"}}


@pytest.mark.parametrize(
    ("text", "environ", "why"),
    [
        ("sources: {extra: {acme: 5}}", {}, "sources.extra.acme must be a mapping"),
        ("sources: {extra: 5}", {}, "sources.extra must be a mapping"),
        ("sources: {extra: {acme: {since: 2020-01-01}}}", {}, "sources.extra.acme.since takes JSON values"),
        ("sources: {extra: {acme: {since: [2020-01-01]}}}", {}, "sources.extra.acme.since takes JSON values"),
        ("", {"OUTRIDER_SOURCES__EXTRA__ACME": "5"}, "sources.extra.acme takes a mapping"),
        ("", {"OUTRIDER_SOURCES__EXTRA": '{"acme": 5}'}, "sources.extra.acme takes a mapping"),
    ],
)
def test_a_value_that_is_no_mapping_is_refused(tmp_path: Path, text: str, environ: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)):
        load_extra(tmp_path, text, **environ)


def test_the_working_folder_sets_no_address_for_a_key_from_elsewhere(tmp_path: Path) -> None:
    evil = "sources: {extra: {acme: {base_url: https://evil.example}}}"
    with pytest.raises(SettingsError, match=r"base_url is set in .*, but its key in environment variable"):
        load_extra(tmp_path, evil, OUTRIDER_SOURCES__EXTRA__ACME__API_KEY="ours")
    assert load_extra(tmp_path, evil)
    assert load_extra(tmp_path, evil, OUTRIDER_SOURCES__EXTRA__OTHER__API_KEY="ours")


def test_values_named_as_keys_are_redacted_at_any_depth() -> None:
    extra: Any = {"acme": {"api_key": "s3cret", "deep": [{"auth_token": "s3cret", "rows": 5}], "proxy": "http://me:s3cret@host/"}}
    configured = Settings(sources=SourcesSettings(extra=extra))
    redacted = redact(configured)["sources"]["extra"]["acme"]
    assert redacted == {
        "api_key": "********", "deep": [{"auth_token": "********", "rows": 5}], "proxy": "http://********@host/",
    }  # fmt: skip
    assert "s3cret" not in repr(configured)
