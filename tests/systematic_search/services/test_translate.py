"""The query of each service: operators, filters, parts that are left out, and refusals."""

from __future__ import annotations

import gzip
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.boolean.parser import parse
from outrider.services.systematic import make_remote_sources
from outrider.settings.model import Settings
from outrider.state.errors import BadRequest
from outrider.state.systematic import SentQuery
from support.shared_data import DATA

REMOTE_SOURCES = make_remote_sources(Settings())
TOPICS = DATA / "boolean/pubmed_topics.jsonl.gz"
FLAGSHIP = '("Aspirin"[Title] OR "Acetylsalicylic Acid"[Abstract]) AND ("Hepatotoxicity"[MeSH]) NOT Letter[pt]'

OF_2019 = "from_publication_date:2019-01-01,to_publication_date:2019-12-31"


def translate(name: str, query: str) -> SentQuery:
    parsed = parse(query)
    return REMOTE_SOURCES[name].translate(parsed.tree, parsed.text)


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("pubmed", FLAGSHIP, '("Aspirin"[ti] OR "Acetylsalicylic Acid"[tiab]) AND "Hepatotoxicity"[MeSH Terms] NOT "Letter"[pt]'),
        ("pubmed", "exp Liver/ and hepat$.ti,ab,kw.", '"Liver"[MeSH Terms] AND "hepat*"[tiab]'),
        ("pubmed", "(hip adj3 pain).ti.", '"hip pain"[ti:~2]'),
        ("pubmed", "NOT a[ti]", 'all[sb] NOT "a"[ti]'),
        ("openalex", FLAGSHIP, 'title_and_abstract.search.exact:aspirin OR "acetylsalicylic acid"'),
        ("openalex", "hepat*[tiab] AND 2019[dp] AND german[la]", f"{OF_2019},language:de,title_and_abstract.search.exact:hepat*"),
        ("openalex", '"hip pain"[tiab:~2]', 'title_and_abstract.search.exact:"hip pain"~4'),
        ("openalex", "Crohn's[ti]", 'title_and_abstract.search.exact:"crohn s" OR "crohn\'s"'),
        ("openalex", "10.1000/x[doi] OR 10.1000/Y[doi]", "doi:10.1000/x|10.1000/y"),
        ("semantic_scholar", FLAGSHIP, '"aspirin" | "acetylsalicylic acid"'),
        ("semantic_scholar", "(a1[ti] OR b1[ti]) AND c1[ti]", '("a1" | "b1") + "c1"'),
        ("crossref", "hepatotoxicity[ti] AND liver[ti]", "hepatotoxicity"),
        ("github", "liver[ti] AND drug safety[tiab]", 'liver "drug safety" fork:true'),
        ("github", "liver OR kidney", "liver OR kidney fork:true"),
    ],
)  # fmt: skip
def test_the_query_of_each_service(name: str, query: str, expected: str) -> None:
    assert translate(name, query).query == expected


@pytest.mark.parametrize("text", [
    "liver[tiab] AND (heart failure OR Liver[mh:noexp]) NOT letter[pt]", '"hip pain"[tiab:~2] AND 2019/06:2020[dp]', "“liver cancer”[ti]",
])  # fmt: skip
def test_pubmeds_own_syntax_is_sent_unchanged(text: str) -> None:
    translated = translate("pubmed", text)
    assert translated.native
    assert translated.query == text.replace("“", '"').replace("”", '"')
    assert not translated.widened


@pytest.mark.parametrize(
    "text", ["(a OR b)[ti]", "a[ti,ab]", '("a" ADJ3 "b")[ti]', "a[ab]", '"open[ti] AND b[ti]', "liver.ti,ab.", "a[Body] OR b[ti]"]
)
def test_syntax_that_pubmed_does_not_support_is_translated(text: str) -> None:
    translated = translate("pubmed", text)
    assert not translated.native
    assert translated.query


@pytest.mark.parametrize("name", ["openalex", "semantic_scholar"])
def test_alternatives_that_cannot_be_expressed_are_refused_not_lost(name: str) -> None:
    """An author could match what the words do not; a heading that no record has matches nothing, and is reported as lacking."""
    refused = translate(name, "liver[ti] OR smith j[au]")
    assert not refused.query
    assert "cannot search for author" in refused.refused
    without = translate(name, "liver[ti] OR Liver[mh]")
    assert without.query
    assert without.lacking == (f'"Liver"[MeSH Terms]: {name} has no searchable headings',)
    assert "can narrow the search there" in translate(name, "NOT liver[ti]").refused


@pytest.mark.parametrize("name", ["openalex", "semantic_scholar", "github"])
def test_exclusions_of_not_are_applied_locally(name: str) -> None:
    translated = translate(name, "liver[ti] NOT heart[ti]")
    assert "heart" not in translated.query
    assert any("records that NOT excludes are removed here" in note for note in translated.widened)


def test_a_query_that_is_too_long_loses_its_longest_part_or_is_refused() -> None:
    many = " OR ".join(f"hepatotoxicity{number}[ti]" for number in range(300))
    translated = translate("openalex", f"({many}) AND liver[ti]")
    assert translated.query == "title_and_abstract.search.exact:liver"
    assert "longer than openalex takes" in translated.widened[-1]
    assert "longer than" in translate("openalex", many).refused
    assert len(translate("github", f"({many}) AND liver[ti]").query) <= 256


@pytest.mark.skipif(not TOPICS.exists(), reason=f"no topics at {TOPICS}; set OUTRIDER_DATA")
def test_queries_of_librarians() -> None:
    """PubMed gets all that parse; the others get a fitting query or give the reason for a refusal."""
    with gzip.open(TOPICS, "rt", encoding="utf-8") as lines:
        queries = [json.loads(line)["query"] for line in lines]
    for name, source in REMOTE_SOURCES.items():
        for query in queries:
            parsed = parse(query)
            translated = source.translate(parsed.tree, parsed.text)
            assert bool(translated.query) != bool(translated.refused)
            assert name != "pubmed" or translated.query
            assert name != "openalex" or len(quote(translated.query)) <= 3_000


@given(st.text(max_size=40))
def test_any_text_that_parses_is_sent_or_refused(text: str) -> None:
    try:
        parsed = parse(text)
    except BadRequest:
        return
    for source in REMOTE_SOURCES.values():
        translated = source.translate(parsed.tree, parsed.text)
        assert bool(translated.query or translated.parameters) != bool(translated.refused), translated
