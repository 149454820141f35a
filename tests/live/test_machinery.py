"""What the live suite is made of, on loopback: shapes of answers, their differences, and every adapter asked as the real ones will be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live.asking import ASKED, asked, source_of
from live.shapes import TEXT, difference, keep, kept, shape_of

from support.fake_services import SERVICES, settings, world
from support.http_server import as_json, serving

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)


def test_fields_and_kinds_without_values() -> None:
    said = {"items": [{"id": 1, "ok": True, "owner": {"login": "ada"}}, {"id": 2, "stars": 0.5}], "next": None, "tags": []}
    assert shape_of(json.dumps(said).encode()) == {
        "items[].id: number",
        "items[].ok: boolean",
        "items[].owner.login: string",
        "items[].stars: number",
    }
    assert shape_of(b'{"abstract": {"The": [0], "end": [1, 2]}}') == {"abstract{}: object"}
    assert shape_of(b"<!doctype html><p>not XML") == shape_of(b"") == {TEXT}


def test_elements_and_attributes() -> None:
    feed = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="x"/></entry><entry><title>y</title></entry></feed>'
    assert shape_of(feed) == {"feed", "feed/entry", "feed/entry/link", "feed/entry/link@href", "feed/entry/title"}


@given(PLAIN, PLAIN)
def test_a_shape_says_no_more_than_the_answer(said: object, more: object) -> None:
    """The same each time; an answer that holds another's parts has its shape, too."""
    one, other = shape_of(json.dumps([said]).encode()), shape_of(json.dumps([more]).encode())
    both = shape_of(json.dumps([said, more]).encode())
    assert both == one | other
    changed = difference(one, both)
    assert changed.gone == ()
    assert set(changed.new) == both - one


@given(st.frozensets(st.from_regex(r"[a-z.\[\]]{1,9}: (string|number)", fullmatch=True)))
def test_what_is_kept_is_read_back(tmp_path_factory: pytest.TempPathFactory, shape: frozenset[str]) -> None:
    file = tmp_path_factory.mktemp("shapes") / "one.txt"
    assert kept(file) is None
    keep(shape, file)
    assert kept(file) == shape


@pytest.mark.parametrize("name", SERVICES)
async def test_every_adapter_is_asked_and_its_answers_are_heard(name: str, tmp_path: Path) -> None:
    """All answers of a search, both of PubMed's two among them."""
    async with serving(world()) as server:
        with source_of(name, settings(server.base_url, tmp_path)) as (source, heard):
            assert source is not None
            said = await asked(source, heard, ASKED[name][0], None)
    assert len(said.answer.results) == 3
    assert said.shape
    assert TEXT not in said.shape
    if name == "pubmed":
        assert {"esearchresult.idlist[]: string", "PubmedArticleSet/PubmedArticle/MedlineCitation/PMID@Version"} <= said.shape


async def test_a_changed_answer_is_told(tmp_path: Path) -> None:
    """A field that became another kind is gone in the one and new in the other."""
    answer = {"total_count": 1, "incomplete_results": False, "items": [{"full_name": "a/b", "stargazers_count": "many"}]}
    shapes = []
    for handler in (world(), world({"github": as_json(answer)})):
        async with serving(handler) as server:
            with source_of("github", settings(server.base_url, tmp_path)) as (source, heard):
                assert source is not None
                shapes.append((await asked(source, heard, ("flask",), None)).shape)
    changed = difference(*shapes)
    assert changed.new == ("items[].stargazers_count: string",)
    assert "items[].stargazers_count: number" in changed.gone
    assert "+ items[].stargazers_count: string" in str(changed)


async def test_a_service_without_its_key_is_none(tmp_path: Path) -> None:
    plain = settings("http://127.0.0.1:1", tmp_path)
    sources = plain.sources.model_copy(update={"github": plain.sources.github.model_copy(update={"enabled": False})})
    with source_of("github", plain.model_copy(update={"sources": sources})) as (source, _):
        assert source is None
