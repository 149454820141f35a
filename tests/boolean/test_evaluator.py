"""Meaning of each leaf on a record, and nested patterns against all combinations of places."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.document import Document
from outrider.boolean.evaluator import Evaluator, matches
from outrider.boolean.occurrences import Column, find_occurrences
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.state.boolean import Either, Field, Near, Pattern, Text, Words
from outrider.state.records import Identifiers, Paper, Repository

PAPER = Paper(
    doc_id="1",
    title="Post-mortem hepatotoxicity of Aspirin: a naïve β-lactam study",
    abstract="Hip joint pain and the head of the hip. 東京大学 on COVID-19.",
    description="A second summary",
    text="The whole body of it",
    authors=("Smith, John A", "Łódź, Ørsted", "Mei-Ling van der Ng"),
    year=2019,
    venue="The Lancet",
    language="en",
    tags=("drug safety", "liver disease"),
    mesh=("Liver", "Neoplasms, Multiple Primary", "Kidney/surgery*"),
    volume="12",
    pages="101-9",
    metadata={
        "mesh_qualified": ["Liver/drug effects", "Liver/prevention & control"],
        "publication_types": ["Randomized Controlled Trial"],
        "journal_abbreviation": "Lancet",
        "issn": "0140-6736",
    },
    identifiers=Identifiers(doi="10.1000/x-y", pmid="123"),
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # words, wherever a hyphen or an accent is
        ("ASPIRIN[ti]", True), ("aspiri[ti]", False), ("post mortem[ti]", True), ("postmortem[ti]", False), ("post-mortem[ti]", True),
        ("naive[ti]", True), ("naïve[ti]", True), ("β-lactam[ti]", True), ("covid-19[ab]", True), ("covid[ab]", True), ("19[ab]", True),
        ("東京[ab]", True), ("京大[ab]", True), ("東大[ab]", False),
        # truncation and the signs inside a word
        ("hepat*[ti]", True), ("hepato*y[ti]", True), ("*toxicity[ti]", True), ("post-mort*[ti]", True), ("post*[ti]", True),
        ("asp{#}rin[ti]", True), ("asp{#}irin[ti]", False), ("asp{?}irin[ti]", True), ("aspir{*2}[ti]", True), ("aspi{*2}[ti]", False),
        # a pattern stays within one text
        ("study hip[tiab]", False), ("safety liver[ot]", False), ("19 A second[ab]", False), ("second summary[ab]", True),
        # proximity: words between, in any order, none used twice
        ('"hip pain"[ab:~1]', True), ('"pain hip"[ab:~1]', True), ('"hip pain"[ab:~0]', False), ('"hip hip"[ab:~99]', True),
        ('"pain pain"[ab:~99]', False),
        ('"hip joint pain"[ab:~0]', True), ('"head joint hip"[ab:~3]', True), ('"head joint hip"[ab:~2]', False),
        ("(hip ADJ joint)[ab]", True), ("(joint ADJ hip)[ab]", False),
        ("(joint ADJ1 hip)[ab]", True), ('((hip ADJ3 pain) ADJ1 joint)[ab]', True), ('((hip OR head) ADJ3 "the hip")[ab]', True),
        # fields
        ("aspirin[ab]", False), ("aspirin[tiab]", True), ("safety[tiab]", True), ("safety[ti,ab]", False),
        ("liver[tw]", True), ("body[Body]", True),
        ("body[tiab]", False), ("body[all]", True), ("lancet[all]", True), ("lodz[all]", True), ("123[all]", True),
        ("multiple[hw]", True),
        # headings: as a whole, with qualifiers
        ("liver[mh]", True), ("LIVER[majr]", True), ("Neoplasms[mh]", False), ('"Neoplasms, Multiple Primary"[mh]', True),
        ("neoplasms*[mh]", True),
        ("Liver/drug effects[mh]", True), ("Liver/surgery[mh]", False), ("Kidney/surgery[mh]", True), ("surgery[sh]", True),
        ("toxicity[sh]", False),
        ('"prevention and control"[sh]', True), ("prevention & control[sh]", True), ("drug*[sh]", True),
        # authors
        ("smith[au]", True), ("smith j[au]", True), ("smith ja[au]", True), ("smith a[au]", False),
        ("smith jab[au]", False), ("John Smith[au]", True),
        ("Smith, John[au]", True), ("smi*[au]", True), ("ng ml[au]", True), ("ng l[au]", False), ("van der Ng[au]", True),
        ("ng mei[au]", True), ("lodz o[au]", True),
        # values that are compared as a whole
        ("the lancet[ta]", True), ("lancet[ta]", True), ("lan*[jour]", True), ("the*[jour]", True), ("0140-6736[ta]", True),
        ("lancet oncology[ta]", False),
        ("english[la]", True), ("eng[la]", True), ("french[la]", False), ("randomized controlled trial[pt]", True), ("trial[pt]", False),
        ("12[vi]", True), ("101-9[pg]", True), ("1[ip]", False), ("123[pmid]", True), ("0123[uid]", True), ("12[pmid]", False),
        ("10.1000/X-Y[doi]", True), ("https://doi.org/10.1000/x-y[doi]", True), ("10.1000/x.y[doi]", False), ("10.1000/*[doi]", True),
        # dates, by years
        ("2019[dp]", True), ("2018:2019[dp]", True), ("2020:3000[dp]", False), ("2019/12/31[dp]", True),
        ("1000:2018[dp]", False), ("2019[edat]", True),
        # what a library lacks, and everything
        ("aspirin[nm]", False), ("NOT aspirin[nm]", True), ("all[sb]", True), ("medline[sb]", False), ("NOT all[sb]", False),
        ("NOT aspirin[ti]", False), ("aspirin[ti] NOT liver[ti]", True),
    ],
)  # fmt: skip
def test_what_a_query_matches(query: str, expected: bool) -> None:
    assert matches(parse(query, "pubmed").tree, PAPER) is expected


def test_a_field_that_a_record_lacks_is_false_and_its_negation_true() -> None:
    bare = Repository(doc_id="2")
    for query in (
        "2019[dp]",
        "a[ti]",
        "liver[mh]",
        "surgery[sh]",
        "smith[au]",
        "nature[ta]",
        "english[la]",
        "1[pmid]",
        "10.1000/a[doi]",
        "review[pt]",
        "1[vi]",
        "a*[all]",
    ):
        assert not matches(parse(query).tree, bare), query
        assert matches(parse(f"NOT {query}").tree, bare), query


def test_words_are_cut_once_for_several_trees_and_only_where_they_are_needed() -> None:
    document = Document(PAPER)
    assert Evaluator(parse("aspirin[ti] OR liver[mh]").tree).matches(document)
    assert set(document._columns) == {Field.TITLE}
    assert document.column(Field.TITLE) is document.column(Field.TITLE)


words = st.sampled_from("abc").map(lambda word: Words((word,))) | st.just(Words(("a", "b"))) | st.just(Words(("b*",)))


def _nest(parts: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    either = st.lists(parts, min_size=2, max_size=3).map(lambda every: Either(tuple(every)))
    return either | st.builds(
        lambda every, most, order: Near(tuple(every), most, order),
        st.lists(parts, min_size=2, max_size=3),
        st.integers(0, 3),
        st.booleans(),
    )


patterns = st.recursive(words, _nest, max_leaves=5)


@settings(max_examples=500, deadline=None)
@given(patterns, st.lists(st.sampled_from(["a", "b", "bb", "c", "x"]), max_size=8))
def test_patterns_occur_where_an_exhaustive_search_finds_them(pattern: Pattern, text: list[str]) -> None:
    column = Column.from_texts([" ".join(text)])
    occurrences = {frozenset(place for start, end in one for place in range(start, end + 1)) for one in find_occurrences(pattern, column)}
    assert occurrences == {used for used, _ in _every(pattern, text)}
    record = Paper(doc_id="1", title=" ".join(text))
    assert matches(Text(pattern, (Field.TITLE,)), record) is bool(occurrences)


def _every(pattern: Pattern, text: list[str]) -> set[tuple[frozenset[int], frozenset[int]]]:
    """Of each occurrence the places that it uses, and those that it spans."""
    if isinstance(pattern, Words):
        pattern_words = pattern.words
        starts = [
            at
            for at in range(len(text) - len(pattern_words) + 1)
            if all(_spelt(one, text[at + step]) for step, one in enumerate(pattern_words))
        ]
        return {(frozenset(range(at, at + len(pattern_words))),) * 2 for at in starts}  # type: ignore[misc]
    if isinstance(pattern, Either):
        return set().union(*(_every(part, text) for part in pattern.parts))
    occurrences = set()
    for chosen in itertools.product(*(_every(part, text) for part in pattern.parts)):
        used = frozenset().union(*(places for places, _ in chosen))
        if len(used) != sum(len(places) for places, _ in chosen):
            continue
        if pattern.ordered and any(max(one) >= min(other) for (one, _), (other, _) in itertools.pairwise(chosen)):
            continue
        spanned = set().union(*(places for _, places in chosen))
        if len(set(range(min(used), max(used) + 1)) - spanned) <= pattern.distance:
            occurrences.add((used, frozenset(range(min(used), max(used) + 1))))
    return occurrences


def _spelt(pattern_word: str, word: str) -> bool:
    return word.startswith(pattern_word[:-1]) if pattern_word.endswith("*") else word == pattern_word


MARKED = Paper(
    doc_id="2",
    title="Schemes for<i>ab initio</i>total-energy of K<sub>Ca</sub>3.1 and TGF-&beta;1",
    abstract=r"M\"uller's $\beta$-amyloid in CO₂",
    authors=("Mu\u0308ller, Jo\u0308rg", "O&#39;Brien, S"),
    venue="Journal of <i>Escherichia</i> Research",
    mesh=("K<sub>Ca</sub> Channels/metabolism",),
    tags=("nai\u0308ve\u200b T cells",),
)


@pytest.mark.parametrize(
    "query",
    [
        '"for ab initio total energy"[ti]', '"<i>ab initio</i> total-energy"[ti]', "<i>ab initio</i>[ti]", "KCa3*[ti]",
        "K<sub>Ca</sub>3.1[ti]",
        "TGF-β1[ti]", '"TGF-&beta;1"[ti]', "β-amyloid[ab]", "muller[ab]", "mu\u0308l*[ab]", "CO2[ab]", "CO₂[ab]", "müller j[au]",
        "o'brien[au]",
        "mu\u0308ller[au]", "Journal of Escherichia Research[ta]", '"KCa Channels"[mh]', "KCa Channels/metabolism[mh]", "naïve T cells[ot]",
        "na\u00adive[ot]", '"K<sub>Ca</sub> channels"[tw]',
    ],
)  # fmt: skip
def test_markup_and_invisible_characters_change_nothing(query: str) -> None:
    """In whatever field, in the record and in the query; the printed query is folded and means the same."""
    tree = parse(query).tree
    assert matches(tree, MARKED)
    printed = format_tree(tree)
    assert parse(printed, "pubmed").tree == tree
    assert "<" not in printed


@pytest.mark.parametrize("title", ["L'étude de l'asthme", "L’étude de l’asthme"])
@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("étude[ti]", True), ("l'étude[ti]", True), ("L’étude[ti]", True), ('"letude"[ti]', False), ("etud*[ti]", True),
        ('"étude de l asthme"[ti]', True), ('"étude de l\'asthme"[ti]', True),
        ('"étude asthme"[ti:~2]', True), ('"étude asthme"[ti:~1]', False),
    ],
)  # fmt: skip
def test_an_apostrophe_separates_words_as_in_pubmed(title: str, query: str, matches: bool) -> None:
    """An elided article is a word of its own; it counts between words that are near each other."""
    record = Document(Paper(doc_id="d", title=title))
    assert Evaluator(parse(query, "pubmed").tree).matches(record) is matches


@pytest.mark.parametrize(
    ("author", "found", "missed"),
    [
        ("Adler D.G.", ["adler d", "adler dg", "adler", "D.G. Adler", "adler d g"], ["adler g", "dg adler d", "g ad"]),
        ("Smith J. A.", ["smith ja", "smith j"], ["smith a"]),
        ("Smith J A", ["smith ja", "smith j"], ["smith a"]),
        ("van der Meer J.W.M.", ["van der meer jwm", "van der meer j", "meer"], ["meer jwm"]),
        ("Lee J.-Y.", ["lee jy", "lee j"], ["lee y"]),
        ("Ørsted Å.Ø.", ["orsted ao"], ["orsted o"]),
        ("J.A. Smith", ["smith ja", "smith j", "j a smith"], ["smith a"]),
        ("Smith, J.A.", ["smith ja", "smith j"], ["smith a"]),
        ("Smith JA", ["smith ja", "smith j", "smith j a"], ["smith a", "smith jab"]),
        ("van der Meer JWM", ["van der meer j", "van der meer jw", "meer jwm"], ["van der meer w"]),
        ("Wei LI", ["li w", "wei li", "li wei"], ["wei i"]),
        ("ANNA LEE", ["lee a"], ["anna l"]),
        ("Smith Jane", ["jane s"], ["smith j"]),
        ("Mao Zedong", ["zedong m", "mao zedong", "zedong mao"], ["mao z"]),
        ("J. A.", ["j a"], []),
    ],
)
def test_initials_behind_a_surname(author: str, found: list[str], missed: list[str]) -> None:
    """Initials behind a name without a comma are no surname, as Embase and Scopus write them; a word of more letters is one."""
    document = Document(Paper(doc_id="1", authors=(author,)))
    assert [query for query in found if not matches(parse(f"{query}[au]").tree, document)] == []
    assert [query for query in missed if matches(parse(f"{query}[au]").tree, document)] == []


@pytest.mark.parametrize("language", ["en; de", "English; German", "English, German", "eng, ger"])
def test_each_of_several_languages_matches(language: str) -> None:
    """A record in two languages is found by each, by code or name, and by no third."""
    document = Document(Paper(doc_id="1", language=language))
    for query, is_match in (("english[la]", True), ("german[la]", True), ("ger[la]", True), ("french[la]", False)):
        assert matches(parse(query).tree, document) is is_match
    assert not matches(parse("german[la]").tree, Document(Paper(doc_id="1", language="Greek, Modern")))


def test_major_headings() -> None:
    """Where a record says which headings are major, others do not match; a record that does not say matches by any."""
    metadata = {"mesh_major": ["Liver"], "mesh_qualified": ["Liver/surgery", "Aspirin/adverse effects"]}
    telling = Document(Paper(doc_id="1", mesh=("Liver", "Aspirin"), metadata=metadata))
    silent = Document(Paper(doc_id="2", mesh=("Liver", "Aspirin")))
    for query, is_match in (("Liver[majr]", True), ("Liver/surgery[majr]", True), ("Aspirin[majr]", False), ("Aspirin[mh]", True)):
        assert matches(parse(query).tree, telling) is is_match
    assert matches(parse("Aspirin[majr]").tree, silent)


@pytest.mark.parametrize("query", ["1533-4406", "0028-4793", "New England Journal of Medicine", "N Engl J Med", "NEJM"])
def test_every_name_of_a_journal(query: str) -> None:
    """The second ISSN and the abbreviations that RIS files write beside the title are names of the journal."""
    metadata = {"issn": "0028-4793", "other_issns": ["1533-4406"], "J2": "N Engl J Med", "JO": ["NEJM"]}
    document = Document(Paper(doc_id="1", venue="New England Journal of Medicine", metadata=metadata))
    assert matches(parse(f'"{query}"[ta]').tree, document)
    assert not matches(parse("Lancet[ta]").tree, document)
