"""Sources of other packages: the guide's example works, and whatever one of them does wrong is a line of the answer."""

from __future__ import annotations

import asyncio
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
from outrider.services.source_plugins import PluginSource, find_answer_fault, load_plugins
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

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "extend.md").read_text(encoding="utf-8")
QUERY = SourceQuery("liver", "relevance", None, 10)
STRATEGY = SearchStrategy(
    queries=(PlannedQuery(text="liver", keywords=("liver",), boolean_query="liver"),), sources=(), strategies=(RetrieverType.LANCE_FTS,)
)
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution on the path, as pip would: its metadata, and its module."""
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
    found = re.search(rf"```{language}[^\n]*\n(.*?)```", part, re.DOTALL)
    assert found
    return found.group(1)


def made(**extra: dict[str, Any]) -> dict[str, Source]:
    return {source.name: source for source in load_plugins(extra, Caller())}


def papers(asked: Request) -> Answer:
    one = {"id": 7, "title": "Liver injury by drugs", "link": "https://acme.example/7", "doi": "10.1000/7"}
    return as_json({"papers": [one], "total": 1} if asked.path == "/search" else one)


# --- the guide's example ----------------------------------------------------------------------------------------------------------------


async def test_the_example_of_the_guide_is_searched_like_the_others(install: Install, tmp_path: Path) -> None:
    (entry,) = [line for line in block("toml").splitlines() if line.startswith("acme = ")]
    install(entry.replace('"', ""), block("python"))
    with serving(papers) as server:
        (tmp_path / "search_config.yaml").write_text(block("yaml").replace("https://api.acme.example", server.base_url))
        loaded = load(environ={"ACME_KEY": "s3cret-of-acme"}, cwd=tmp_path / "none", user_dir=tmp_path).settings
        alone = {name: section.model_copy(update={"enabled": False}) for name, section in loaded.sources if hasattr(section, "enabled")}
        sources = loaded.sources.model_copy(update=alone)
        kept: dict[str, Any] = {
            "library": LibrarySettings(uri=str(tmp_path / "library")),
            "cache": CacheSettings(folder=str(tmp_path / "cache")),
        }
        kept |= {"enrich": EnrichSettings(enabled=False)}
        services = Services(loaded.model_copy(update={"sources": sources, **kept}), shelf=Shelf(), reranker=no_reranker, clock=lambda: NOON)
        assert services.source_names == ("acme",)
        request = check_request({"query": "liver injury", "sources": ["acme"]})
        answer = SearchResponse.model_validate(await build(services).ainvoke(request))
        (acme,) = services.sources
        found = await acme.get("doi", "10.1000/7", 5.0)
    assert found is not None
    assert [(hit.doc_id, hit.url) for hit in answer.hits] == [("acme:7", "https://acme.example/7")]
    assert [(row.source, row.status, row.total) for row in answer.sources] == [("acme", "ok", 1)]
    assert {asked.headers["x-api-key"] for asked in server.requests} == {"s3cret-of-acme"}
    assert "s3cret" not in str(redact(loaded)) + repr(loaded)


def test_its_name_is_one_that_can_be_asked_for(install: Install) -> None:
    with pytest.raises(BadRequest, match="unknown source 'acme'; known: library, github"):
        check_request({"query": "liver", "sources": ["acme"]})
    install("acme = acme_papers:source", "raise RuntimeError('imported')")
    assert check_request({"query": "liver", "sources": ["acme"]}).sources == ("acme",)
    assert known_sources() == (*KNOWN_SOURCES, "acme")


def test_offline_and_switched_off_none_is_imported(install: Install, tmp_path: Path) -> None:
    install("acme = acme_papers:source", f"import pathlib; pathlib.Path({str(tmp_path / 'imported')!r}).touch()")
    assert made(acme={"enabled": False}) == {}
    offline = Services(Settings(sources=SourcesSettings(offline=True), library=LibrarySettings(uri=str(tmp_path))))
    assert offline.source_names == ("library",)
    assert not (tmp_path / "imported").exists()
    assert "acme" in made()
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
async def test_a_package_that_gives_no_source_is_a_line_that_says_why(install: Install, code: str, why: str) -> None:
    install("acme = acme_papers:source", code)
    (source,) = made(acme={"api_key": "s3cret-of-acme"}).values()
    assert (type(source), source.name) == (DisabledSource, "acme")
    with pytest.raises(SearchError) as caught:
        await source.search(QUERY)
    said = str(caught.value)
    assert why in said
    assert "acme-papers 1.0" in said
    assert "s3cret" not in said
    assert "sources.extra.acme.enabled: false" in said


@pytest.mark.parametrize("name", ["Acme", "ac me", "a__b", "acme.papers", "acmé"])
def test_a_name_that_no_setting_could_have_is_told(install: Install, name: str) -> None:
    install(f"{name} = acme_papers:source", GOOD + "source = lambda *_: Good()")
    (source,) = made().values()
    assert isinstance(source, DisabledSource)
    assert "must be of a-z" in source.why


def test_names_that_are_taken_are_told_and_shadow_nobody(install: Install) -> None:
    install("github = acme_papers:source\nacme = acme_papers:source", GOOD + "source = lambda *_: Good()")
    install("acme = other_papers:source", GOOD + "source = lambda *_: Good()", "other_papers", "other-papers")
    found = made()
    assert {name: type(source) for name, source in found.items()} == {
        "acme": PluginSource, "acme of other-papers 1.0": DisabledSource, "github of acme-papers 1.0": DisabledSource,
    }  # fmt: skip
    assert "Outrider's own" in found["github of acme-papers 1.0"].why  # type: ignore[attr-defined]
    assert not any("github" in name for name in made(github={"enabled": False}))


def test_settings_of_nobody_are_told() -> None:
    (source,) = made(acme={"base_url": "https://acme.example"}, other={"enabled": False}).values()
    assert isinstance(source, DisabledSource)
    assert "no installed package" in source.why


def test_enabled_takes_a_flag(install: Install) -> None:
    install("acme = acme_papers:source", GOOD + "source = lambda *_: Good()")
    assert isinstance(made(acme={"enabled": "yes"})["acme"], DisabledSource)
    assert isinstance(made(acme={"enabled": True})["acme"], PluginSource)


async def test_a_package_that_fails_costs_the_search_nothing_else(install: Install, tmp_path: Path) -> None:
    bad = GOOD + "class Bad(Good):\n    async def search(self, query): return query / 0\nsource = lambda *_: Bad()"
    install("acme = acme_papers:source\nbroken = acme_papers:missing", bad)
    extra = {source.name: source for source in load_plugins({}, Caller())}
    shelf = Shelf([paper("a", "Liver injury")])
    kept = Settings(library=LibrarySettings(uri=str(tmp_path)), enrich=EnrichSettings(enabled=False))
    services = Services(kept, shelf=shelf, sources=(shelf, *extra.values()), reranker=no_reranker, clock=lambda: NOON)
    answer = SearchResponse.model_validate(await build(services).ainvoke(check_request({"query": "liver"})))
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert {row.source: row.status for row in answer.sources} == {"library": "ok", "acme": "unavailable", "broken": "off"}
    assert not answer.failures


# --- what can be wrong with its answers --------------------------------------------------------------------------------------------------


def around(answer: Any = None, error: BaseException | None = None) -> PluginSource:
    async def said(*_: Any) -> Any:
        if error:
            raise error
        return answer

    return PluginSource(SimpleNamespace(search=said, get=said), "acme 1.0", ("s3cret",), "acme", ("all",), Capabilities(frozenset()), 5.0)  # type: ignore[arg-type]


def of_acme(doc_id: str = "acme:1", **fields: Any) -> Any:
    return paper(doc_id, "Title", **{"source": "acme", **fields})


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        SourceAnswer([Scored(of_acme(), 1.0)]),  # type: ignore[arg-type]
        SourceAnswer((of_acme(),)),
        SourceAnswer((Scored("no record", 1.0),)),  # type: ignore[arg-type]
        SourceAnswer((Scored(of_acme("github:1"), 1.0),)),
        SourceAnswer((Scored(of_acme(source="library"), 1.0),)),
        SourceAnswer((Scored(of_acme(), float("nan")),)),
        SourceAnswer((Scored(of_acme(), "1"),)),  # type: ignore[arg-type]
        SourceAnswer((Scored(of_acme(), 1.0), Scored(of_acme(), 0.5))),
        SourceAnswer((), total="many"),  # type: ignore[arg-type]
        SourceAnswer((), total=True),
        SourceAnswer((), total=-5),
        SourceAnswer((), message=None),  # type: ignore[arg-type]
        SourceAnswer((), status="fine"),  # type: ignore[arg-type]
        SourceAnswer((), retry_at=float("inf")),
        SourceAnswer((), retry_at=1e300),
    ],
)
async def test_what_is_no_answer_is_malformed(answer: Any) -> None:
    with pytest.raises(Malformed, match=r"acme \(acme 1.0\) gave "):
        await around(answer).search(QUERY)


async def test_an_answer_stays_as_it_is_and_get_is_looked_at_too() -> None:
    answer = SourceAnswer((Scored(of_acme(), 1.0),), total=1, status="cached", message="old")
    assert await around(answer).search(QUERY) is answer
    assert await around(of_acme()).get("doi", "10.1/1", 1.0) == of_acme()
    assert await around().get("doi", "10.1/1", 1.0) is None
    with pytest.raises(Malformed):
        await around(of_acme("library:1")).get("doi", "10.1/1", 1.0)


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
async def test_whatever_it_raises_is_a_search_error_without_its_key(error: BaseException, becomes: type[SearchError]) -> None:
    for ask in (lambda: around(error=error).search(QUERY), lambda: around(error=error).get("doi", "10.1/1", 1.0)):
        with pytest.raises(becomes) as caught:
            await ask()  # type: ignore[no-untyped-call]
        assert "s3cret" not in str(caught.value)


async def test_results_are_cut_to_what_was_asked_for() -> None:
    many = tuple(Scored(of_acme(f"acme:{number}"), 1 / (number + 1)) for number in range(50))
    answer = await around(SourceAnswer(many, total=50)).search(QUERY)
    assert (answer.results, answer.total) == (many[:10], 50)


def plugin(search: Callable[..., Any], name: str = "acme") -> PluginSource:
    return PluginSource(SimpleNamespace(search=search, get=search), "acme 1.0", (), name, ("all",), Capabilities(frozenset()), 1.0)  # type: ignore[arg-type]


LET: list[threading.Event] = []
"""Of the test that runs: set when it has ended."""


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
    raise RuntimeError("too late for anybody to hear")


async def blocking(*_: Any) -> Any:
    LET[-1].wait(600)  # as a package may
    return SourceAnswer(())


@pytest.mark.usefixtures("let")
@pytest.mark.parametrize(("search", "name"), [(stubborn, "stubborn"), (blocking, "blocking")])
async def test_a_package_that_does_not_stop_holds_up_nobody(search: Callable[..., Any], name: str) -> None:
    """Neither by keeping on when it is told to stop, nor by blocking; its loop's other searches are told so."""
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


async def test_a_package_that_cancels_itself_costs_only_its_own_results() -> None:
    async def search(*_: Any) -> Any:
        task = asyncio.current_task()
        assert task
        task.cancel("mine")
        await asyncio.sleep(1)

    shelf = Shelf([paper("a", "Liver injury")])
    made = Settings(enrich=EnrichSettings(enabled=False))
    services = Services(made, shelf=shelf, sources=(shelf, plugin(search)), reranker=no_reranker, clock=lambda: NOON)
    answer = SearchResponse.model_validate(await build(services).ainvoke(check_request({"query": "liver"})))
    assert [hit.doc_id for hit in answer.hits] == ["a"]
    assert [(row.status, row.message) for row in answer.sources if row.source == "acme"] == [
        ("unavailable", "acme (acme 1.0) failed: CancelledError: mine")
    ]


@pytest.mark.usefixtures("let")
async def test_whoever_stops_waiting_for_a_package_is_let_go_at_once() -> None:
    started = time.monotonic()
    asking = asyncio.ensure_future(plugin(stubborn, "gone").search(QUERY))
    await asyncio.sleep(0.1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert time.monotonic() - started < BUSY_S


ANY = st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.tuples(st.floats()) | st.just(of_acme())


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from([of_acme(), of_acme("acme:2")]) | ANY, ANY), max_size=2), ANY, ANY, ANY, ANY)
def test_what_passes_can_be_reported(results: list[Any], total: Any, message: Any, status: Any, retry_at: Any) -> None:
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


def loaded(folder: Path, text: str = "", user: str = "", **environ: str) -> dict[str, Any]:
    for name, said in (("work", text), ("user", user)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "search_config.yaml").write_text(said)
    return load(environ=environ, cwd=folder / "work", user_dir=folder / "user").settings.sources.extra


def test_settings_of_a_source_come_from_all_layers(tmp_path: Path) -> None:
    text = "sources: {extra: {acme: {rows: 5, api_key: 0123}, empty: }}"
    user = 'sources: {extra: {acme: {fields: [a, 1, {b: "${N}"}], rows: 4, pages: 2}}}'
    assert loaded(tmp_path, text, user, N="7") == {"acme": {"fields": ["a", 1, {"b": 7}], "rows": 5, "api_key": "0123", "pages": 2}}
    variables = {"OUTRIDER_SOURCES__EXTRA__ACME__ROWS": "6", "OUTRIDER_SOURCES__EXTRA__OTHER": '{"enabled": false}'}
    assert loaded(tmp_path, "sources: {extra: {acme: {rows: 5}}}", **variables) == {"acme": {"rows": 6}, "other": {"enabled": False}}
    assert loaded(tmp_path, OUTRIDER_SOURCES__EXTRA='{"acme": {"token": 17, "a.b": 1}}') == {"acme": {"token": 17, "a.b": 1}}
    assert loaded(tmp_path, OUTRIDER_SOURCES__EXTRA__ACME__TOKEN="017") == {"acme": {"token": "017"}}


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
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str, environ: dict[str, str], why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)):
        loaded(tmp_path, text, **environ)


def test_the_working_folder_names_no_address_for_a_key_of_elsewhere(tmp_path: Path) -> None:
    evil = "sources: {extra: {acme: {base_url: https://evil.example}}}"
    with pytest.raises(SettingsError, match=r"base_url is set in .*, but its key in environment variable"):
        loaded(tmp_path, evil, OUTRIDER_SOURCES__EXTRA__ACME__API_KEY="ours")
    assert loaded(tmp_path, evil)
    assert loaded(tmp_path, evil, OUTRIDER_SOURCES__EXTRA__OTHER__API_KEY="ours")


def test_what_is_called_a_key_is_hidden_wherever_it_stands() -> None:
    extra: Any = {"acme": {"api_key": "s3cret", "deep": [{"auth_token": "s3cret", "rows": 5}], "proxy": "http://me:s3cret@host/"}}
    made = Settings(sources=SourcesSettings(extra=extra))
    shown = redact(made)["sources"]["extra"]["acme"]
    assert shown == {
        "api_key": "********", "deep": [{"auth_token": "********", "rows": 5}], "proxy": "http://********@host/",
    }  # fmt: skip
    assert "s3cret" not in repr(made)
