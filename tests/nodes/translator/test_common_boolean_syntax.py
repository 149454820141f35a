from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.nodes.translator.common_boolean_syntax import (
    conjunction,
    join_synonyms,
    list_phrases,
    parses,
    says_more,
    split_negated,
    to_common_syntax,
)
from outrider.state.request import searchable
from support.fakes import paper


@pytest.mark.parametrize(
    "query",
    [
        "a",
        '"hepatic injury"',
        "a AND b",
        "(a OR b) AND NOT c",
        "a NOT b",
        "a b OR (c AND (d OR e))",
        "肝 AND 肾",
        "C++ AND x*",
        "and or not",
    ],
)
def test_whole_queries_parse(query: str) -> None:
    assert parses(query)


@pytest.mark.parametrize(
    "query", ["", " ", "a AND", "OR a", "NOT a", "a AND OR b", "(a", "a)", "()", '"a', '""', "ti:a", "a[tiab]", "!! AND a"]
)
def test_others_do_not(query: str) -> None:
    assert not parses(query)


@pytest.mark.parametrize(
    ("query", "included", "left_out"),
    [
        ("a AND b", "a b", ()),
        ("a AND b NOT c", "a b", ("c",)),
        ('a AND NOT "c d" OR b', "a b", ('"c d"',)),
        ('(a OR b NOT c) AND "x y" AND NOT (d OR (e AND f)) g', 'a b "x y" g', ("c", "( d OR ( e AND f ) )")),
        ("do not a", "do not a", ()),
        ('"a NOT b"', '"a NOT b"', ()),
        ("a NOT", "a  ", ()),
        ('a NOT "b', 'a   "b', ()),
    ],
)
def test_what_a_query_wants_and_what_it_leaves_out(query: str, included: str, left_out: tuple[str, ...]) -> None:
    assert split_negated(query) == (included, left_out)


def test_depth_costs_no_stack() -> None:
    deep = "(" * 100_000 + "a" + ")" * 100_000
    assert parses(deep)
    assert split_negated(f"b NOT {deep}")[0] == "b"


def test_what_is_left_out_is_left_out_of_what_is_joined() -> None:
    assert conjunction(["a b", "NOT"], ("c", '( d OR "e f" )')) == '"a b" AND "NOT" NOT c NOT ( d OR "e f" )'


@given(st.lists(st.text(min_size=1, max_size=20).filter(searchable), min_size=1, max_size=6))
def test_what_is_joined_by_rules_parses(terms: list[str]) -> None:
    assert parses(conjunction(terms))


@pytest.mark.parametrize(
    ("query", "synonyms", "joined"),
    [
        ("hepatotoxicity AND paracetamol", ["liver injury"], '(hepatotoxicity OR "liver injury") AND paracetamol'),
        (
            "hepatotoxicity AND paracetamol",
            ["liver injury", "acetaminophen"],
            '(hepatotoxicity OR "liver injury") AND (paracetamol OR acetaminophen)',
        ),
        (
            "hepatotoxicity AND paracetamol",
            ["paracetamol: acetaminophen", "liver injury"],
            '(hepatotoxicity OR "liver injury") AND (paracetamol OR acetaminophen)',
        ),
        ('imaging AND "large language models"', ["LLM"], 'imaging AND ("large language models" OR LLM)'),
        ("RCT AND gout", ["randomised controlled trial"], '(RCT OR "randomised controlled trial") AND gout'),
        ('gout AND "liver injury"', ["liver damage"], 'gout AND ("liver injury" OR "liver damage")'),
        ("(scan OR MRI) AND liver", ["CT scan"], '(scan OR "CT scan" OR MRI) AND liver'),
        ("a AND beta OR c", ["beta: b2"], "a AND (beta OR b2) OR c"),
        ("liver NOT (heart OR lung)", ["hepatic", "heart"], "(liver OR hepatic) NOT (heart OR lung)"),
        ("liver", ["livers", "hepatic", "", "!!"], "(liver OR hepatic)"),
        ("vector", ["std::vector"], '(vector OR "std::vector")'),
        ("liver AND (", ["hepatic"], "liver AND ("),
        ("", ["hepatic"], ""),
    ],
)
def test_synonyms_join_their_concept(query: str, synonyms: list[str], joined: str) -> None:
    assert join_synonyms(query, synonyms) == joined


WORDS = st.sampled_from(["liver", "heart", '"blood test"', "scan", "ct", "alpha"])
NESTED = st.recursive(
    WORDS, lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"), max_leaves=5
)
QUERIES = st.one_of(NESTED, st.tuples(NESTED, WORDS).map(" NOT ".join))


@given(
    QUERIES,
    st.lists(st.sampled_from(["hepatic", "liver tissue", "cardiac", "computed tomography", "scan: imaging"]), max_size=3),
    st.lists(st.sampled_from(["liver", "heart", "blood test", "scan", "ct", "alpha", "hepatic", "cardiac"]), max_size=4),
)
def test_a_query_with_synonyms_matches_at_least_as_much(query: str, synonyms: list[str], text: list[str]) -> None:
    joined = join_synonyms(query, synonyms)
    assert parses(joined)
    record = paper("a", " ".join(text))
    assert Evaluator(parse(joined).tree).matches(record) >= Evaluator(parse(query).tree).matches(record)
    assert split_negated(joined)[1] == split_negated(query)[1]


@pytest.mark.parametrize(
    ("query", "text", "more"),
    [
        ('aspirin AND "liver injury"', "aspirin liver injury", False),
        ("aspirin AND injuries", "injury by aspirin", False),
        ("(aspirin OR ASA) AND injury", "injury by aspirin", True),
        ("aspirin NOT heart", "aspirin", True),
    ],
)
def test_whether_a_query_says_more_than_its_text(query: str, text: str, more: bool) -> None:
    assert says_more(query, text) == more


def test_the_phrases_of_a_query() -> None:
    assert list_phrases('("blood test" OR x-ray OR "blood test") AND liver NOT "heart disease"') == ("blood test", "x-ray")


@pytest.mark.parametrize(
    ("query", "common"),
    [
        ('(liver OR "hepatic injury") AND drug NOT heart', '(liver OR "hepatic injury") AND drug NOT heart'),
        ("aspirin[tiab] AND liver[mh] AND smith[au]", "aspirin AND liver"),
        ("TS=(aspirin AND liver)", "aspirin AND liver"),
        ("exp Liver Diseases/ AND aspirin.ti,ab.", '"Liver Diseases" AND aspirin'),
        ("'liver injury'/exp AND aspirin", '"liver injury" AND aspirin'),
        ("aspirin adj3 liver", "aspirin AND liver"),
        ("aspirin and liver or hepatic", "aspirin and liver or hepatic"),
        ("aspirin AND 2020:2024[dp]", "aspirin"),
        ("aspirin OR NOT alcohol", "aspirin"),
        ("NOT alcohol", ""),
        ("(liver OR kidney) NOT alcohol", "(liver OR kidney) NOT alcohol"),
        ("liver NOT heart failure", "liver NOT (heart AND failure)"),
        ("aspirin NOT (alcohol OR wine[tiab])", "aspirin NOT (alcohol OR wine)"),
        ("aspirin NOT (alcohol AND smith[au])", "aspirin"),
        ("aspirin NOT review[ti] NOT animals[mh]", "aspirin"),
        ("aspirin not (liver adj3 failure)", "aspirin"),
        ("the OR liver", "liver"),
        ("“liver injury” AND «drug»", '"liver injury" AND "drug"'),
        ("liver* AND injur*", "liver* AND injur*"),
        ("(aspirin AND liver", ""),
        ("#1 AND #2", ""),
        ("author:smith", ""),
        ("aspirin liver org:evil", "aspirin AND liver"),
        ('aspirin AND "ratio 10:1"', 'aspirin AND "ratio 10:1"'),
        ("all[sb]", ""),
    ],
)
def test_a_query_of_any_platform_in_the_common_syntax(query: str, common: str) -> None:
    assert to_common_syntax(query) == common


@given(
    st.lists(
        st.sampled_from([*"()", "AND", "OR", "NOT", "or", "liver", '"x y"', "heart*", "[ti]", ".ab.", "TS=", "adj2", "of"]), max_size=12
    )
)
def test_the_common_syntax_can_be_parsed_and_needs_a_word(pieces: list[str]) -> None:
    """No query matches a record without any of its words: of services, it would match everything."""
    common = to_common_syntax(" ".join(pieces))
    assert not common or (parses(common) and not Evaluator(parse(common).tree).matches(paper("a", "nothing")))
