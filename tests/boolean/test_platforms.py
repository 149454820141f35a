"""Queries of other platforms: trees, approximations, and refusals by the platform's name."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outrider.boolean.detect_syntax import NAMES, detect_syntax
from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.parser import SyntaxChoice, parse
from outrider.boolean.platforms import PLATFORMS
from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Dates, Either, Field, Heading, Near, Node, Not, Or, Text, Words

TI, AB, KW, MESH, ALL = Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.ALL
TOPIC = (TI, AB, KW)
TYPE, LANGUAGE, AUTHOR, JOURNAL = Field.PUBLICATION_TYPE, Field.LANGUAGE, Field.AUTHOR, Field.JOURNAL


def term(text: str, *fields: Field) -> Text:
    return Text(words(text), fields)


def words(text: str) -> Words:
    return Words(tuple(text.split()))


def near(left: object, right: object, distance: int, *fields: Field, ordered: bool = False) -> Text:
    return Text(Near((left, right), distance, ordered), fields)  # type: ignore[arg-type]


A, B, C = (term(word, TI) for word in "abc")

WOS = [
    ("TI=a", A),
    ("TI=(a OR b)", Or((A, B))),
    ("ti = a AND Title=b", And((A, B))),
    ('TS="heart failure"', term("heart failure", *TOPIC)),
    ("TS=heart failure", And((term("heart", *TOPIC), term("failure", *TOPIC)))),
    ("TS=(wom?n OR colo$r OR behav*)", Or((term("wom{#}n", *TOPIC), term("colo{?}r", *TOPIC), term("behav*", *TOPIC)))),
    ("TI=(a NEAR/3 b)", near(words("a"), words("b"), 3, TI)),
    ("TI=(a NEAR b)", near(words("a"), words("b"), 15, TI)),
    ("TI=(a NEAR/0 (b OR c))", near(words("a"), Either((words("b"), words("c"))), 0, TI)),
    ("TI=(a OR b AND c)", Or((A, And((B, C))))),
    ("TI=a NOT TI=b OR TI=c", Or((And((A, Not(B))), C))),
    ("AU=Smith J* AND SO=Lancet Oncology", And((term("Smith J*", AUTHOR), term("Lancet Oncology", JOURNAL)))),
    ("TI=a AND PY=2010-2014", And((A, Dates("2010", "2014")))),
    ("TI=a AND PY=(2010-2014 OR 2016)", And((A, Or((Dates("2010", "2014"), Dates("2016", "2016")))))),
    ("TI=a AND LA=(English OR German) AND DT=(Article OR Review)",
     And((A, Or((term("English", LANGUAGE), term("German", LANGUAGE))), Or((term("Article", TYPE), term("Review", TYPE)))))),
    ("#1 TI=a\n#2 TI=b\n#3 #1 OR #2", Or((A, B))),
    ("DO=10.1000/x-y", term("10.1000/x-y", Field.DOI)),
    ("TITLE: (a OR b) AND LANGUAGE: (English)", And((Or((A, B)), term("English", LANGUAGE)))),
]  # fmt: skip
SCOPUS = [
    ('TITLE-ABS-KEY("heart failure" OR hf)', Or((term("heart failure", *TOPIC), term("hf", *TOPIC)))),
    ("TITLE-ABS-KEY(heart failure)", And((term("heart", *TOPIC), term("failure", *TOPIC)))),
    ("TITLE({heart failure})", term("heart failure", TI)),
    ("TITLE(a W/3 b)", near(words("a"), words("b"), 3, TI)),
    ("TITLE(a PRE/2 b)", near(words("a"), words("b"), 2, TI, ordered=True)),
    ("TITLE(a AND b OR c)", And((A, Or((B, C))))),
    ("TITLE(a AND NOT b OR c)", And((A, Not(Or((B, C)))))),
    ("TITLE(a) AND NOT TITLE(b) AND TITLE(c)", And((A, Not(And((B, C)))))),
    ("TITLE(a) AND PUBYEAR > 2009 AND PUBYEAR < 2021", And((A, Dates("2010", None), Dates(None, "2020")))),
    ("TITLE(a) AND PUBYEAR IS 2015", And((A, Dates("2015", "2015")))),
    ('TITLE(a) AND ( LIMIT-TO ( LANGUAGE , "English" ) OR LIMIT-TO ( LANGUAGE , "French" ) )',
     And((A, Or((term("English", LANGUAGE), term("French", LANGUAGE)))))),
    ('TITLE(a) AND ( EXCLUDE ( DOCTYPE , "re" ) )', And((A, Not(term("review", TYPE))))),
    ("AUTH(smith) AND SRCTITLE(lancet)", And((term("smith", AUTHOR), term("lancet", JOURNAL)))),
]  # fmt: skip
EMBASE = [
    ("'heart failure'/exp", Heading("heart failure")),
    ("'heart failure'/de", Heading("heart failure", explode=False)),
    ("aspirin/exp/mj", Heading("aspirin", major=True)),
    ("'asthma'/exp/dm_dt", Heading("asthma", "drug therapy")),
    ("'asthma'/exp/dm_dt,dm_pc", Or((Heading("asthma", "drug therapy"), Heading("asthma", "prevention & control")))),
    ("'heart failure':ti,ab", term("heart failure", TI, AB)),
    ("heart failure:ti", And((term("heart", TI), term("failure", TI)))),
    ("(a OR b):ti", Or((A, B))),
    ("(a NEAR/3 b):ti", near(words("a"), words("b"), 2, TI)),
    ("(a NEXT/1 b):ti", near(words("a"), words("b"), 0, TI, ordered=True)),
    ("'alzheimer''s disease':ti", term("alzheimer''s disease", TI)),
    ("'parkinson's disease':ti", term("parkinson's disease", TI)),
    ("a:ti OR b:ti AND c:ti", And((Or((A, B)), C))),
    ("a:ti AND [english]/lim AND [2010-2020]/py", And((A, term("english", LANGUAGE), Dates("2010", "2020")))),
    ("a:ti AND [humans]/lim", And((A, Heading("Humans")))),
    ("a:ti NOT 'conference abstract'/it", And((A, Not(Or((term("conference abstract", TYPE), term("meeting abstract", TYPE))))))),
    ("#1. a:ti\n#2. b:ti\n#3. #1 AND #2", And((A, B))),
    ("wom?n:ti OR sul$ur:ti", Or((term("wom{#}n", TI), term("sul{?}ur", TI)))),
]  # fmt: skip
EBSCO = [
    ("TI a", A),
    ("TI (a OR b)", Or((A, B))),
    ("TI heart failure AND AB drug", And((term("heart failure", TI), term("drug", AB)))),
    ("TI (a N3 b)", near(words("a"), words("b"), 3, TI)),
    ("TI (a W3 b)", near(words("a"), words("b"), 3, TI, ordered=True)),
    ("TI a N2 b AND TI c", And((near(words("a"), words("b"), 2, TI), C))),
    ('(MH "Heart Failure+")', Heading("Heart Failure")),
    ('MH "Heart Failure"', Heading("Heart Failure", explode=False)),
    ('MM "Heart Failure+/DT/PC"', Or((Heading("Heart Failure", "drug therapy", major=True),
                                     Heading("Heart Failure", "prevention & control", major=True)))),
    ("TI (colo#r OR wom?n)", Or((term("colo{?}r", TI), term("wom{#}n", TI)))),
    ("TI a OR TI b AND TI c", Or((A, And((B, C))))),
    ("S1 TI a\nS2 TI b\nS3 S1 AND S2", And((A, B))),
    ("TI a AND DT 20100101-20141231", And((A, Dates("2010/01/01", "2014/12/31")))),
    ("TI RN OR AB RN", Or((term("RN", TI), term("RN", AB)))),
    ("TX a", term("a", ALL)),
]  # fmt: skip
PROQUEST = [
    ("ti(a)", A),
    ("ti(a OR b)", Or((A, B))),
    ('ti,ab("heart failure")', term("heart failure", TI, AB)),
    ("noft(a)", term("a", ALL)),
    ("ti(a NEAR/3 b)", near(words("a"), words("b"), 3, TI)),
    ("ti(a PRE/2 b)", near(words("a"), words("b"), 2, TI, ordered=True)),
    ("ti(behav*)", term("behav{*5}", TI)),
    ("ti(a) NOT ti(b) OR ti(c)", And((A, Not(Or((B, C)))))),
    ('MAINSUBJECT.EXACT.EXPLODE("Heart failure")', Heading("Heart failure")),
    ('SU.EXACT("Heart failure")', Heading("Heart failure", explode=False)),
    ('MJMAINSUBJECT.EXACT("Heart failure")', Heading("Heart failure", explode=False)),
    ("ti(a) AND yr(2010-2020) AND la(english)", And((A, Dates("2010", "2020"), term("english", LANGUAGE)))),
]
COCHRANE = [
    ("MeSH descriptor: [Asthma] explode all trees", Heading("Asthma")),
    ("MeSH descriptor: [Asthma] this term only", Heading("Asthma", explode=False)),
    ("MeSH descriptor: [Asthma] explode all trees and with qualifier(s): [drug therapy - DT]", Heading("Asthma", "drug therapy")),
    ("[mh asthma]", Heading("asthma")),
    ('[mh ^"heart failure"/DT,SU]', Or((Heading("heart failure", "drug therapy", explode=False),
                                        Heading("heart failure", "surgery", explode=False)))),
    ('"heart failure":ti,ab,kw', term("heart failure", TI, AB, KW, MESH)),
    ('("a" near/3 b):ti', near(words("a"), words("b"), 2, TI)),
    ('("a" near b):ti', near(words("a"), words("b"), 5, TI)),
    ('("a" next b):ti', near(words("a"), words("b"), 0, TI, ordered=True)),
    ('#1 "a":ti\n#2 "b":ti\n#3 "c":ti\n#4 {OR #1-#3}', Or((A, B, C))),
    ('#1 "a":ti\n#2 "b":ti\n#3 #1 and #2', And((A, B))),
    ('#1 "a":ti\n#2 "b":ti\n#3 #1 or #2 with Publication Year from 2010 to 2015, in Trials', And((Or((A, B)), Dates("2010", "2015")))),
]  # fmt: skip
CASES = [
    pytest.param(key, query, tree, id=f"{key}: {query}")
    for key, cases in (
        ("wos", WOS),
        ("scopus", SCOPUS),
        ("embase", EMBASE),
        ("ebsco", EBSCO),
        ("proquest", PROQUEST),
        ("cochrane", COCHRANE),
    )
    for query, tree in cases
]


@pytest.mark.parametrize(("key", "query", "tree"), CASES)
def test_the_tree_of_a_platforms_query(key: str, query: str, tree: Node) -> None:
    read = parse(query, key)  # type: ignore[arg-type]
    assert read.tree == tree
    assert parse(format_tree(read.tree), "pubmed").tree == read.tree


@pytest.mark.parametrize(("key", "query", "tree"), [case for case in CASES if case.values[1] != "aspirin/exp/mj"])
def test_the_platform_is_found_by_itself(key: str, query: str, tree: Node) -> None:
    """The fields of one platform are no fields of another; the remarks name the platform."""
    read = parse(query)
    if read.syntax == key:
        assert any(remark.code == "platform" for remark in read.warnings)
    assert read.syntax == key
    assert read.tree == tree


@pytest.mark.parametrize(
    ("query", "syntax", "message", "column"),
    [
        ("TI=a AND WC=Surgery", "auto", "field of Web of Science that is not read here: research areas", 10),
        ("TI=a AND QQ=b", "auto", "no field of Web of Science", 10),
        ("TI=(a SAME b)", "auto", "SAME searches one address", 7),
        ("TS=(a NEAR/3 (b AND c))", "auto", "OR only", 17),
        ("TITLE(a) AND SUBJAREA(MEDI)", "auto", "field of Scopus that is not read here: subject areas", 14),
        ('TITLE-ABS-KEY(a) AND ( LIMIT-TO ( SUBJAREA , "MEDI" ) )', "auto", "Scopus: LIMIT-TO", 24),
        ("TITLE(colo#r)", "scopus", "“#” is no wildcard of Scopus", 11),
        ("'asthma'/exp AND [embase]/lim", "auto", "limits to a database", 18),
        ("'asthma'/exp/dd_cb", "auto", "no MeSH qualifier comes near", 1),
        ("'asthma:ti", "embase", "never closed", 1),
        ("'a':ti,zz", "embase", "no field of Embase", 4),
        ("TI (a NEAR/2 b)", "ebsco", "EBSCOhost writes N3", 7),
        ("TI (a W/2 b)", "ebsco", r"“W/2” is syntax of Scopus.*EBSCOhost writes N3 \(W3 in this order\)", 7),
        ('AI "governance" OR AB future', "auto", "no field of EBSCOhost", 1),
        ("TI midsummer * dream", "ebsco", "stands for a whole word", 14),
        ('ZY "sudan" AND TI a', "auto", "not read here: places", 1),
        ('ti(a) AND loc("France")', "auto", "field of ProQuest that is not read here: places", 11),
        ("[mh asthma/zz]", "auto", "“zz” is no MeSH qualifier", 1),
        ("TI=a AND b[ti]", "wos", "“.ti.” is syntax of PubMed.*Web of Science writes TS=", 11),
        ("TS=#1", "wos", "there is no line 1", 4),
        ("TS=(a OR b:ti)", "wos", "“:ti” is syntax of Embase and Cochrane Library.*Web of Science", 11),
        ("SU nursing AND RV Y", "auto", "field of EBSCOhost that is not read here: limiters", 16),
    ],
)
def test_what_a_platform_means_and_records_cannot_tell_is_refused_by_its_name(query: str, syntax: str, message: str, column: int) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query, syntax)  # type: ignore[arg-type]
    assert error.value.column == column


@pytest.mark.parametrize(
    "query",
    [
        "aspirin[ti] AND TS=(liver OR kidney)",
        "aspirin[ti] AND pain[ti] AND TITLE-ABS-KEY(liver)",
        "aspirin[ti] AND pain[ti] AND 'liver'/exp",
        "aspirin[ti] AND pain[ti] AND liver adj3 failure",
        "aspirin[ti] AND pain[ti] AND liver.ti,ab.",
        "aspirin[ti] AND pain[ti] AND exp Liver/",
        "aspirin NEAR/3 liver",
        "aspirin n/3 liver",
        "aspirin N3 liver",
        "wom?n",
        "colo#r",
        "child$ AND tumo?r",
    ],
)
def test_syntax_of_another_platform_is_never_read_as_words_of_pubmed(query: str) -> None:
    with pytest.raises(BooleanSyntaxError):
        parse(query)


@pytest.mark.parametrize(
    ("query", "notes"),
    [
        ("TI=a", 0),
        ("TS=a", 1),
        ("'a'/exp OR 'b'/exp", 1),
        ('MH "Asthma"', 1),
        ("TS=(spider bite NEAR/3 brown)", 2),
        ("a AND TI=b", 1),
    ],
)
def test_each_approximation_is_listed(query: str, notes: int) -> None:
    assert sum(remark.code == "approximated" for remark in parse(query).warnings) == notes


def test_a_query_in_quotation_marks_and_one_with_the_platforms_name() -> None:
    assert parse('"TI=(a OR b)"').tree == Or((A, B))
    assert parse("Web of Science: TI=a").tree == A
    assert parse("EBSCOhost: TI a").syntax == "ebsco"
    assert parse("PubMed: a[ti]").tree == A


def test_every_platform_names_its_source_of_words() -> None:
    """A field that is read is not refused, too, and each platform can print what it reads."""
    for platform in PLATFORMS.values():
        assert not platform.fields.keys() & platform.refused.keys(), platform.key


def test_an_operator_may_follow_a_single_quotation_mark_without_a_blank() -> None:
    assert parse("'a b'OR 'c':ti AND 'alzheimer's disease'/exp").tree == parse("'a b' OR 'c':ti AND 'alzheimer's disease'/exp").tree


@pytest.mark.parametrize(
    ("query", "message", "column"),
    [
        ("'pain'/exp AND pain.ti,ab.", "“/exp” is syntax of Embase, and the rest of the query is read as Ovid's", 7),
        ("TS=pain AND pain.ti,ab.", "“TS=” is syntax of Web of Science", 1),
        ("TS=pain AND TITLE-ABS-KEY(pain)", "“TITLE-ABS-KEY” is syntax of Scopus", 13),
    ],
)
def test_two_platforms_in_one_query_are_refused(query: str, message: str, column: int) -> None:
    """The words of the other platform's syntax would be searched for."""
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query)
    assert error.value.column == column


WORDS_OF_ANY = st.sampled_from(["pain", "migraine*", '"back pain"', "aspirin", '"low dose aspirin"'])
PIECES = [
    ("pubmed", "{}[tiab]"), ("pubmed", "{}[Title/Abstract]"), ("pubmed", "{}[MeSH Terms]"), ("pubmed", "{}[tw]"), ("pubmed", "{}[ti]"),
    ("pubmed", '"back pain"[tiab:~3]'), ("pubmed", "english[la]"), ("pubmed", "2010:2020[dp]"),
    ("ovid", "{}.ti,ab."), ("ovid", "{}.tw."), ("ovid", "{}.mp."), ("ovid", "exp Back Pain/"), ("ovid", "Migraine/"),
    ("ovid", "({} or headache).ti,ab,kf."), ("ovid", "(back adj3 pain).ti,ab."), ("ovid", "exp *Pain/dt"),
    ("wos", "TS={}"), ("wos", "TS=({})"), ("wos", "TI=({} OR headache)"), ("wos", "AB={}"), ("wos", "TS=(back NEAR/3 pain)"),
    ("wos", "PY=2010-2020"), ("wos", "AU=Smith"), ("wos", "ALL=({})"),
    ("scopus", "TITLE-ABS-KEY({})"), ("scopus", "TITLE-ABS({})"), ("scopus", "ABS({})"), ("scopus", "AUTHKEY({})"),
    ("scopus", "TITLE-ABS-KEY(back W/3 pain)"), ("scopus", "PUBYEAR > 2010"), ("scopus", 'LIMIT-TO(LANGUAGE, "English")'),
    ("scopus", "AFFILCOUNTRY(France)"), ("scopus", "AF-ID(60000000)"),
    ("embase", "'back pain'/exp"), ("embase", "'back pain'/de"), ("embase", "pain/exp/mj"), ("embase", "[english]/lim"),
    ("embase", "[2010-2020]/py"), ("embase", "'back pain'/exp/dm_dt"),
    ("embase cochrane", "{}:ti,ab"), ("embase cochrane", "{}:ti,ab,kw"), ("embase cochrane", "(back NEXT/2 pain):ti,ab"),
    ("ebsco", "TI {}"), ("ebsco", "AB ({})"), ("ebsco", 'MH "Back Pain+"'), ("ebsco", 'MM "Migraine"'), ("ebsco", "TX {}"),
    ("ebsco", "TI (back N3 pain)"), ("ebsco", 'DE "Back Pain"'), ("ebsco", "(TI {} OR AB {})"),
    ("proquest", "ti,ab({})"), ("proquest", "ti({})"), ("proquest", "noft({})"), ("proquest", 'MAINSUBJECT.EXACT("Back Pain")'),
    ("proquest", 'SU.EXACT.EXPLODE("Pain")'), ("proquest", "ab({})"), ("proquest", "tiab(back N/3 pain)"),
    ("cochrane", "MeSH descriptor: [Pain] explode all trees"), ("cochrane", '[mh ^"Back Pain"]'), ("cochrane", "[mh Pain]"),
    ("cochrane", "[mh pain/DT]"), ("cochrane", "(back NEXT pain):ti"),
]  # fmt: skip
"""Platforms that have a piece, and the piece. Each is syntax on these platforms only; words without a field are legal on all."""


@st.composite
def mixtures(draw: st.DrawFn) -> tuple[str, frozenset[str], frozenset[str]]:
    """A query of two or three pieces, and the platforms of the first and of another."""
    first, other = (draw(st.sampled_from(PIECES)) for _ in "ab")
    assume(set(first[0].split()).isdisjoint(other[0].split()))
    pieces = [first, other]
    if draw(st.booleans()):
        pieces.append(draw(st.sampled_from([first, other, ("", "{}")])))
    written = [piece.replace("{}", draw(WORDS_OF_ANY)) for _, piece in draw(st.permutations(pieces))]
    joint = draw(st.sampled_from([" AND ", " OR ", " NOT ", "\nAND "]))
    query = joint.join(f"({one})" if draw(st.booleans()) else one for one in written)
    return query, frozenset(first[0].split()), frozenset(other[0].split())


@settings(max_examples=int(os.environ.get("OUTRIDER_TREES", "400")), deadline=None)
@given(mixtures())
def test_pieces_of_two_platforms_are_refused_with_both_names(mixture: tuple[str, frozenset[str], frozenset[str]]) -> None:
    query, first, other = mixture
    with pytest.raises(BooleanSyntaxError) as error:
        parse(query)
    message = str(error.value).partition("\n")[0]
    owners, _, reader = message.partition(", and the rest of the query is read as ")
    syntax = detect_syntax(query)
    assert reader.startswith(NAMES[syntax])
    assert syntax in first | other, message
    assert any(NAMES[key] in owners for key in (other if syntax in first else first)), message
    assert "use one syntax" in reader


@pytest.mark.parametrize("syntax", sorted(NAMES))
@pytest.mark.parametrize(("platforms", "piece"), PIECES)
def test_a_piece_of_another_platform_is_refused_where_the_platform_is_named(syntax: str, platforms: str, piece: str) -> None:
    """A named platform reads its own pieces, and none of another platform as words."""
    query = piece.replace("{}", "pain")
    if syntax in platforms.split():
        assert parse(query, syntax).syntax == syntax  # type: ignore[arg-type]
        return
    with pytest.raises(BooleanSyntaxError) as error:
        parse(f"aspirin AND {query}", syntax)  # type: ignore[arg-type]
    assert NAMES[syntax] in str(error.value)
    assert any(NAMES[key] in str(error.value) for key in platforms.split())


@pytest.mark.parametrize("syntax", sorted(NAMES))
@pytest.mark.parametrize("query", ["aspirin AND pain", '"back pain" OR migraine*', "(aspirin OR ibuprofen) AND pain", "co-op AND pain"])
def test_words_phrases_and_truncation_are_legal_on_every_platform(syntax: str, query: str) -> None:
    assert parse(query, syntax).syntax == syntax  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ('ti:"graph neural" AND abs:molecule AND cat:cs.LG', 1),
        ("(TITLE_ABS:asthma OR MESH:asthma) AND OPEN_ACCESS:y", 2),
        ('mh:("Dor Lombar" OR "Low Back Pain") AND la:(pt OR es)', 1),
        ('("Document Title":"machine learning") AND ("Abstract":radar)', 18),
        ("[[Title: blockchain] OR [Abstract: ledger]]", 1),
        ("title.search:asthma,type:article", 1),
        ('search publications in title_only for "asthma" return publications', 1),
        ("asthma +steroid -child", 17),
        ("(ct | scan) + lung - child", 20),
        ("tiabkw:asthma", 1),
        ("doi:10.1000/x", 1),
        ("asthma AND year_published:[2010 TO 2020]", 12),
        ("TS=asthma AND title:child", 15),
    ],
)
def test_a_field_or_sign_of_a_service_that_is_not_read_is_refused(query: str, column: int) -> None:
    with pytest.raises(BooleanSyntaxError, match=r"write|writes") as error:
        parse(query)
    assert error.value.column == column


@pytest.mark.parametrize(
    ("query", "sign"),
    [
        ("#1 TS=(asthma)\n#2 TS=(child*)\n#3 #1 AND #2\nIndexes=SCI-EXPANDED, SSCI Timespan=2010-2020", "Indexes="),
        ("TS=(asthma) AND Timespan=2010-2020", "Timespan="),
        ("TI=pain Refined by: DOCUMENT TYPES: (ARTICLE)", "Refined by:"),
        ("ti(pain) AND ab(back)\nAdditional limits - Date: From 2010 to 2020", "Additional limits -"),
        ("TITLE-ABS-KEY(pain) Limited to: 2010-2020", "Limited to:"),
        ("S1 TI pain\nS2 AB back\nS3 S1 AND S2\nS4 S3 Limiters - English", "Limiters -"),
        ("pain[tiab] Limits Activated: Humans", "Limits Activated:"),
        ("('pain' OR 'back')/exp", "/exp"),
        ("TS=asthma AND Abstracts=(child)", "Abstracts="),
        ('all: "x ray" AND ti: y', "all:"),
        ("title: asthma AND abstract: child", "title:"),
        ("(pain adj5 (back or neck)).ab. /freq=2", "/freq=2"),
    ],
)
def test_what_a_platform_lists_beside_its_queries_is_never_read_as_words(query: str, sign: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=re.escape(f"“{sign}”")):
        parse(query)


@pytest.mark.parametrize(
    "query", ["miRNA:mRNA pairing[tiab]", "beta -lactam[tiab]", "CO(2) AND AT(1)", "10:30 OR 3:1", "https://example.org"]
)
def test_colons_minus_signs_and_parentheses_of_plain_terms_are_words(query: str) -> None:
    assert parse(query).syntax == "pubmed"


@pytest.mark.parametrize(
    ("syntax", "query"),
    [
        ("auto", '"multiple myeloma"[tiab] OR MM patients[tiab]'),
        ("ovid", "(multiple myeloma or MM cell*).tw."),
        ("pubmed", "sunitinib OR SU 11248"),
        ("auto", '"lung cancer"[tiab] AND N2 disease*[tiab]'),
        ("ovid", "(neck cancer and N0 neck*).tw."),
        ("pubmed", '"lung cancer" N2 disease'),
        ("cochrane", "hernia:ti,ab,kw AND mesh:ti,ab,kw"),
        ("embase", "dog:ti,ab OR cat:ti,ab"),
        ("auto", "TARGETED NEXT GENERATION SEQUENCING AND CANCER"),
        ("auto", "albumin:creatinine ratio AND diabetes"),
        ("auto", 'asthma AND "2010/01/01":"2020/12/31"[dp]'),
        ("auto", 'asthma AND "2010":"2020"[dp]'),
        ("auto", "LA (appendage OR thrombus) AND stroke"),
        ("auto", "antithrombin OR AT(III)"),
        ("auto", "search filters AND return to work"),
        ("auto", "search query"),
        ("cochrane", "MeSH descriptor: [Language] explode all trees AND autism:ti,ab"),
    ],
)
def test_words_that_look_like_another_platforms_signs_are_words(syntax: SyntaxChoice, query: str) -> None:
    """Abbreviations, stages of cancer and ratios."""
    parsed = parse(query, syntax)
    assert parsed.syntax == ("pubmed" if syntax == "auto" else syntax)
    assert parsed.tree


COCHRANE_EXPORT = """Search Name: aspirin liver
Date Run: 04/05/2023 10:11:12
Comment: a draft
of two lines

ID{0}Search{0}Hits
#1{0}MeSH descriptor: [Aspirin] explode all trees{0}6000
#2{0}(a or b):ti (Word variations have been searched){0}15000
#3{0}#1 or #2{0}16000
#4{0}#3 with Publication Year from 2010 to 2022, in Trials{0}3
"""


@pytest.mark.parametrize("blank", ["\t", " ", "    "])
@pytest.mark.parametrize("syntax", ["auto", "cochrane"])
@pytest.mark.parametrize("has_heading", [True, False])
def test_history_that_the_cochrane_library_exports(blank: str, syntax: SyntaxChoice, has_heading: bool) -> None:
    """Name, date, comment, heads of columns and counts are no words, whatever separates the columns."""
    text = COCHRANE_EXPORT.format(blank)
    if not has_heading:
        text = text[text.index("#1") :]
    parsed = parse(text, syntax)
    assert parsed.syntax == "cochrane"
    assert parsed.tree == And((Or((Heading("Aspirin"), Or((A, B)))), Dates("2010", "2022")))
    assert all(parsed.text[line.start :].startswith(line.text) for line in parsed.lines)


def test_counts_of_the_cochrane_library_without_headings_of_mesh() -> None:
    """The heads of columns alone show whose history it is."""
    assert parse("ID\tSearch\tHits\n#1\ta:ti\t100\n#2\tb:ti\t9\n#3\t#1 and #2\t5").tree == And((A, B))


def test_a_heading_of_an_export_elsewhere_is_refused() -> None:
    """Lines of an export that belong to no history are an error."""
    for text in ("Date Run: 04/05/2023\nheart failure", "#1 a:ti\nID Search Hits\n#2 b:ti"):
        with pytest.raises(BooleanSyntaxError, match="export"):
            parse(text)


@pytest.mark.parametrize("syntax", ["auto", "cochrane"])
@pytest.mark.parametrize(
    ("limit", "years"),
    [
        (" in Trials", None),
        (" in Cochrane Reviews (Reviews and Protocols), Trials", None),
        (" with Publication Year from 2010 to 2022, in Trials", Dates("2010", "2022")),
        (" with Publication Year from 2010 to present, in Trials", Dates("2010", None)),
        (" from 2010 to 2020", Dates("2010", "2020")),
        (" from 2010 to 2020, in Trials", Dates("2010", "2020")),
    ],
)
def test_limits_of_the_cochrane_library(limit: str, years: Dates | None, syntax: SyntaxChoice) -> None:
    """A limit at the end of a line is no word, and shows the platform where only `:ti` is written beside it."""
    parsed = parse(f"#1 a:ti\n#2 b:ti\n#3 #1 or #2{limit}", syntax)
    assert parsed.syntax == "cochrane"
    assert parsed.tree == (And((Or((A, B)), years)) if years else Or((A, B)))


def test_words_that_look_like_a_limit_are_words() -> None:
    """Only behind a line's number, a field or a parenthesis does `in Trials` show the Cochrane Library."""
    assert parse("COVID-19 in Trials").syntax == "pubmed"


@pytest.mark.parametrize(
    "limit",
    ["with Cochrane Library publication date Between Jan 2010 and Dec 2020", "in Trials and b:ti", "with Publication Year in 2010"],
)
def test_other_limits_of_the_cochrane_library_are_refused(limit: str) -> None:
    """A limit that is not read is an error, and so is one under another platform's name."""
    with pytest.raises(BooleanSyntaxError, match="is not read"):
        parse(f"#1 a:ti\n#2 b:ti\n#3 #1 or #2 {limit}", "cochrane")
    with pytest.raises(BooleanSyntaxError, match="syntax of Cochrane Library"):
        parse("#1 a:ti\n#2 b:ti\n#3 #1 or #2 with Publication Year from 2010 to 2022", "embase")


def test_embase_dates_of_entry_are_open() -> None:
    """`[...]/sd` means added since; a range has two ends, and a date of publication stays one date."""
    since = Dates("2010/01/01", None, "entry")
    assert parse("a:ti AND [01-01-2010]/sd NOT [01-01-2022]/sd").tree == And((A, since, Not(Dates("2022/01/01", None, "entry"))))
    assert parse("a:ti AND [2010-2021]/sd").tree == And((A, Dates("2010", "2021", "entry")))
    assert parse("a:ti AND [01-01-2010]/pd").tree == And((A, Dates("2010/01/01", "2010/01/01")))


def test_history_that_embase_exports() -> None:
    """The last line first, with heads of columns, counts and dates of the run."""
    text = "No. Query Results Date\n#3. #1 AND #2  5  4 May 2023\n#2. 'b':ti  1,234  4 May 2023\n#1. 'a':ti  70  4 May 2023"
    assert parse(text).tree == And((A, B))


def test_button_behind_a_query_of_scopus() -> None:
    """`View Less` is left out, and `View More` shows a query that is not whole."""
    assert parse("TITLE(a)  View Less\n").tree == A
    with pytest.raises(BooleanSyntaxError, match="cut the query"):
        parse("TITLE(a) View more")


def test_a_doi_alone_shows_its_platform() -> None:
    """A DOI in parentheses behind its field is no pair of words."""
    for query, syntax in (("DOI(10.1000/x.y)", "scopus"), ("doi(10.1000/x.y)", "proquest")):
        parsed = parse(query)
        assert (parsed.syntax, parsed.tree) == (syntax, term("10.1000/x.y", Field.DOI))
