"""Ovid's syntax: lines, references, fields after terms, adj, truncation, headings, limits."""

from __future__ import annotations

import pytest

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Dates, Either, Field, Heading, Near, Not, Or, Text, Words

TI, AB = Field.TITLE, Field.ABSTRACT
TW = (TI, AB)
MP = (TI, AB, Field.KEYWORDS, Field.MESH)


def term(text: str, *fields: Field) -> Text:
    return Text(Words(tuple(text.split())), fields)


def words(text: str) -> Words:
    return Words(tuple(text.split()))


A, B, C = (term(word, TI) for word in "abc")


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a.ti.", A),
        ("a.ti", A),
        ("a .ti.", A),
        ("(a or b).ti.", Or((A, B))),
        ("heart failure.tw.", term("heart failure", *TW)),
        ("heart failure.ti,ab,kf.", term("heart failure", TI, AB, Field.KEYWORDS)),
        ('"mini-Cog".ti,ab.', term("mini-Cog", *TW)),
        ("imaging.mp.", term("imaging", *MP)),
        ("imaging", term("imaging", *MP)),
        ("dermat$.ti.", term("dermat*", TI)),
        ("dermat:.ti.", term("dermat*", TI)),
        ("hepat$3.ti.", term("hepat{*3}", TI)),
        ("wom#n.ti.", term("wom{#}n", TI)),
        ("tumo?r?.ti.", term("tumo{?}r{?}", TI)),
        ("isch?emi*.ti.", term("isch{?}emi*", TI)),
        ("type 2.ti.", term("type 2", TI)),
        ("exp Liver/", Heading("Liver")),
        ("Liver/", Heading("Liver", explode=False)),
        ("*Liver/", Heading("Liver", explode=False, major=True)),
        ("exp *Liver Neoplasms/", Heading("Liver Neoplasms", major=True)),
        ("exp Tomography, X-Ray/", Heading("Tomography, X-Ray")),
        ('"Severity of Illness Index"/', Heading("Severity of Illness Index", explode=False)),
        ('exp "Wounds and Injuries"/', Heading("Wounds and Injuries")),
        ("Liver/su", Heading("Liver", "surgery", explode=False)),
        ("exp Liver/su, tr", Or((Heading("Liver", "surgery"), Heading("Liver", "transplantation")))),
        ("exp animals/ not humans/", And((Heading("animals"), Not(Heading("humans", explode=False))))),
        ("humans.sh.", Heading("humans", explode=False)),
        ("drug therapy.fs.", Heading("", "drug therapy")),
        ("liver.ti,sh.", Or((term("liver", TI), Heading("liver", explode=False)))),
        ("letter.pt.", term("letter", Field.PUBLICATION_TYPE)),
        ("smith j.au.", term("smith j", Field.AUTHOR)),
        ("2019.yr.", Dates("2019", "2019")),
        ("a.ti. AND b.ti. or c.ti.", Or((And((A, B)), C))),
    ],
)
def test_a_line(query: str, tree: object) -> None:
    read = parse(query, "ovid").tree
    assert read == tree
    assert parse(format_tree(read)).tree == read


@pytest.mark.parametrize(
    ("query", "pattern"),
    [
        ("(a adj b).ti.", Near((words("a"), words("b")), 0, ordered=True)),
        ("(a adj1 b).ti.", Near((words("a"), words("b")), 0)),
        ("(a adj3 b).ti.", Near((words("a"), words("b")), 2)),
        ("a adj3 b.ti.", Near((words("a"), words("b")), 2)),
        ("(heart failure adj3 (drug* or diet)).ti.", Near((words("heart failure"), Either((words("drug*"), words("diet")))), 2)),
        ("(a adj2 b adj3 c).ti.", Near((Near((words("a"), words("b")), 1), words("c")), 2)),
        ("((a or (b adj2 c)) adj3 d).ti.", Near((Either((words("a"), Near((words("b"), words("c")), 1))), words("d")), 2)),
        ('("head and neck" adj3 a).ti.', Near((words("head and neck"), words("a")), 2)),
    ],
)
def test_proximity(query: str, pattern: Near) -> None:
    read = parse(query, "ovid").tree
    assert read == Text(pattern, (TI,))
    assert parse(format_tree(read)).tree == read


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a.ti.\nb.ti.\n1 and 2", And((A, B))),
        ("a.ti.\n\n  b.ti. [a remark: or/1-9]\n(1 OR 2)", Or((A, B))),
        ("1. a.ti.\n2. b.ti.\n3. c.ti.\n4. or/1-3", Or((A, B, C))),
        ("1 a.ti. (1,234)\n2 b.ti. (56)\n3 and/1-2 (7)", And((A, B))),
        ("#1 a.ti.\n#2 b.ti.\n#3 #1 not #2", And((A, Not(B)))),
        ("1. a.ti. or\n   b.ti.\n2. c.ti.\n3. 1 and 2", And((Or((A, B)), C))),
        ("a.ti.\nb.ti.\nc.ti.\nor/1,3", Or((A, C))),
        ("a.ti.\nb.ti.\n1-2/or", Or((A, B))),
        ("a.ti.\n1 and (b.ti. or c.ti.)", And((A, Or((B, C))))),
        ("a.ti.\nremove duplicates from 1", A),
        ("a.ti.\nlimit 1 to ED=19460101-20150224", And((A, Dates("1946/01/01", "2015/02/24", "entry")))),
        ('a.ti.\nlimit 1 to ed ="19480101-20170630"', And((A, Dates("1948/01/01", "2017/06/30", "entry")))),
        ('a.ti.\nlimit 1 to (english language and humans and yr="2000 -Current")',
         And((A, term("english", Field.LANGUAGE), Heading("humans", explode=False), Dates("2000", None)))),
        ("1 alpha hydroxylase.ti.\nb.ti.\n1 or 2", Or((term("1 alpha hydroxylase", TI), B))),
    ],
)  # fmt: skip
def test_lines_refer_to_lines(query: str, tree: object) -> None:
    read = parse(query, "ovid").tree
    assert read == tree
    assert parse(format_tree(read)).tree == read


def test_a_history_keeps_its_lines_and_reports_unused_ones() -> None:
    read = parse("a.ti.\nb.ti.\nc.ti.\n1 and 3", "ovid")
    assert [(line.number, line.text, line.tree) for line in read.lines] == [
        (1, "a.ti.", A),
        (2, "b.ti.", B),
        (3, "c.ti.", C),
        (4, "1 and 3", And((A, C))),
    ]
    (remark,) = read.warnings
    assert (remark.code, remark.line, remark.column) == ("unused line", 2, 1)


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("a.ti.\n1 and 7", 2, 7, "there is no line 7"),
        ("a.ti.\nor/1-7", 2, 1, "the range ends at line 7"),
        ("1 and 2", 1, 1, "there is no line 1"),
        ("(a and b) adj3 c", 1, 4, "OR only"),
        ("exp Liver/ adj3 a", 1, 1, "only words"),
        ("a.ti.\nlimit 1 to abstracts", 2, 12, "limit “abstracts” is not supported"),
        ("exp Liver", 1, 10, "slash"),
        ("liver.zz.", 1, 6, "no field"),
        ('a.ti.\n"b.ti.', 2, 1, "never closed"),
        ("a adj5000 b", 1, 3, "from 1 to 1,000"),
        ("smith.au. adj3 jones.au.", 1, 1, "no running text"),
        ("(a.ti. adj3 b.ab.)", 1, 14, "same fields"),
        ("old ppez (a", 1, 10, "never closed"),
    ],
)
def test_what_is_refused(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query, "ovid")
    assert (error.value.line, error.value.column) == (line, column)


def test_lines_that_double_each_other_are_refused_before_they_fill_the_memory() -> None:
    """Forty lines may stand for a million million terms."""
    query = "a.ti.\n" + "\n".join(f"{number} or {number}" for number in range(1, 41))
    with pytest.raises(BooleanSyntaxError, match="expand to"):
        parse(query, "ovid")


def test_lines_that_nest_too_deeply_are_refused() -> None:
    query = "a.ti.\n" + "\n".join(f"{number} {'or' if number % 2 else 'and'} b.ti." for number in range(1, 400))
    with pytest.raises(BooleanSyntaxError, match="deep"):
        parse(query, "ovid")


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("a.ti. or b.ti. and c.ti.", Or((A, And((B, C))))),
        ("a.ti. and b.ti. or c.ti.", Or((And((A, B)), C))),
        ("a.ti. or b.ti. not c.ti.", Or((A, And((B, Not(C)))))),
        ("a.ti. not b.ti. and c.ti.", And((A, Not(And((B, C)))))),
        ("a.ti. and b.ti. not c.ti.", And((A, B, Not(C)))),
        ("(a.ti. or b.ti.) and c.ti.", And((Or((A, B)), C))),
        ("a.ti. or b.ti. adj2 d.ti. and c.ti.", Or((A, And((Text(Near((words("b"), words("d")), 1), (TI,)), C))))),
    ],
)
def test_and_before_not_before_or(query: str, tree: object) -> None:
    """Clinical Information Access Portal, NSW Health, on Ovid: "AND is processed before NOT or OR. OR is processed last."."""
    read = parse(query, "ovid")
    assert read.tree == tree
    assert parse(format_tree(read.tree)).tree == read.tree


@pytest.mark.parametrize(("query", "is_remarked"), [("a.ti. or b.ti. and c.ti.", True), ("a.ti. not b.ti. and c.ti.", True),
                                                    ("a.ti. and b.ti. not c.ti.", False), ("a.ti. or b.ti.", False)])  # fmt: skip
def test_an_order_that_parentheses_would_show_is_remarked(query: str, is_remarked: bool) -> None:
    assert ("mixed operators" in {remark.code for remark in parse(query, "ovid").warnings}) is is_remarked


TYPE = Field.PUBLICATION_TYPE


@pytest.mark.parametrize(
    ("limit", "nodes"),
    [
        ("(english or german)", (Or((term("english", Field.LANGUAGE), term("german", Field.LANGUAGE))),)),
        ("english", (term("english", Field.LANGUAGE),)),
        ("animals", (Heading("animals", explode=False),)),
        ("randomized controlled trial", (term("randomized controlled trial", TYPE),)),
        ('"review articles"', (term("review", TYPE),)),
        ("(letter or editorial)", (Or((term("letter", TYPE), term("editorial", TYPE))),)),
        ('"all adult (19 plus years)"', (Heading("Adult"),)),
        ('"newborn infant (birth to 1 month)"', (Heading("Infant, Newborn"),)),
        ("(humans and female)", (Heading("humans", explode=False), Heading("female", explode=False))),
        ('yr="2000 - 2010"', (Dates("2000", "2010"),)),
        ("dt=20100101-20101231", (Dates("2010/01/01", "2010/12/31", "entry"),)),
        ("((humans) and (english))", (Heading("humans", explode=False), term("english", Field.LANGUAGE))),
    ],
)
def test_limits(limit: str, nodes: tuple[object, ...]) -> None:
    read = parse(f"a.ti.\nlimit 1 to {limit}", "ovid").tree
    assert read == And((A, *nodes))  # type: ignore[arg-type]
    assert parse(format_tree(read)).tree == read


def test_a_limit_to_all_clinical_trials_names_their_types() -> None:
    read = parse("a.ti.\nlimit 1 to clinical trial/all", "ovid").tree
    assert isinstance(read, And)
    assert isinstance(read.parts[1], Or)
    assert term("Randomized Controlled Trial", TYPE) in read.parts[1].parts
    assert len(read.parts[1].parts) == 10


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("2012*.ed.", Dates("2012", "2012", "entry")),
        ("(2012* or 2013*).ed.", Or((Dates("2012", "2012", "entry"), Dates("2013", "2013", "entry")))),
        ("201206*.dt.", Dates("2012/06", "2012/06", "entry")),
        ("20120630.da.", Dates("2012/06/30", "2012/06/30", "entry")),
        ("201*.yr.", Dates("2010", "2019")),
        ("2012$.ed.", Dates("2012", "2012", "entry")),
        ("dt.fs.", Heading("", "drug therapy")),
        ("exp Liver/prevention & control", Heading("Liver", "prevention & control")),
        ("(mg/kg or mg/dl).ti.", Or((term("mg/kg", TI), term("mg/dl", TI)))),
        ("(phase I/II or phase III).ti.", Or((term("phase I/II", TI), term("phase III", TI)))),
    ],
)
def test_dates_and_qualifiers(query: str, tree: object) -> None:
    assert parse(query, "ovid").tree == tree


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("exp Liver/zz", 1, 11, "“zz” is no MeSH qualifier"),
        ("Liver/su, qq", 1, 7, "“qq” is no MeSH qualifier"),
        ("*Liver/surgry", 1, 8, "“surgry” is no MeSH qualifier"),
        ("exp Liver/surgry", 1, 17, "slash"),
        ("comment in.cm.", 1, 11, "comments on other works"),
        ('a.ti.\nlimit 1 to "qualitative (maximizes sensitivity)"', 2, 12, "is not supported"),
        ("a.ti.\nlimit 1 to (english or klingon)", 2, 24, "limit “klingon” is not supported"),
        ("a.ti.\nlimit 1 to last 5 years", 2, 12, "is not supported"),
        (f"a.ti.\nlimit 1 to {'(' * 5_000}english{')' * 5_000}", 2, 12, "parentheses"),
    ],
)
def test_unknown_qualifiers_limits_and_fields_are_refused(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query, "ovid")
    assert (error.value.line, error.value.column) == (line, column)


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("1.\na.ti.\n2.\nb.ti.\n3.\n1 and 2", And((A, B))),
        ("1\na.ti.\n2\nb.ti.\n3\n1 and 2", And((A, B))),
        ("1. a.ti.\n2. (2019 or\n2020).ti.\n3. 1 and 2", And((A, Or((term("2019", TI), term("2020", TI)))))),
        ("(a.ti. or\nb.ti.)\nand c.ti.", And((Or((A, B)), C))),
        ("a.ti.or b.ti.OR c.ti.", Or((A, B, C))),
        ("a.ti.ab.", term("a", TI, AB)),
        ("(a or b).ti,ab,", Or((term("a", TI, AB), term("b", TI, AB)))),
        ("(201107* or 2012*).ed,dt.", Or((Dates("2011/07", "2011/07", "entry"), Dates("2012", "2012", "entry")))),
        ("di.xs. or tu.fs.", Or((Heading("", "diagnosis"), Heading("", "therapeutic use")))),
        ("?estrogen*.ti.", term("{?}estrogen*", TI)),
        ("kinase inhibitors.pa.", term("kinase inhibitors", Field.PHARMACOLOGICAL_ACTION)),
    ],
)
def test_notations_of_published_strategies(query: str, tree: object) -> None:
    read = parse(query, "ovid").tree
    assert read == tree
    assert parse(format_tree(read)).tree == read


def test_a_comment_that_is_a_field_tag_of_pubmed_is_remarked() -> None:
    assert [remark.code for remark in parse("liver.ti. or kidney [tiab]", "ovid").warnings] == ["mapped by PubMed", "unsupported"]
    with pytest.raises(BooleanSyntaxError, match=r"“\[tiab\]” is syntax of PubMed, and the rest of the query is read as Ovid's"):
        parse("liver.ti. or kidney[tiab]", "ovid")


def test_a_field_after_a_parenthesis_does_not_apply_to_lines_and_headings() -> None:
    """Each has its own field; the remark counts them."""
    read = parse("1. a.ti.\n2. (1 or Liver/ or b).ab.")
    assert format_tree(read.tree) == '"a"[Title] OR "Liver"[MeSH Terms:noexp] OR "b"[Abstract]'
    assert [(finding.line, finding.column, finding.times) for finding in read.warnings if "does not apply" in finding.message] == [
        (2, 5, 2)
    ]


def test_a_limit_inside_a_line_is_not_taken_as_words() -> None:
    with pytest.raises(BooleanSyntaxError, match="a limit is a line of its own") as error:
        parse("1. asthma.ti.\n2. mite.ti. and limit 1 to english")
    assert (error.value.line, error.value.column) == (2, 17)


def test_a_heading_with_a_qualifier_is_a_sign_of_ovid() -> None:
    assert format_tree(parse("Asthma/dt").tree) == '"Asthma/drug therapy"[MeSH Terms:noexp]'


def test_a_range_beyond_the_last_line_says_what_would_pass() -> None:
    """As in CLEF's CD012930."""
    with pytest.raises(BooleanSyntaxError, match="expected or/1-2") as error:
        parse("1. a.ti.\n2. b.ti.\n3. or/1-77")
    assert (error.value.line, error.value.column) == (3, 4)


def test_notes_in_brackets_are_comments() -> None:
    """As in CLEF's CD012069 and CD012930."""
    lines = [
        "1. a.ti.",
        "2. 1 [Block A]",
        '3. exp "clinical trial [publication type]"/',
        "4. a/ae, po [Adverse Effects, Poisoning]",
        "5. or/2-4",
    ]
    tree = parse("\n".join(lines)).tree
    assert format_tree(tree) == (
        '"a"[Title] OR "clinical trial"[MeSH Terms] OR ("a/adverse effects"[MeSH Terms:noexp] OR "a/poisoning"[MeSH Terms:noexp])'
    )


def test_comments_on_other_works_are_found_by_their_publication_type() -> None:
    """As in CLEF's CD011787."""
    read = parse("1. asthma.ti.\n2. comment on.cm.\n3. 1 not 2")
    assert format_tree(read.tree) == '"asthma"[Title] NOT "comment"[Publication Type]'
    assert [(finding.line, finding.column) for finding in read.warnings if finding.code == "approximated"] == [(2, 4)]
    with pytest.raises(BooleanSyntaxError, match="comments on other works"):
        parse("comment in.cm.")


def test_an_operator_behind_a_truncation_is_remarked() -> None:
    """As in CLEF's CD011436: `techniq*or block*`."""
    read = parse("(regional adj5 (techniq*or block*)).mp.")
    assert [(finding.line, finding.column) for finding in read.warnings if "a blank may be missing" in finding.message] == [(1, 17)]


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("1a a.ti,ab.\n1b exp Liver/\n2a b.tw.\n3 (1a or 1b) and 2a", "(a.ti,ab. or exp Liver/) and b.tw."),
        ("A. a.ti.\nB. b.ti.\nC. A and B\nD. limit C to humans", "a.ti.\nb.ti.\n1 and 2\nlimit 3 to humans"),
        ("1. a.ti.\n2a. b.ti.\n2b. c.ti.\n3. or/2a-2b\n4. 1 and 3", "a.ti. and (b.ti. or c.ti.)"),
        ("1. (b.ti. or\nB or c.ti.)\n2. d.ti.\n3. 1 and 2", "(b.ti. or B or c.ti.) and d.ti."),
        ("(1) a.ti.\n(2) b.ti.\n(3) 1 and 2", "a.ti. and b.ti."),
        ("1. a.ti.\n2. b.ti.\n3. or/1–2", "a.ti. or b.ti."),
        ("1. exp Liver/\n2. 1 use ppez,oemezd\n3. b.ti.\n4. 2 and 3", "exp Liver/ and b.ti."),
        (
            "Database: Ovid MEDLINE(R) <1946 to 2015>\nSearch Strategy:\n-----\n1  a.ti. (12)\n2  b.ti. (3)\n3  1 or 2 (14)",
            "a.ti. or b.ti.",
        ),
        ("a.mp. (1234)", "a.mp."),
    ],
)
def test_histories_as_they_are_published(query: str, same: str) -> None:
    assert format_tree(parse(query).tree) == format_tree(parse(same, "ovid").tree)


@pytest.mark.parametrize(
    ("query", "line", "column", "message"),
    [
        ("1. a.ti.\n2. from 1 keep 1-10", 2, 4, "delete the line, and use line 1"),
        ("1. a.ti.\n2. use ppez\n3. 1 and 2", 2, 4, "one of Ovid's databases"),
        ("1. a.ti.\n2. b.ti.\n3. or/1 to 2", 3, 4, "expected or/1-2"),
        ('1. a.ti.\n2. limit 1 to "therapy (best balance of sensitivity and specificity)"', 2, 15, "clinical queries"),
        ("1a a.ti.\n1a b.ti.\n2b 1a and 1a", 2, 4, "two lines have the label 1a"),
        ("1a a.ti.\n1b b.ti.\n2 1a and 1c", 3, 10, "there is no line 1c"),
    ],
)
def test_commands_that_only_ovid_can_run_are_refused(query: str, line: int, column: int, message: str) -> None:
    with pytest.raises(BooleanSyntaxError, match=message) as error:
        parse(query, "ovid")
    assert (error.value.line, error.value.column) == (line, column)


@pytest.mark.parametrize(
    "query",
    [
        "1. Pain/\n2. exp Migraine Disorders/\n3. 1 or 2",
        "Pain/\nexp Migraine Disorders/\n1 or 2",
        "Pain/ or\nexp Migraine Disorders/",
        "exp Pain/\npain*.ti,ab\n(1 OR 2)",
        "exp Pain/\npain*.ab\n(1 or 2)",
    ],
)
def test_a_line_and_the_next_one_are_no_sign_of_another_platform(query: str) -> None:
    """As in CLEF's CD000996 and CD010239."""
    assert parse(query).syntax == "ovid"


def test_the_long_name_of_the_title() -> None:
    """`.m_titl.` is Ovid's other name of the title."""
    assert parse("aspirin.m_titl.").tree == parse("aspirin.ti.", "ovid").tree


@pytest.mark.parametrize("query", ["aspirin.tiab.", "aspirin.title.", "aspirin.tiab", "(a or b).ti. and aspirin.foo_bar."])
def test_a_name_between_stops_that_is_no_field_is_refused(query: str) -> None:
    """An unknown field is an error and no part of a word."""
    with pytest.raises(BooleanSyntaxError, match="is no field"):
        parse(query, "ovid")
