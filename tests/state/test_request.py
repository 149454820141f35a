from __future__ import annotations

import pytest

from outrider.state.errors import BadRequest
from outrider.state.request import MAX_QUERY_CHARS, RetrieverType, SearchMode, SearchRequest, check_request, searchable


def test_synonyms_and_old_names() -> None:
    """`execution_mode`, upper case and the short names of the retrievers are understood."""
    request = SearchRequest.model_validate({"query": "x", "execution_mode": "DISCOVERY", "strategies": ["SPARSE", "lance_dense", "graph"]})
    assert request.mode == "discovery"
    assert request.strategies == (RetrieverType.LANCE_FTS, RetrieverType.LANCE_DENSE, RetrieverType.GRAPH_NEIGHBOR)
    assert SearchRequest.model_validate({"query": "x", "search_mode": "Focused"}).search_mode is SearchMode.FOCUSED


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "query: Field required"),
        ({"query": ""}, "query: has no letter or digit"),
        ({"query": "   "}, "no letter or digit"),
        ({"query": "😀 !!"}, "no letter or digit"),
        ({"query": "\x00\x01\x1b"}, "no letter or digit"),
        ({"query": {}}, "no letter or digit"),
        ({"query": 5}, "^query: Input should be a valid string$"),
        ({"query": "x" * (MAX_QUERY_CHARS + 1)}, "has 20,001 characters; at most 20,000"),
        ({"query": "x", "top_k": 0}, "top_k: .*greater than or equal to 1"),
        ({"query": "x", "top_k": 10**9}, "top_k: .*less than or equal to 1000"),
        ({"query": "x", "top_kk": 1}, "unknown field 'top_kk'; did you mean 'top_k'"),
        ({"query": "x", "sources": ["githup"]}, "unknown source 'githup'; known: library"),
        ({"query": "x", "sources": "library"}, "^sources: Input should be a valid list$"),
        ({"query": "x", "strategies": ["bm42"]}, "strategies"),
        ({"query": "x", "search_mode": "wide"}, "search_mode: .*focused"),
        ({"query": "x", "filters": {"year": {"$gtt": 1}}}, r"filters: unknown filter operator '\$gtt'"),
        ({"query": "x", "distill_top": 51}, "distill_top"),
    ],
)
def test_bad_requests_name_the_field(fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        check_request(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query": {"title": "x"}}, "mapping"),
        ({"query": "x" * 20_001}, "20,001 characters"),
        ({"query": "x", "grey_literature": True}, "grey_literature"),
        ({"query": "x", "mode": "systematic", "filters": {"year": 2020}}, "filters"),
        ({"query": "x", "mode": "systematic", "strategies": ["dense"]}, "words exactly"),
    ],
)
def test_what_the_mode_cannot_honour_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        check_request(fields)


@pytest.mark.parametrize("query", [{"title": "x"}, "x" * 20_001, "x[ti] AND y"])
def test_the_systematic_mode_takes_mappings_and_long_protocols(query: object) -> None:
    assert check_request({"query": query, "mode": "systematic", "strategies": ["sparse"]}).query == query


@pytest.mark.parametrize("query", ["liver \udcff", "\ud83d liver"])
def test_half_a_character_is_refused(query: str) -> None:
    """As Python hands over what a terminal typed in another encoding."""
    with pytest.raises(BadRequest, match="half a character"):
        check_request({"query": query})


@pytest.mark.parametrize("text", ["a", "7", "肝", "é", "٣", "the of and"])
def test_any_script_can_be_searched(text: str) -> None:
    assert searchable(text)
