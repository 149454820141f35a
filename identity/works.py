"""When two records are one work: for certain, by an identifier; or likely enough that a model's word may join them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from outrider.identity.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.identity.titles import normal_title
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS, words

AGREEING_TITLES = 0.85
"""Least likeness (Indel similarity, which is difflib's ratio) of two titles of one work."""
TITLE_WORDS, PREPRINT_TITLE_WORDS = 4, 2
"""Fewest different content words of a title that says which work it is: "Book review column" does not, but is no preprint either."""
SPELLING = 0.81
"""Least likeness of words that are one but for their spelling: "centre" and "center" have 0.83, "male" and "female" 0.80."""
YEARS_APART, PREPRINT_YEARS_APART = 1, 2
"""Online and in print; a preprint and its publication."""

PREPRINT_DOI = re.compile(
    r"""10\.(?: 48550/arxiv\.                                # arXiv
      | 1101/(?:\d{6}$|\d{4}\.\d\d\.\d\d\.) | 64898/         # bioRxiv and medRxiv; other numbers under 10.1101 are journals'
      | 2139/ssrn\. | 21203/rs\. | 26434/chemrxiv | 20944/preprints | 36227/techrxiv | 22541/au\. | 7287/peerj\.preprints
      | 31(?:219|234|235|222|223|224)/ )                     # OSF, PsyArXiv, SocArXiv, MetaArXiv, EarthArXiv, engrXiv
    """,
    re.VERBOSE,
)
FIRST_PAGE = re.compile(r"\w*\d+")
VERSION = re.compile(r"[-./_]v\d+$")
PER_VERSION = frozenset({"doi", "pmid", "pmcid", "openalex", "s2"})
"""Schemes that number a preprint and its publication apart."""

ADDRESS = re.compile(
    r"""https?://(?:www\.)?(?: (?:dx\.)?doi\.org/(?P<doi>10\.[^?\#]+?)
      | (?:export\.)?arxiv\.org/(?:abs|pdf)/(?P<arxiv>[^?\#]+?)
      | (?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/(?P<pmid>\d+)
      | github\.com/(?P<github>[\w-][\w.-]*/[\w.-]+)
    )/?(?:[?\#]|$)""",
    re.VERBOSE | re.IGNORECASE,
)
"""The page of one identifier at those who give it."""
NORMAL = {"doi": normal_doi, "arxiv": normal_arxiv, "pmid": normal_pmid, "github": str.lower}

SUBTITLE = re.compile(r"(?<=\w)(?::|\?|\.|\s[-–—])\s|(?<=\w)—")
SUFFIX = re.compile(r"[(\[][^()\[\]]*\b(?:preprint|postprint|manuscript|version|v\d+)\b[^()\[\]]*[)\]]\s*$|\bpreprint\s*$", re.IGNORECASE)
TELLING = frozenset(
    """
    i ii iii iv v vi vii viii ix x one two three four five six seven eight nine ten
    first second third fourth fifth sixth seventh eighth ninth tenth
    no non not without
    addendum appendix comment commentary correction corrigendum editorial erratum errata letter protocol reply response retracted
    retraction supplement supplementary
    """.split()
)
"""Beside numbers: words that make another work of the same title, if they stand in one of two titles only."""
MAX_TITLE_CHARS = 1_000
"""Of a title what is compared: the time of some steps grows with its square."""
AFTER_NAMES = frozenset({"jr", "sr", "ii", "iii", "iv"})
NOBODY = frozenset({"anonymous", "anon", "unknown"})
INITIALS = re.compile(r"(?:[^\W\d_]\.?-?){1,3}")


def same_work(one: Record, other: Record) -> str | None:
    """Why two records are the same work, None where that is not certain."""
    shared = shared_identifier(one, other)
    if shared is None:
        return None
    if titles_agree(one.title, other.title):
        return f"same {shared[0]} {shared[1]} and agreeing titles"
    theirs = other.identifiers.pairs()
    pages = {addressed(one), addressed(other)}
    return next(
        (f"the page of {scheme} {value}" for scheme, value in one.identifiers.pairs() if (scheme, value) in pages & {*theirs}), None
    )


def likely_same_work(one: Record, other: Record) -> str | None:
    """What speaks for one work where no identifier proves it, None where that is too little. Symmetric.

    All must hold, each as far as both records say it: neither is a repository; no identifier contradicts, and no volume, issue or
    first page, where a preprint may have its own; the titles agree, or differ by a subtitle or a note such as "(preprint)", and in no
    number or other telling word; the years lie at most one apart, two for a preprint; the authors share a surname. Where authors are
    missing, the titles must be equal and the years known.
    """
    if "repository" in (one.kind, other.kind) or contradicting(one, other):
        return None
    versions = preprint_server(one) != preprint_server(other)
    if not versions and _printed_apart(one, other):
        return None
    titles = _titles_say(read_title(one.title), read_title(other.title), versions=versions)
    if titles is None:
        return None
    apart = None if one.year is None or other.year is None else abs(one.year - other.year)
    if apart is not None and apart > (PREPRINT_YEARS_APART if versions else YEARS_APART):
        return None
    years = "" if apart is None else f", {'the same year' if apart == 0 else f'years {apart} apart'}"
    if one.authors and other.authors:
        shared = sorted(surnames(one.authors) & surnames(other.authors))
        return f"{titles}, author {shared[0]}{years}" if shared else None
    return f"{titles}{years}" if titles == EQUAL and apart is not None else None


def shared_identifier(one: Record, other: Record) -> tuple[str, str] | None:
    """The strongest identifier that both have, None where another scheme contradicts: packages of one repository are not one work."""
    theirs = other.identifiers.pairs()
    shared = next((pair for pair in one.identifiers.pairs() if pair in theirs), None)
    return None if shared is None or contradicting(one, other) else shared


def addressed(record: Record) -> tuple[str, str] | None:
    """The identifier whose own page the record is, whatever that page calls itself ("[1706.03762] Attention ... - arXiv.org")."""
    if record.kind != "page" or not record.url or not (found := ADDRESS.match(record.url)):
        return None
    scheme, said = next((scheme, said) for scheme, said in found.groupdict().items() if said)
    value = NORMAL[scheme](said)
    return (scheme, value) if value and (scheme, value) in record.identifiers.pairs() else None


def contradicting(one: Record, other: Record) -> bool:
    """Whether identifiers show two works: both have one of the same scheme, and no preprint explains why they differ."""
    theirs = dict(other.identifiers.pairs())
    first, second = preprint_server(one), preprint_server(other)
    differ = {scheme for scheme, value in one.identifiers.pairs() if theirs.get(scheme, value) != value}
    if first != second:  # a preprint and its publication, or two servers
        return bool(differ - PER_VERSION)
    if first and "doi" in differ and VERSION.sub("", one.identifiers.doi or "") == VERSION.sub("", theirs["doi"]):
        differ.discard("doi")
    return bool(differ)


def _printed_apart(one: Record, other: Record) -> bool:
    """Whether they stand in different places of print: a column has one title and one author all year."""
    if not (isinstance(one, Paper) and isinstance(other, Paper)):
        return False
    pages = [FIRST_PAGE.search(record.pages or "") for record in (one, other)]
    places = [(one.volume, other.volume), (one.issue, other.issue), tuple(found and found.group() for found in pages)]
    return any(first and second and first != second for first, second in places)


def preprint_server(record: Record) -> str | None:
    """The DOI prefix of the server that the record's own DOI is of, `arxiv` for a record of arXiv without DOI, else None."""
    doi = record.identifiers.doi
    if doi is None:
        return ARXIV if record.identifiers.arxiv else None
    prefix = PREPRINT_DOI.match(doi) and doi.partition("/")[0]
    return ARXIV if prefix == "10.48550" else prefix


def surnames(authors: Iterable[str]) -> frozenset[str]:
    """Last words of family names, folded: of `Curie, Marie`, `Marie Curie`, `M. Curie` and `Curie MS`."""
    return frozenset(found for name in authors if (found := _surname(name)))


def _surname(name: str) -> str:
    family = name.partition(",")[0].split()
    long = [part for part in family if not (INITIALS.fullmatch(part) and (part.isupper() or "." in part))]
    parts = long or [max(family, key=len, default="")]
    kept = [word for part in parts for word in normal_title(part).split() if word not in AFTER_NAMES]
    return kept[-1] if kept and kept[-1] not in NOBODY else ""


def titles_agree(one: str, other: str) -> bool:
    """Both have a title, and they are alike; a missing title is unknown, not agreement."""
    return alike(normal_title(one), normal_title(other))


def alike(first: str, second: str) -> bool:
    """The same of normal titles."""
    if not first or not second:
        return False
    from rapidfuzz.distance import Indel

    return first == second or Indel.normalized_similarity(first, second, score_cutoff=AGREEING_TITLES) > 0


ARXIV = "arxiv"
EQUAL, BUT_FOR_SUBTITLE, ALIKE = "equal titles", "titles equal but for a subtitle", "agreeing titles"


@dataclass(frozen=True, slots=True)
class Title:
    """A title as it is compared."""

    whole: str
    main: str
    """Without its subtitle."""
    content: frozenset[str]
    telling: Counter[str]


@lru_cache(maxsize=16_384)
def read_title(title: str) -> Title:
    """In its normal form and without a note such as "(preprint)"."""
    bare = SUFFIX.sub("", title[:MAX_TITLE_CHARS])
    whole = normal_title(bare)
    content = frozenset(words(whole)) - STOP_WORDS
    telling = Counter(word for word in whole.split() if word in TELLING or any(map(str.isdigit, word)))
    return Title(whole, normal_title(SUBTITLE.split(bare, maxsplit=1)[0]), content, telling)


def _titles_say(one: Title, other: Title, *, versions: bool) -> str | None:
    """How far two titles are one; a published title may have a word more or less than its preprint's, a copy only another spelling."""
    fewest = PREPRINT_TITLE_WORDS if versions else TITLE_WORDS
    if min(len(one.content), len(other.content)) < fewest or one.telling != other.telling:
        return None
    if one.whole == other.whole:
        return EQUAL
    shorter, longer = sorted((one, other), key=lambda title: (len(title.whole), title.whole))
    if shorter.whole == longer.main:
        return BUT_FOR_SUBTITLE
    return ALIKE if alike(one.whole, other.whole) and _same_words(one, other, versions=versions) else None


def _same_words(one: Title, other: Title, *, versions: bool) -> bool:
    """Whether the words that only one of them has are spellings of each other: "mice" and "rats" are not."""
    from rapidfuzz.distance import Indel

    mine, theirs = ("".join(sorted(these - those)) for these, those in ((one.content, other.content), (other.content, one.content)))
    return (versions and not (mine and theirs)) or Indel.normalized_similarity(mine, theirs) >= SPELLING
