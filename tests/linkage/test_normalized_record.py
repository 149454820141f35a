"""Every field has one normal form; text without information is unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.identifiers import canonical_url, normal_openalex, normal_repository, normal_s2
from outrider.linkage.names_and_titles import parse_name, parse_notice, parse_title
from outrider.linkage.normalized_record import make_keys, parse_number, parse_pages, resemblance, sketch_abstract
from outrider.state.records import Identifiers
from support.fakes import paper


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("123-9", "123", "129"), ("pp. 123–129", "123", "129"), ("123-129", "123", "129"), ("S12-S15", "s12", "s15"),
        ("e0227919", "e227919", ""),
        ("152-153.e1", "152", "153"), ("3‐", "3", ""), ("10-Jun", "", ""), ("no pagination", "", ""), ("", "", ""),
    ],
)  # fmt: skip
def test_pages(text: str, first: str, last: str) -> None:
    assert parse_pages(text)[:2] == (first, last)


@pytest.mark.parametrize(
    ("volume", "pages", "read"),
    [
        (None, "22 , 705-726", ("22", "705", "726")), ("22 (3)", "22, 705-726", ("22", "705", "726")),
        (None, "1, 30-31", ("1", "30", "31")),
        ("299 - 347", None, ("", "299", "347")), ("12-13", None, ("12", "", "")), ("1990-1995", None, ("1990", "", "")),
        ("EuroCOLT '93", "205-216", ("", "205", "216")), ("vol. 7, no. 4", "705", ("7", "705", "")), ("B82", None, ("82", "", "")),
        (None, "12, 15-20", ("", "12", "20")), ("7", "22, 705-726", ("7", "22", "726")), (None, "705-726", ("", "705", "726")),
    ],
)  # fmt: skip
def test_a_volume_before_the_pages(volume: str | None, pages: str, read: tuple[str, str, str]) -> None:
    key = make_keys(paper("", title="", volume=volume, pages=pages))
    assert (key.volume, *key.pages[:2]) == read


@pytest.mark.parametrize(
    ("title", "authors", "whole", "family", "year"),
    [
        ("Schapire (1996). A new algorithm", ("Freund, Y.", "R. E."), "a new algorithm", "schapire", 1996),
        ("Bartlett & W.S. Lee (1997), Boosting", ("Schapire, R.", "P."), "boosting", "lee", 1997),
        ("D. (1992). Unsupervised learning", ("Freund, Y.", "Haussler"), "unsupervised learning", "haussler", 1992),
        ("van der Berg [2001a] 'Sleep in shift workers", ("Ito, K.", "J."), "sleep in shift workers", "berg", 2001),
        ("(1989) Cryptographic limitations", ("Valiant, L.",), "cryptographic limitations", "valiant", 1989),
        ("Fama and French (1993): a replication", ("Smith, J.",), "fama and french 1993 a replication", "smith", 0),
        ("ESICON (2017) abstracts", ("Anonymous",), "esicon 2017 abstracts", None, 0),
        ("Schapire (1996). A new algorithm", (), "schapire 1996 a new algorithm", None, 0),
        ("Sleep (1996)", ("Freund, Y.", "R."), "sleep 1996", "r", 0),
    ],
)
def test_authors_and_year_before_a_title(title: str, authors: tuple[str, ...], whole: str, family: str | None, year: int) -> None:
    key = make_keys(paper("", title=title, authors=authors, year=None))
    assert (key.title.whole, key.authors[-1].family if key.authors else None, key.year) == (whole, family, year)


@pytest.mark.parametrize(
    ("title", "whole"),
    [
        ("Prediction and conversion. In Proceedings of the First EuroCOLT Workshop", "prediction and conversion"),
        ('Learning curves," in: Proc. of COLT 94', "learning curves"),
        ("The surgeons’ proceedings of 1790", "the surgeons proceedings of 1790"),
        ("Asthma in children. Proceedings of the 1998 meeting", "asthma in children proceedings of the 1998 meeting"),
        ("Errors in proceedings of the royal society", "errors in proceedings of the royal society"),
    ],
)  # fmt: skip
def test_proceedings_behind_a_title(title: str, whole: str) -> None:
    assert parse_title(title).whole == whole


def test_another_year_before_a_title_belongs_to_it() -> None:
    assert make_keys(paper("", title="(2019) Guidelines on asthma", year=2020)).title.tokens[0] == "2019"
    assert make_keys(paper("", title="(2019) Guidelines on asthma", year=2019)).title.tokens[0] == "guidelines"


@pytest.mark.parametrize(
    ("venue", "volume", "year", "read"),
    [
        ("Proc. 19th ACM Symp. on Theory of Computing (1987)", None, None, 1987), ("Proceedings of X (Oct. 1990)", None, None, 1990),
        ("SIAM J. Comput.", "22 (1993)", None, 1993), ("SIAM J. Comput.", "22 (1993)", 1994, 1994),
        ("J Appl Physiol (1985)", "90", None, 0), ("Conference on Sleep (Oslo)", None, None, 0),
    ],
)  # fmt: skip
def test_a_year_behind_a_meeting_or_volume(venue: str, volume: str | None, year: int | None, read: int) -> None:
    assert make_keys(paper("", venue=venue, volume=volume, year=year)).year == read


@pytest.mark.parametrize(
    ("text", "number"),
    [("19", "19"), ("9 (1)", "9"), ("1)", ""), ("Suppl 1", "s1"), ("Supplement 1", "s1"), ("0", ""), (None, ""), ("01-Feb", "")],
)
def test_numbers(text: str | None, number: str) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    ("name", "family", "initials"),
    [
        ("Curie, Marie", "curie", "m"), ("Marie Curie", "curie", "m"), ("M. Curie", "curie", "m"), ("Curie MS", "curie", "ms"),
        ("CURIE M", "curie", "m"), ("Ludwig van Beethoven", "beethoven", "l"), ("van Beethoven, L.", "beethoven", "l"),
        ("Müller, Jörg", "muller", "j"), ("Martin Luther King Jr.", "king", "ml"), ("王伟", "王伟", ""),
        ("Yannis E. Ioannidis", "ioannidis", "ye"),
        ("Jos&#233; A. Blakeley", "blakeley", "ja"),
    ],
)  # fmt: skip
def test_names(name: str, family: str, initials: str) -> None:
    name_parts = parse_name(name)
    assert name_parts is not None
    assert name_parts[:2] == (family, initials)


@pytest.mark.parametrize("nobody", ["", ", ", "et al", "Anonymous", "?"])
def test_nobody(nobody: str) -> None:
    assert parse_name(nobody) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("K<inf>Ca</inf>3.1 channels in rats", "KCa3.1 channels in rats"), ("Effect of α-synuclein", "Effect of alpha synuclein"),
        ("A study of mice [French]", "A study of mice."), ("Wings (preprint)", "WINGS"), ("Élan vital", "Elan Vital"),
        ("(1990) On the complexity of teaching", "On the complexity of teaching"), ("機械学習 入門", "機械学習入門"),
    ],
)  # fmt: skip
def test_titles_that_are_one(one: str, other: str) -> None:
    assert parse_title(one).compact == parse_title(other).compact


def test_scripts_are_kept() -> None:
    assert parse_title("Μηχανική μάθηση").compact
    assert parse_title("Машинное обучение") != parse_title("Машинное зрение")
    assert parse_title("تعلم الآلة").content


@pytest.mark.parametrize(
    ("title", "generic"),
    [("Editorial", True), ("Book reviews", True), ("Guest editor's introduction", True), ("", True), ("DataSplash", False)],
)
def test_generic_titles(title: str, generic: bool) -> None:
    assert parse_title(title).generic is generic


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://www.Example.org/a/?utm_source=x&b=1#top", "example.org/a?b=1"), ("http://example.org/a", "example.org/a"),
        ("https://example.org:443/", "example.org"), ("https://example.org:8080/x", "example.org:8080/x"),
        ("ftp://example.org/a", None), ("not an address", None), ("https://[bad", None),
    ],
)  # fmt: skip
def test_addresses(text: str, address: str | None) -> None:
    assert canonical_url(text) == address


def test_identifiers_have_one_form() -> None:
    assert normal_openalex("https://openalex.org/W2741809807") == normal_openalex("w2741809807") == "W2741809807"
    assert normal_s2("CorpusID:12345") == "12345"
    assert normal_repository("https://github.com/Encode/HTTPX.git") == normal_repository("encode/httpx") == "encode/httpx"
    assert normal_repository("git@github.com:encode/httpx.git") == "encode/httpx"
    assert normal_repository("encode") is None
    identifiers = Identifiers(doi="https://doi.org/10.1000/ABC", arxiv="arXiv:2101.00001v3", pmid="PMID: 0017", isbn="0-306-40615-2")
    normalized = dict(make_keys(paper("a", identifiers=identifiers)).identifiers)
    assert normalized == {"doi": "10.1000/abc", "arxiv": "2101.00001", "pmid": "17", "isbn": "9780306406157"}


@given(
    st.builds(
        Identifiers,
        **{
            name: st.none() | st.text(max_size=40) | st.from_regex(r"10\.\d{4}/[a-z]{1,5}", fullmatch=True)
            for name in Identifiers.model_fields
        },
    )
)
def test_identifiers_survive_a_round_trip(identifiers: Identifiers) -> None:
    """The normal form of a normal form is itself."""
    once = {
        scheme: value for scheme, value in make_keys(paper("a", identifiers=identifiers)).identifiers if scheme in Identifiers.model_fields
    }
    again = {scheme: value for scheme, value in make_keys(paper("a", identifiers=Identifiers(**once))).identifiers if scheme in once}
    assert again == once


@pytest.mark.parametrize("year", [0, 20244, -3, 999])
def test_a_year_that_is_none_is_unknown(year: int) -> None:
    assert make_keys(paper("a", "x", year=year)).year == 0


def test_a_cut_abstract_resembles_the_whole() -> None:
    text = " ".join(f"word{at} among many other things with some {at * 7}" for at in range(60))
    other = " ".join(f"thing{at} beside most common stuff that any {at * 3}" for at in range(60))
    assert resemblance(sketch_abstract(text), sketch_abstract(text[: len(text) // 2])) > 0.8
    assert resemblance(sketch_abstract(text), sketch_abstract(other)) < 0.1


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Erratum to: Wings of birds", "corrects"), ("Correction: Wings of birds", "corrects"), ("Retraction: Wings of birds", "retracts"),
        ("Notice of retraction: Wings of birds", "retracts"), ("Wings of birds (Erratum)", "corrects"),
        ("Wings of birds (Retraction of Vol 44, Pg 12, 2008)", "retracts"), ("Wings of birds [Retraction of: Auk. 2008]", "retracts"),
        ("Reply to: Wings of birds", "comments on"),
        ("Comment on \"Wings of birds\"", "comments on"), ("Author's response: Wings of birds", "comments on"),
    ],
)  # fmt: skip
def test_notices(title: str, kind: str) -> None:
    assert parse_notice(title) == f"{kind} / wingsofbirds"


@pytest.mark.parametrize("title", ["Response surfaces of wings", "Wings of birds", "Corrections officers in prison", "Comments", ""])
def test_articles_are_no_notices(title: str) -> None:
    assert parse_notice(title) == ""
