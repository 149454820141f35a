"""A plan that a model made is used again within some minutes for the same question, and for no other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.model_plan import Draft, QueryBuilder, QueryPrompt
from outrider.nodes.translator.translator import MODEL, PlanCache, Translation, Translator, make_cache_key
from outrider.prompts import Prompt
from outrider.settings.model import StarsSettings
from outrider.sources.http.cache import AnswerTextCache, DiskCache, flush_cache
from outrider.state.chat import Budget, ChatRequest
from outrider.state.errors import BadAnswer, ChatUnavailable, KeyRejected
from outrider.state.ports import CachedText
from outrider.state.request import SearchRequest
from support.chat_client import KEY, chat_over
from support.chat_server import ChatServer, Reply
from support.fakes import NOON, Shelf

STARS = StarsSettings()
DRAFT: dict[str, Any] = {"queries": [{"text": "hepatic injury", "keywords": ["hepatic"]}], "expanded_keywords": ["enzyme", "dose"]}
PROMPT = QueryPrompt.load()


@dataclass
class Memory:
    """A `TextCache`."""

    texts: dict[str, str] = field(default_factory=dict)
    age_s: float = 60.0

    async def get(self, key: str, within_s: float) -> CachedText | None:
        return CachedText(self.texts[key], self.age_s) if key in self.texts else None

    async def put(self, key: str, text: str) -> None:
        self.texts[key] = text


@dataclass
class Model:
    """A `Chat` that counts."""

    name: str = "scripted at nowhere"
    draft: dict[str, Any] = field(default_factory=lambda: DRAFT)
    error: Exception | None = None
    calls: int = 0

    async def answer(self, request: ChatRequest, shape: Any, budget: Budget) -> Any:
        with budget.call(request.node, 0.0):
            self.calls += 1
        if self.error:
            raise self.error
        return shape.model_validate(self.draft)


def translator(chat: Any, texts: Any, prompt: QueryPrompt = PROMPT, sources: tuple[str, ...] = ("library", "arxiv")) -> Translator:
    return Translator(Shelf(), sources, STARS, lambda: NOON, chat, prompt=prompt, cache=PlanCache(texts, 900.0))


async def translated(chat: Any, texts: Any, budget: Budget | None = None, **request: Any) -> Translation:
    search_request = SearchRequest.model_validate({"query": "liver injury", **request})
    return await translator(chat, texts).translate(search_request, budget or Budget(), 30.0)


async def test_the_same_question_costs_one_call_and_the_answer_reports_it() -> None:
    chat, texts = Model(), Memory()
    first = await translated(chat, texts)
    again = await translated(chat, texts, Budget(max_calls=0))
    assert chat.calls == 1
    assert (again.usage.calls, again.strategy, again.intent) == (0, first.strategy, first.intent)
    assert again.strategy.made_by == "model"
    assert [(step.step, step.why) for step in again.bypassed] == [
        (MODEL, "scripted at nowhere planned this search 60 s ago, and its plan is reused for 900 s")
    ]
    assert not first.bypassed


@pytest.mark.parametrize("age_s", [900.0, 1e6])
async def test_what_is_too_old_is_requested_again(age_s: float) -> None:
    chat, texts = Model(), Memory(age_s=age_s)
    await translated(chat, texts)
    assert (await translated(chat, texts)).usage.calls == 1


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"queries": []}', '{"queries": [{"text": "!!"}]}', "\x00"])
async def test_what_is_damaged_is_requested_again(damaged: str) -> None:
    chat, texts = Model(), Memory()
    first = await translated(chat, texts)
    texts.texts = dict.fromkeys(texts.texts, damaged)
    again = await translated(chat, texts)
    assert (chat.calls, again.strategy) == (2, first.strategy)
    assert not again.failures


@pytest.mark.parametrize(
    "chat",
    [
        Model(draft={"queries": []}),
        Model(draft={"queries": [{"text": "!!"}], "concepts": ["liver"]}),
        Model(error=BadAnswer("no shape")),
        Model(error=ChatUnavailable("down")),
    ],
)
async def test_what_rules_planned_is_not_kept(chat: Model) -> None:
    texts = Memory()
    assert (await translated(chat, texts)).strategy.made_by == "rules"
    assert not texts.texts


async def test_where_the_key_is_rejected_nothing_is_kept() -> None:
    texts = Memory()
    with pytest.raises(KeyRejected):
        await translated(Model(error=KeyRejected("no")), texts)
    assert not texts.texts


PARTS: dict[str, Any] = {
    "query": st.sampled_from(["liver injury", "Liver injury", "liver  injury", "x" * 4_000, "x" * 4_001]),
    "search_mode": st.sampled_from(["focused", "balanced", "exploratory"]),
    "user_feedback": st.sampled_from(["", "newer", "newer "]),
    "earlier": st.sampled_from([(), ("liver",), ("liver", "injury")]),
    "sources": st.sampled_from([("library",), ("library", "arxiv"), ("library,arxiv",)]),
    "model": st.sampled_from(["a at x", "b at x", "a at y"]),
    "prompt": st.sampled_from(["1", "2"]),
    "field": st.sampled_from([None, "1", "2"]),
    "popular_min": st.sampled_from([1_000, 2_000]),
    "now": st.sampled_from([NOON, NOON + 86_400.0]),
}
Parts = st.fixed_dictionaries(PARTS)


def key(parts: dict[str, Any]) -> str:
    rounds = [{"queries": [{"text": text, "boolean_query": text}]} for text in parts["earlier"]]
    request = SearchRequest.model_validate(
        {name: parts[name] for name in ("query", "search_mode", "user_feedback")} | {"previous_strategies": rounds}
    )
    field_prompt = Prompt("biomedical", parts["field"], frozenset()) if parts["field"] else None
    prompt = replace(PROMPT, base=replace(PROMPT.base, text=parts["prompt"]), field=field_prompt)
    chat = Model(name=parts["model"])
    question = QueryBuilder(chat, PROMPT, StarsSettings(popular_min=parts["popular_min"])).question(request, parts["sources"], parts["now"])
    return make_cache_key(request, parts["sources"], chat.name, prompt, question)


@given(Parts, Parts)
def test_two_requests_share_a_plan_only_where_nothing_differs_that_decides_it(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (key(one) == key(other)) == (one == other)


@pytest.mark.parametrize("part", PARTS)
@given(data=st.data())
def test_each_part_alone_makes_a_difference(part: str, data: st.DataObject) -> None:
    one = data.draw(Parts)
    other = {**one, part: data.draw(PARTS[part].filter(lambda value: value != one[part]))}
    assert key(one) != key(other)


@given(st.builds(Draft, queries=st.just(({"text": "liver"},)), topic=st.text(), concepts=st.lists(st.text()), year_to=st.integers(0, 9999)))
def test_a_draft_comes_back_as_it_was(draft: Draft) -> None:
    async def there_and_back() -> None:
        cache = PlanCache(Memory(), 900.0)
        await cache.put("key", draft)
        assert await cache.get("key") == (draft, 60.0)

    asyncio.run(there_and_back())


def written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_on_disk_no_key_is_kept_and_a_broken_folder_costs_no_search(tmp_path: Path) -> None:
    """Also where the provider repeats the key in its answer."""
    draft = {"queries": [{"text": f"liver {KEY}"}]}
    replies = {"": Reply(draft), "newer": Reply(DRAFT)}
    with ChatServer(lambda request: replies[request.data.get("user_feedback", "")]) as server:
        chat = chat_over(server)
        texts = AnswerTextCache(DiskCache(tmp_path / "answers"), KEY)
        for feedback in replies:
            await translated(chat, texts, user_feedback=feedback)
        await asyncio.to_thread(flush_cache)
        newer = await translated(chat, texts, user_feedback="newer")
        assert (newer.usage.calls, (await translated(chat, texts)).usage.calls) == (0, 1)
        assert b"hepatic injury" in written(tmp_path)
        assert KEY.encode() not in written(tmp_path)
        (tmp_path / "file").write_text("no folder")
        broken = await translated(chat, AnswerTextCache(DiskCache(tmp_path / "file" / "answers"), KEY), user_feedback="newer")
        assert (broken.strategy, broken.failures, broken.usage.calls) == (newer.strategy, (), 1)
