"""PubMed's syntax: the tree of each notation.

docs/reference/boolean.md has the table of cases that PubMed leaves open.
"""

from __future__ import annotations

import pytest

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import NAMES, format_fields, list_spellings, parse_tag
from outrider.boolean.field_values import QUALIFIERS
from outrider.boolean.parser import SyntaxChoice, detect_syntax, parse, uses_boolean_syntax
from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Dates, Everything, Field, Heading, Near, Node, Not, Or, Text, Words
from outrider.state.errors import BadRequest

TI = Field.TITLE
TIAB = (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS)


def term(text: str, *fields: Field) -> Text:
    return Text(Words(tuple(text.split())), fields or (Field.ALL,))


A, B, C = (term(word, Field.TITLE) for word in "abc")


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a[ti] OR b[ti] AND c[ti]", And((Or((A, B)), C))),
        ("a[ti] OR (b[ti] AND c[ti])", Or((A, And((B, C))))),
        ("a[ti] AND b[ti] NOT c[ti]", And((A, B, Not(C)))),
        ("a[ti] AND NOT b[ti]", And((A, Not(B)))),
        ("NOT a[ti]", Not(A)),
        ("NOT a[ti] OR b[ti]", Or((Not(A), B))),
        ("a[ti] OR NOT b[ti]", Or((A, Not(B)))),
        ("((((a[ti]))))", A),
        ("(a[ti])AND(b[ti])", And((A, B))),
        ("a[ti] and b[ti] or c[ti]", Or((And((A, B)), C))),
        ("a[ti] b[ti]", And((A, B))),
        ("(a OR b)[ti]", Or((A, B))),
        ("(a OR b[ab])[ti]", Or((A, term("b", Field.ABSTRACT)))),
    ],
)
def test_operators_from_left_to_right(query: str, tree: object) -> None:
    assert parse(query).tree == tree


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ('"heart failure"[tiab]', term("heart failure", *TIAB)),
        ("heart failure[tiab]", term("heart failure", *TIAB)),
        ("“heart failure“ [Title/Abstract]", term("heart failure", *TIAB)),
        ("hepat*[ti]", term("hepat*", Field.TITLE)),
        ('"hepat* drug"[ti]', term("hepat* drug", Field.TITLE)),
        ("COVID-19[nm]", term("COVID-19", Field.SUBSTANCE)),
        ("heart failure", And((term("heart"), term("failure")))),
        ('"heart failure"', term("heart failure")),
        ("a, b, c[ti]", term("a, b, c", Field.TITLE)),
        ("Neoplasms[mh]", Heading("Neoplasms")),
        ('"Masks/adverse effects"[MAJR]', Heading("Masks", "adverse effects", major=True)),
        ("Neoplasms[MeSH Terms:noexp]", Heading("Neoplasms", explode=False)),
        ('"drug therapy"[sh]', Heading("", "drug therapy")),
        ("Smith JA[au]", term("Smith JA", Field.AUTHOR)),
        ('"Cochrane Database Syst Rev"[jour]', term("Cochrane Database Syst Rev", Field.JOURNAL)),
        ("2019[dp]", Dates("2019", "2019")),
        ("2019:2021[dp]", Dates("2019", "2021")),
        ("2019/3 : 2019/12/31[pdat]", Dates("2019/03", "2019/12/31")),
        ('"2019/01/01"[Date - Publication] : "3000"[Date - Publication]', Dates("2019/01/01", None)),
        ('"2019/01/01"[dp]:"2020"[dp]', Dates("2019/01/01", "2020")),
        ("2015/02/24[edat]", Dates("2015/02/24", "2015/02/24", "entry")),
        ("all[sb]", Everything()),
        ("medline[sb]", term("medline", Field.SUBSET)),
        ('"hip pain"[Title/Abstract:~2]', Text(Near((Words(("hip",)), Words(("pain",))), 2), TIAB)),
        ("drug addiction methadone[ti:~3]", Text(Near(tuple(Words((word,)) for word in ("drug", "addiction", "methadone")), 3), (TI,))),
        ("10.1000/xyz[doi]", term("10.1000/xyz", Field.DOI)),
        ("english[la]", term("english", Field.LANGUAGE)),
    ],
)  # fmt: skip
def test_terms(query: str, tree: object) -> None:
    read = parse(query).tree
    assert read == tree
    assert parse(format_tree(read)).tree == read


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ('"heart failure[tiab] OR b[ti]', Or((term("heart failure", *TIAB), B))),
        ('heart failure"[tiab] OR "b"[ti]', Or((term("heart failure", *TIAB), B))),
        ('"heart failure AND b[ti]', And((term("heart failure"), B))),
        ('("heart failure) AND b[ti]', And((term("heart failure"), B))),
        ('a[ti] OR "b[ti] OR "c"[ti]', Or((A, B, C))),
        ('heart failure" OR "b"[ti]', Or((And((term("heart"), term("failure"))), B))),
    ],
)
def test_an_unbalanced_quotation_is_repaired_and_reported(query: str, tree: object) -> None:
    read = parse(query)
    assert read.tree == tree
    assert [remark.code for remark in read.warnings if remark.code == "quotes"] == ["quotes"]


def test_a_whole_quotation_is_never_taken_for_a_broken_one() -> None:
    """Operators and brackets inside it are words."""
    read = parse('"head and neck"[ti] OR "a OR b"[ti] AND "[corrected] text"[ti]')
    assert "quotes" not in {remark.code for remark in read.warnings}
    assert read.tree == And((Or((term("head and neck", Field.TITLE), term("a OR b", Field.TITLE))), term("corrected text", Field.TITLE)))


def test_every_name_of_a_field_reads_back() -> None:
    assert set(NAMES) >= {(field,) for field in Field}
    for fields in (*NAMES, (Field.TITLE, Field.ABSTRACT), (Field.MESH, Field.ALL)):
        tag = parse_tag(format_fields(fields))
        assert tag is not None
        assert tag.fields == fields
    assert all(parse_tag(spelling.upper()) for spelling in list_spellings())


def test_a_mapping_of_fields_to_texts() -> None:
    """All of its fields hold; a field that is named inside a text counts there."""
    read = parse({"title": "aspirin OR ibuprofen", "mesh": "Hepatotoxicity", "dp": "2019:2021", "ab": "a[ti] NOT b"})
    assert read.tree == And((
        Or((term("aspirin", Field.TITLE), term("ibuprofen", Field.TITLE))), Heading("Hepatotoxicity"), Dates("2019", "2021"),
        And((A, Not(term("b", Field.ABSTRACT)))),
    ))  # fmt: skip
    assert parse({"title": "gene drive"}).tree == term("gene drive", Field.TITLE)


def test_a_mapping_does_not_take_the_syntax_of_another_platform_as_words() -> None:
    with pytest.raises(BooleanSyntaxError, match="syntax of Web of Science") as error:
        parse({"title": "aspirin", "ab": "TS=(ibuprofen)"})
    assert (error.value.line, error.value.column) == (2, 1)


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("asthma PRE/3 mite", 8),
        ("asthma NEXT mite", 8),
        ("asthma SAME mite", 8),
        ("asthma BUT NOT mite", 8),
        ("title:asthma", 1),
        ("asthma AND title:(mite)", 12),
        ("mesh(asthma)", 1),
        ("asthma AND KW=mite", 12),
        ('"asthma mite"~3', 14),
        ("{heart attack}", 1),
        ("1 AND 2", 1),
        ("(1 or 2) not 3", 1),
    ],
)
def test_signs_of_other_syntax_are_not_taken_as_words(query: str, column: int) -> None:
    """Unless the caller says that it is a PubMed query."""
    with pytest.raises(BooleanSyntaxError) as error:
        parse(query)
    assert error.value.column == column
    assert parse(query, "pubmed").syntax == "pubmed"


@pytest.mark.parametrize(
    "query", ["THE SAME DRUG", "Risk (OR=2.5) AND p=0.05", "Keywords: asthma", "{*3}a[ti]", "2019 OR 2020", "1[ti] AND 2[ti]"]
)
def test_words_that_look_like_other_syntax_are_words(query: str) -> None:
    assert parse(query).syntax == "pubmed"


def test_lines_without_numbers_are_a_history_if_the_last_one_combines_them() -> None:
    assert parse("heart[ti]\nmite[ti]\n1 AND 2").tree == parse("heart[ti] AND mite[ti]").tree
    with pytest.raises(BooleanSyntaxError, match="number the lines") as error:
        parse("a[ti]\nb[ti]\n1 OR 2\nNOT x[ti]")
    assert (error.value.line, error.value.column) == (4, 1)


def test_a_quotation_that_ends_with_an_operator_lacks_its_mark() -> None:
    read = parse('"information synthesi* OR "synthesis writ*"')
    assert format_tree(read.tree) == '"information synthesi*"[All Fields] OR "synthesis writ*"[All Fields]'
    assert "quotes" in {finding.code for finding in read.warnings}
    assert format_tree(parse('"Portland, OR"[ad]').tree) == '"Portland, OR"[Affiliation]'


def test_the_label_of_a_query_is_no_word() -> None:
    assert parse("Search: aspirin[ti]").tree == term("aspirin", Field.TITLE)


@pytest.mark.parametrize(
    "query",
    ["Search: aspirin[ti] Sort by: Most Recent", "2 Search: #1 Sort by: Journal\t12\n1 Search: aspirin[ti] Sort by: Most Recent\t12"],
)
def test_the_order_of_results_is_no_word(query: str) -> None:
    """PubMed's history writes it behind each query."""
    read = parse(query)
    assert (read.tree, read.warnings) == (term("aspirin", Field.TITLE), ())


@pytest.mark.parametrize("syntax", ["auto", "pubmed"])
def test_filters_behind_a_query_are_refused(syntax: SyntaxChoice) -> None:
    with pytest.raises(BooleanSyntaxError, match="filters that PubMed lists") as error:
        parse("Search: aspirin[ti] Filters: Review, English Sort by: Most Recent", syntax)
    assert error.value.column == 21
    assert parse('"Filters: Review"[ti] OR filters[ti]', syntax).warnings == ()


@pytest.mark.parametrize("query", [{}, {"titel": "a"}, {"title": 3}, {3: "a"}, 7, None, ["a"]])
def test_what_is_no_query_is_refused(query: object) -> None:
    with pytest.raises(BadRequest):
        parse(query)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "syntax"),
    [
        ("a AND b", "pubmed"),
        ("a[ti]", "pubmed"),
        ("a.ti,ab.", "ovid"),
        ("exp Liver/", "ovid"),
        ("heart adj3 failure", "ovid"),
        ("a.mp.\nb.mp.\nor/1-2 [any of them]", "ovid"),
        ('("a" ADJ3 "b")[Title]', "pubmed"),
        ('"x adj3 y.ti."[ti]', "pubmed"),
    ],
)
def test_the_syntax_is_seen(query: str, syntax: str) -> None:
    assert detect_syntax(query) == syntax
    assert parse(query).syntax == syntax


@pytest.mark.parametrize(
    "query",
    [
        "a AND b",
        "a [ tiab ]",
        "a[ti:~3]",
        "a[mh:noexp]",
        "2020[Date-Publication]",
        "bell a[1au]",
        "a.ti.",
        "a.in,ti.",
        "exp Liver/",
        "a.af.",
    ],
)
def test_signs_of_boolean_syntax(query: str) -> None:
    assert uses_boolean_syntax(query)


@pytest.mark.parametrize("query", ["a and b", '(a) "b" c*', "a[0] list[int]", "cat.no. 5", "a [full text]", "his/ her", "ANDERSON", "a.ti"])
def test_plain_text_has_no_boolean_syntax(query: str) -> None:
    assert not uses_boolean_syntax(query)


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a[ti] | b[ti]", Or((A, B))),
        ("a[ti]|b[ti]", Or((A, B))),
        ("a[ti] || b[ti]", Or((A, B))),
        ("a[ti] & b[ti]", And((A, B))),
        ("a[ti]&&b[ti]", And((A, B))),
        ("(a[ti])&b[ti]", And((A, B))),
        ("a[ti] && (b[ti] || c[ti])", And((A, Or((B, C))))),
        ("R&D[ti]", term("R&D", TI)),
        ("prevention & control[sh]", Heading("", "prevention & control")),
        ("Liver/statistics & numerical data[mh]", Heading("Liver", "statistics & numerical data")),
        ("direction*OR (a[ti] AND b[ti])", Or((term("direction*"), And((A, B))))),
    ],
)
def test_signs_for_operators(query: str, tree: Node) -> None:
    """PubMed reads `&` as AND and `|` as OR; a `&` inside a word or a qualifier's name is neither."""
    assert parse(query, "pubmed").tree == tree


@pytest.mark.parametrize(
    "query",
    [
        "1. a[ti]\n2. b[ti]\n3. #1 OR #2",
        "#1 a[ti]\n#2 b[ti]\n#3 #1 OR #2",
        "1 a[ti]\n2 b[ti]\n3 1 OR 2",
        "1) a[ti] (1,234)\n2) b[ti] (56)\n3) (#1 OR #2) (78)",
        "#3\t#1 OR #2\t78\n#2\tb[ti]\t56\n#1\ta[ti]\t1,234",
        "a[ti]\nb[ti]\n#1 OR #2",
        "1. a[ti]\n\n2. b[ti]\n3. #1\n   OR #2",
        "1: a[ti]\r\n2: b[ti]\r\n3: #1 | #2",
        "1.\na[ti]\n2.\nb[ti]\n3.\n#1 OR #2",
        "1\na[ti]\n2\nb[ti]\n3\n1 OR 2",
        "#1 Search a[ti]\n#2 Search b[ti]\n#3 Search #1 OR #2",
    ],
)
def test_a_history_is_read_in_every_notation(query: str) -> None:
    read = parse(query)
    assert read.syntax == "pubmed"
    assert read.tree == Or((A, B))
    assert [line.tree for line in read.lines][:2] == [A, B]


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("#1 OR #2", 1, 1, "there is no line 1 before this one: this query has one line"),
        ("a[ti] AND #3", 1, 11, "there is no line 3"),
        ("1. a[ti]\n2. b[ti]\n3. #1 OR #4", 3, 10, "there is no line 4"),
        ("1. a[ti]\n2. #2", 2, 4, "there is no line 2"),
        ("1. a[ti]\n2. b[tiabs]", 2, 6, "no field tag"),
        ("a[ti]\nB.\nc[ti]", 2, 1, "labels of lines"),
        ("1a\na[ti]\nTitle of a part\n1b\nb[ti]\n2. 1a and 1b", 3, 1, "no label and does not continue line 1a"),
        ("1. a[ti]\n# a comment\n2. b[ti]\n3. #1 AND #2", 2, 1, "comments are not read"),
        ('"hypoalgesi"* OR a[ti]', 1, 13, "truncation sign"),
        ("midsummer * dream", 1, 11, "truncation sign"),
    ],
)
def test_a_reference_without_its_line_is_an_error(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query)
    assert (error.value.line, error.value.column) == (line, column)


def test_a_history_reports_unused_lines_and_a_query_over_several_lines_is_no_history() -> None:
    read = parse("1. a[ti]\n2. b[ti]\n3. c[ti]\n4. #1 AND #3")
    assert read.tree == And((A, C))
    assert [(remark.code, remark.line) for remark in read.warnings] == [("unused line", 2)]
    assert parse("a[ti] OR\nb[ti]\nOR c[ti]").lines == ()
    assert parse("(a[ti]\nOR b[ti])").tree == Or((A, B))


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("humans[Filter]", Heading("Humans")),
        ("humans[sb]", Heading("Humans")),
        ("english[Filter]", term("english", Field.LANGUAGE)),
        ("review[Filter]", term("review", Field.PUBLICATION_TYPE)),
        ("randomizedcontrolledtrial[Filter]", term("randomized controlled trial", Field.PUBLICATION_TYPE)),
        ('"randomized controlled trial"[Filter]', term("randomized controlled trial", Field.PUBLICATION_TYPE)),
        ("meta-analysis[Filter]", term("Meta-Analysis", Field.PUBLICATION_TYPE)),
        ("systematic[sb]", term("Systematic Review", Field.PUBLICATION_TYPE)),
        ("female[Filter]", Heading("Female")),
        ("alladult[Filter]", Heading("Adult")),
        ("medline[sb]", term("medline", Field.SUBSET)),
        ("all[sb]", Everything()),
    ],
)
def test_filters_are_conditions_on_records(query: str, tree: Node) -> None:
    read = parse(query, "pubmed").tree
    assert read == tree
    assert parse(format_tree(read)).tree == read


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("a[ti] AND hasabstract", "filter “hasabstract” is not supported"),
        ("a[ti] AND hasabstract[text]", "filter “hasabstract” is not supported"),
        ("free full text[Filter]", "depends on links"),
        ("humens[Filter]", "no filter or subset of PubMed that is known here; did you mean 'human"),
        ('"a b"[tiab:~0.5]', "whole number of words"),
        ('"a b"[tiab:~-1]', "whole number of words"),
        ("Liver/zz[mh]", "“zz” is no MeSH qualifier"),
        ("Liver/surgry[mh]", "did you mean 'surgery'"),
        ("humans[sh]", "no MeSH qualifier"),
        ('"Liver"[mh]/su', "a qualifier belongs into it"),
        ('"Liver"/surgery[mh]', "a qualifier belongs into it"),
    ],
)
def test_what_records_cannot_tell_is_refused(query: str, message: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=message):
        parse(query, "pubmed")


def test_every_qualifier_by_its_code_and_by_its_name() -> None:
    """NLM's table: 76 qualifiers of today and eight former ones."""
    assert len(QUALIFIERS) == 84
    assert (QUALIFIERS["ra"], QUALIFIERS["re"], QUALIFIERS["ri"]) == ("radiography", "radiation effects", "radionuclide imaging")
    for code, name in QUALIFIERS.items():
        for text in (code, code.upper()):
            assert parse(f"Liver/{text}[mh]").tree == Heading("Liver", name)
            assert parse(f"Liver/{text.lower()}", "ovid").tree == Heading("Liver", name, explode=False)
            assert parse(f"{text}[sh]").tree == Heading("", name)
        assert parse(f'"{name}"[sh]').tree == Heading("", name)
        assert parse(f'"{name.replace("&", "and").title()}"[sh]').tree == Heading("", name)
    assert [remark.code for remark in parse("Liver/us[majr:noexp]").warnings] == ["major topic", "not in a library"]
    assert parse("drug*[sh]").tree == Heading("", "drug*")
    assert parse("pathophysiology[sh:noexp]").tree == Heading("", "physiopathology")


def test_punctuation_behind_a_term_is_ignored_with_a_remark() -> None:
    read = parse("a[ti] NOT (b[ti] AND c[ti]/)")
    assert read.tree == And((A, Not(And((B, C)))))
    assert [remark.code for remark in read.warnings] == ["unsupported"]


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("1a\na[ti]\n1b\nb[ti]\n1a OR 1b", "a[ti] OR b[ti]"),
        ("1 Index test\n1a\na[ti]\n2 Population\n2a\nb[ti]\n3 1a and 2a", "a[ti] AND b[ti]"),
        ("A. a[ti]\nB. Population: adults, children\nb[ti] OR\n  c[ti]\nFinal search: A and B", "a[ti] AND (b[ti] OR c[ti])"),
        ("1a\na[ti]\n1b\nb[ti]\nSearches (combined)\nA. 1a and 1b", "a[ti] AND b[ti]"),
        ("vitamin A OR B", "vitamin A OR B"),
    ],
)
def test_lines_are_referred_to_by_their_labels(query: str, same: str) -> None:
    assert format_tree(parse(query).tree) == format_tree(parse(same, "pubmed").tree)


COLUMNS = "Search number,Query,Sort By,Filters,Search Details,Results,Time"
DOWNLOADED = f'''{COLUMNS}
7,"#3 NOT #5",Most Recent,,"((""asthma""[Title/Abstract]) NOT (""rats""[MeSH Terms]))",12,10:02:11
5,rats[mh],,,"""rats""[MeSH Terms]","1,234",10:01:40
3,"""house dust""[ti] OR mites[ti]",,,"a, b","98,765",10:01:05
'''
SHOWN = """Search\tActions\tDetails\tQuery\tResults\tTime
#7\t...\t>\tSearch: #3 NOT #5\t12\t10:02:11
#5\t...\t>\tSearch: rats[mh] Sort by: Most Recent\t1,234\t10:01:40
#3\t...\t>\tSearch: "house dust"[ti] OR mites[ti]\t98,765\t10:01:05
"""
OLD = '#7\tSearch (#3 NOT #5)\t12\t10:02:11\n#5\tSearch rats[mh]\t1234\t10:01:40\n#3\tSearch "house dust"[ti] OR mites[ti]\t98765\t10:01:05'
MITES = And((Or((term("house dust", Field.TITLE), term("mites", Field.TITLE))), Not(Heading("rats"))))


@pytest.mark.parametrize(
    "history",
    [
        DOWNLOADED,
        "\n".join([COLUMNS, *DOWNLOADED.splitlines()[:0:-1]]),
        DOWNLOADED.replace("\n", "\r\n"),
        "\ufeff" + DOWNLOADED,
        SHOWN,
        SHOWN.replace("\t...\t>\t", " ").replace("\t", " "),
        "Search\tQuery\tItems found\tTime\n" + OLD,
        OLD,
        OLD.replace("\t", "   "),
    ],
)
def test_a_history_of_pubmed_with_its_columns(history: str) -> None:
    """As downloaded and as copied from its page; some lines were deleted, counts and times are no words."""
    read = parse(history)
    assert read.tree == MITES
    assert [line.number for line in read.lines] == [3, 5, 7]


def test_the_columns_of_pubmed_keep_the_places_of_errors_and_refuse_filters() -> None:
    with pytest.raises(BooleanSyntaxError, match=r"\[mhh\] is no field tag") as error:
        parse(DOWNLOADED.replace("[mh]", "[mhh]"))
    assert (error.value.line, error.value.column) == (3, 8)
    with pytest.raises(BooleanSyntaxError, match="filters that PubMed lists beside a query") as error:
        parse(DOWNLOADED.replace("rats[mh],,,", 'rats[mh],,"Review, English",'))
    assert (error.value.line, error.value.column) == (3, 13)
    assert parse(f'{COLUMNS}\n1,"""asthma""[ti]",,,"x",12,10:02:11').tree == term("asthma", Field.TITLE)
    assert parse("asthma query, time[ti]").tree == term("asthma query, time", Field.TITLE)
