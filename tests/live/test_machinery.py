"""The parts of the live suite on loopback: shapes of answers, their differences, and a request through every adapter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from live.client import QUERIES, open_source, query_source
from live.shapes import TEXT, compute_shape, difference, read_shape, write_shape

from support.fake_services import SERVICES, make_handler, settings
from support.http_server import as_json, serving

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)


def test_fields_and_kinds_without_values() -> None:
    answer = {"items": [{"id": 1, "ok": True, "owner": {"login": "ada"}}, {"id": 2, "stars": 0.5}], "next": None, "tags": []}
    assert compute_shape(json.dumps(answer).encode()) == {
        "items[].id: number",
        "items[].ok: boolean",
        "items[].owner.login: string",
        "items[].stars: number",
    }
    assert compute_shape(b'{"abstract": {"The": [0], "end": [1, 2]}}') == {"abstract{}: object"}
    assert compute_shape(b"<!doctype html><p>not XML") == compute_shape(b"") == {TEXT}


def test_elements_and_attributes() -> None:
    feed = b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="x"/></entry><entry><title>y</title></entry></feed>'
    assert compute_shape(feed) == {"feed", "feed/entry", "feed/entry/link", "feed/entry/link@href", "feed/entry/title"}


@given(PLAIN, PLAIN)
def test_the_shape_of_two_answers_is_the_union_of_their_shapes(answer: object, more: object) -> None:
    """Shapes are deterministic, and a difference lists exactly the added lines."""
    one, other = compute_shape(json.dumps([answer]).encode()), compute_shape(json.dumps([more]).encode())
    both = compute_shape(json.dumps([answer, more]).encode())
    assert both == one | other
    changed = difference(one, both)
    assert changed.gone == ()
    assert set(changed.new) == both - one


@given(st.frozensets(st.from_regex(r"[a-z.\[\]]{1,9}: (string|number)", fullmatch=True)))
def test_a_stored_shape_is_read_back(tmp_path_factory: pytest.TempPathFactory, shape: frozenset[str]) -> None:
    file = tmp_path_factory.mktemp("shapes") / "one.txt"
    assert read_shape(file) is None
    write_shape(shape, file)
    assert read_shape(file) == shape


@pytest.mark.parametrize("name", SERVICES)
async def test_every_adapter_sends_a_request_and_its_answers_are_recorded(name: str, tmp_path: Path) -> None:
    """All answers of a search are recorded, including both of PubMed's."""
    async with serving(make_handler()) as server:
        with open_source(name, settings(server.base_url, tmp_path)) as (source, recorder):
            assert source is not None
            response = await query_source(source, recorder, QUERIES[name][0], None)
    assert len(response.answer.results) == 3
    assert response.shape
    assert TEXT not in response.shape
    if name == "pubmed":
        assert {"esearchresult.idlist[]: string", "PubmedArticleSet/PubmedArticle/MedlineCitation/PMID@Version"} <= response.shape


async def test_a_changed_answer_is_reported(tmp_path: Path) -> None:
    """A field whose kind changed appears as removed and as new."""
    answer = {"total_count": 1, "incomplete_results": False, "items": [{"full_name": "a/b", "stargazers_count": "many"}]}
    shapes = []
    for handler in (make_handler(), make_handler({"github": as_json(answer)})):
        async with serving(handler) as server:
            with open_source("github", settings(server.base_url, tmp_path)) as (source, recorder):
                assert source is not None
                shapes.append((await query_source(source, recorder, ("flask",), None)).shape)
    changed = difference(*shapes)
    assert changed.new == ("items[].stargazers_count: string",)
    assert "items[].stargazers_count: number" in changed.gone
    assert "+ items[].stargazers_count: string" in str(changed)


async def test_a_service_without_its_key_is_none(tmp_path: Path) -> None:
    plain = settings("http://127.0.0.1:1", tmp_path)
    sources = plain.sources.model_copy(update={"github": plain.sources.github.model_copy(update={"enabled": False})})
    with open_source("github", plain.model_copy(update={"sources": sources})) as (source, _):
        assert source is None
