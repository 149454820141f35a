"""Keys: the fields of a record in normal form, for comparison, and their canonical bytes.

Nothing is guessed: a field that cannot be parsed is unknown (None or empty), and an unknown field never agrees with another.
"""

from __future__ import annotations

import marshal
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from html import unescape
from itertools import compress, islice
from typing import Any, NamedTuple
from zlib import crc32

from outrider.linkage.identifiers import (
    canonical_url,
    normal_arxiv,
    normal_distribution,
    normal_doi,
    normal_isbn,
    normal_openalex,
    normal_pmcid,
    normal_pmid,
    normal_repository,
    normal_s2,
)
from outrider.linkage.names_and_titles import (
    INITIALS,
    MAX_TITLE_CHARS,
    TAG,
    Name,
    Title,
    normal_title,
    parse_name,
    parse_notice,
    parse_title,
)
from outrider.state.records import Paper, Record
from outrider.text.words import PARTED

MAX_ABSTRACT_CHARS, MAX_SKETCHED_CHARS = 3_000, 1_500
SKETCH = 40
"""Number of hashes in the sketch of an abstract."""
IS_SKETCHED = bytes(length % 4 == 0 for length in range(4 * MAX_SKETCHED_CHARS + 1))
"""By length in bytes, whether a word begins a triple that is hashed."""
MAX_AUTHORS = 60
YEARS = range(1400, 2101)

MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\b", re.IGNORECASE)
"""Spreadsheets turn pages 6-10 into 10-Jun; such pages are treated as unknown."""
DASH = re.compile(r"\s*[-‐‑‒–—−/]+\s*")
PAGE = re.compile(r"([a-z]*?)\.?\s*0*(\d+)([a-z]?\d*)", re.IGNORECASE)
PREPRINT_DOI = re.compile(
    r"""10\.(?: 48550/arxiv\.                                # arXiv
      | 1101/(?:\d{6}$|\d{4}\.\d\d\.\d\d\.) | 64898/         # bioRxiv and medRxiv; other numbers under 10.1101 belong to journals
      | 2139/ssrn\. | 21203/rs\. | 26434/chemrxiv | 20944/preprints | 36227/techrxiv | 22541/au\. | 7287/peerj\.preprints
      | 31(?:219|234|235|222|223|224)/ )                     # OSF, PsyArXiv, SocArXiv, MetaArXiv, EarthArXiv, engrXiv
    """,
    re.VERBOSE,
)
SERVERS = {
    "arxiv": "arxiv", "corr": "arxiv", "biorxiv": "10.1101", "medrxiv": "10.1101", "ssrn": "10.2139", "chemrxiv": "10.26434",
    "research square": "10.21203", "preprints": "10.20944", "preprints.org": "10.20944", "techrxiv": "10.36227", "authorea": "10.22541",
    "osf preprints": "10.31219", "psyarxiv": "10.31234", "socarxiv": "10.31235", "metaarxiv": "10.31222", "eartharxiv": "10.31223",
    "engrxiv": "10.31224",
}  # fmt: skip
"""Preprint servers as venues, and the prefixes of their DOIs."""
SERVER = re.compile(
    rf"\W*(?P<name>{'|'.join(map(re.escape, sorted(SERVERS, key=len, reverse=True)))})\W*"
    r"(?:e-?prints?\b|preprints?\b|(?:the )?preprint server\b(?: for [a-z ]+)?|electronic journal\b|repository\b"
    r"|\([^()]*\)|abs/\S+|arxiv:\S+|\W)*+",
    re.IGNORECASE,
)
ARXIV_IN_VENUE = re.compile(r"\b(?:arxiv:|abs/)\s*(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})", re.IGNORECASE)
"""As Google Scholar writes it, "arXiv preprint arXiv:1706.03762", and DBLP in the volume of CoRR: "abs/1706.03762"."""
YEAR_BEFORE_TITLE = re.compile(
    r"""(?P<names>(?:[^\W\d][\w.'’-]*[\s,]+(?:(?:&|and)\s+)?){0,6}?)
        [(\[](?P<year>(?:1[5-9]|20)\d\d)[a-z]?[)\]][.,:]?\s+['`"“‘]?(?=\w)""",
    re.VERBOSE,
)
"""A year in brackets before a title, and the end of the list of authors before it."""
YEARS_REACH = 80
"""Letters of a title among which such a bracket stands."""
BETWEEN_NAMES = re.compile(r"\s*(?:&|,?\s\band\b)\s*")
MEETING = re.compile(r"\b(?:proc|conf|symp|workshop)", re.IGNORECASE)
YEAR_AT_END = re.compile(r"\((?:[^\W\d]+\.?\s)?((?:1[5-9]|20)\d\d)\)\W*$")
VOLUME_BEFORE_PAGES = re.compile(r"\W*(?P<volume>\d{1,3})\s*,\s*(?P<pages>(?P<first>\d{1,9})\s*[-–—]\s*\d{1,9})\W*$")
PAGES_IN_VOLUME = re.compile(r"\W*(\d{1,9})\s*[-–—]\s*(\d{1,9})\W*$")
MOST_VOLUMES = 4
"""A longer range in the field of the volume is one of pages, or of years."""
VOLUME_NUMBER = re.compile(r"(?<!['’`])\b\d+|(?<=[^\W\d_])\d+")
"""A number that is no year after a meeting, as in "EuroCOLT '93"."""
PAGES_SKIPPED = 20
"""Most pages that a list such as "12, 15-20" skips; before a page further on stands a volume: "22, 705-726"."""
ARXIV_DOI = "10.48550/arxiv."
LIBRARY = "library"
MAX_IDENTIFIER_CHARS = 500
NORMAL: Mapping[str, Callable[[str], str | None]] = {
    "doi": normal_doi,
    "pmid": normal_pmid,
    "pmcid": normal_pmcid,
    "arxiv": normal_arxiv,
    "openalex": normal_openalex,
    "s2": normal_s2,
    "isbn": normal_isbn,
    "github": normal_repository,
    "pypi": normal_distribution,
}
CODE = re.compile(r"\bgithub\.com/([\w-][\w.-]*/[\w-][\w.-]*[\w-])", re.IGNORECASE)
RETRACTS = frozenset({"retraction", "withdrawal", "removal"})
CONCERN = "expression_of_concern"
MARSHAL_VERSION = 0
"""Version 0 writes no references: with them the bytes would depend on which objects happen to be shared."""
TITLE_BYTES, DIGEST_BYTES = 48, 16
CONTENT = Title._fields.index("content")


class Pages(NamedTuple):
    first: str
    last: str
    """Empty if only the first page is known."""
    digits: str
    """All digits in sequence: "4150" is 41-50 with its dash lost."""


class Keys(NamedTuple):
    """The comparable fields of a record. Keys are ordered, so that results do not depend on the order of the input."""

    kind: str
    identifiers: tuple[tuple[str, str], ...]
    """(scheme, value), sorted."""
    title: Title
    authors: tuple[Name, ...]
    year: int
    """0 if unknown."""
    pages: Pages
    volume: str
    issue: str
    venue: str
    abstract: tuple[int, ...]
    """The smallest hashes of its word triples, ascending (bottom-k sketch, Broder 1997); estimates the overlap of two texts."""
    server: str
    """The preprint server of the record; "" if none."""
    notice: str
    """Effect and object of a notice, as `corrects / thetitle`; "" if the record is not a notice."""
    links: tuple[tuple[str, str, str], ...]
    """(relation, scheme, value) of relations that the record states: it `corrects` a DOI, or that DOI `corrects this`."""

    def identifier(self, scheme: str) -> str:
        return next((value for name, value in self.identifiers if name == scheme), "")


NO_PAGES = Pages("", "", "")


def make_keys(record: Record) -> Keys:
    identifiers = collect_identifiers(record)
    paper = record if isinstance(record, Paper) else None
    title, authors, year = _undo_bad_split(record)
    volume_text, pages = _split_volume(paper) if paper else (None, None)
    if paper and not year:
        year = _find_year(paper)
    volume = parse_number(volume_text)
    return Keys(
        kind=record.kind,
        identifiers=identifiers,
        title=parse_title(title),
        authors=parse_authors(authors),
        year=year,
        pages=parse_pages(pages),
        volume="" if volume == str(year) else volume,
        issue=parse_number(paper.issue) if paper else "",
        venue=normal_title(record.venue[:MAX_TITLE_CHARS]) if record.venue else "",
        abstract=sketch_abstract(record.abstract[:MAX_SKETCHED_CHARS]),
        server=find_server(dict(identifiers), record.venue),
        notice=parse_notice(record.title[: 2 * MAX_TITLE_CHARS]),
        links=collect_links(record),
    )


# fields that a parser of references cut at the wrong place

MOST_NAMES, PARTICLE = 3, 3
"""Words that a parser may have cut off an author's name, and letters of a small one such as "der"."""


def _undo_bad_split(record: Record) -> tuple[str, Sequence[str], int]:
    """Title, authors and year, 0 if unknown, without the end of the list of authors and the year that stand before the title.

    From "Freund, Y., R." and "Schapire (1996). Experiments with a new boosting algorithm" the second author is R. Schapire. Names before
    a year that do not complete the last author belong to the title: "Fama and French (1993): a replication".
    """
    title, authors, year = record.title[: 2 * MAX_TITLE_CHARS], record.authors, record.year if record.year in YEARS else 0
    bracket = YEAR_BEFORE_TITLE.match(title) if "(" in title[:YEARS_REACH] or "[" in title[:YEARS_REACH] else None
    if bracket is None:
        return title, authors, year or 0
    own_year = int(bracket["year"])
    rest, *others = BETWEEN_NAMES.split(bracket["names"].strip(" ,&"))
    names = (_is_initials(word) or word[:1].isupper() or len(word) <= PARTICLE for word in rest.replace(",", " ").split())
    completes = bool(authors) and len(rest.split()) <= MOST_NAMES and all(names) and _completes(authors[-1], rest)
    if (rest and not completes) or (year and year != own_year):
        return title, authors, year or 0
    if rest:
        authors = (*authors[:-1], f"{authors[-1]} {rest}", *others)
    return title[bracket.end() :], authors, year or own_year


def _completes(author: str, rest: str) -> bool:
    """Whether one has only initials, and the other none: "R. E." and "Schapire", "Haussler" and "D."."""
    initials, others = ([_is_initials(word) for word in text.replace(",", " ").split()] for text in (author, rest))
    return bool(initials and others) and len({*initials}) == 1 == len({*others}) and initials[0] != others[0]


def _is_initials(word: str) -> bool:
    """Dotted, or at most two capitals: "WHO" is an organisation."""
    return INITIALS.fullmatch(word) is not None and ("." in word or len(word) == 1 or (len(word) == 2 and word.isupper()))


def _find_year(paper: Paper) -> int:
    """The year in brackets behind the volume or the name of a meeting, 0 if there is none; a journal's may be that of its first volume."""
    venue = paper.venue if paper.venue and MEETING.search(paper.venue) else ""
    bracket = YEAR_AT_END.search(paper.volume or "") or YEAR_AT_END.search(venue)
    return int(bracket.group(1)) if bracket else 0


def _split_volume(paper: Paper) -> tuple[str | None, str | None]:
    """Volume and pages, also if both stand in the field of the pages, or the pages in that of the volume."""
    if paper.volume and not paper.pages and (span := PAGES_IN_VOLUME.match(paper.volume)):
        first, last = map(int, span.groups())
        if last - first >= MOST_VOLUMES and last not in YEARS:
            return None, paper.volume
    both = VOLUME_BEFORE_PAGES.match(paper.pages) if paper.pages else None
    if both is None or int(both["first"]) - int(both["volume"]) <= PAGES_SKIPPED:
        return paper.volume, paper.pages
    return (both["volume"], both["pages"]) if parse_number(paper.volume) in {"", both["volume"]} else (paper.volume, paper.pages)


# identifiers


def collect_identifiers(record: Record) -> tuple[tuple[str, str], ...]:
    """The record's identifiers, its address, its number at its source and, for an arXiv DOI, the arXiv number."""
    identifiers = dict[str, str]()
    for scheme, text in record.identifiers.pairs():
        if value := NORMAL[scheme](text[:MAX_IDENTIFIER_CHARS]):
            identifiers[scheme] = value
    doi = identifiers.get("doi", "")
    if doi.startswith(ARXIV_DOI) and "arxiv" not in identifiers and (number := normal_arxiv(doi.removeprefix(ARXIV_DOI))):
        identifiers["arxiv"] = number
    if (
        isinstance(record, Paper)
        and not doi
        and (place := ARXIV_IN_VENUE.search(f"{(record.venue or '')[:MAX_TITLE_CHARS]} {record.volume or ''}"))
    ):
        identifiers.setdefault("arxiv", place.group(1).lower())
    if record.url and (address := canonical_url(record.url[: 4 * MAX_IDENTIFIER_CHARS])):
        identifiers["url"] = address
    if record.source != LIBRARY and record.doc_id:
        identifiers["own"] = f"{record.source} {record.doc_id}"
    return tuple(sorted(identifiers.items()))


def find_server(identifiers: Mapping[str, str], venue: str | None = None) -> str:
    """The preprint server of the DOI; without a DOI that of an arXiv number, or of a venue such as "medRxiv"; else ""."""
    doi = identifiers.get("doi")
    if doi is None:
        named = SERVER.fullmatch((venue or "")[:MAX_TITLE_CHARS])
        return "arxiv" if "arxiv" in identifiers else SERVERS[named["name"].lower()] if named else ""
    if doi.startswith(ARXIV_DOI):
        return "arxiv"
    return doi.partition("/")[0] if PREPRINT_DOI.match(doi) else ""


def collect_links(record: Record) -> tuple[tuple[str, str, str], ...]:
    """Crossref's updates in both directions, and the repositories that a paper mentions."""
    links = set[tuple[str, str, str]]()
    for name, forward in (("update_to", True), ("updated_by", False)):
        updates = record.metadata.get(name)
        for update in updates if isinstance(updates, list) else ():
            if isinstance(update, dict) and (doi := normal_doi(str(update.get("doi") or ""))):
                type_ = str(update.get("type"))
                kind = "retracts" if type_ in RETRACTS else "comments on" if type_ == CONCERN else "corrects"
                links.add((kind if forward else f"{kind} this", "doi", doi))
    if record.kind != "repository" and "github.com/" in (text := record.abstract[: 2 * MAX_ABSTRACT_CHARS]):
        links.update(("code of this", "github", place.lower().removesuffix(".git")) for place in CODE.findall(text))
    return tuple(sorted(links))


# authors, pages, abstracts


def parse_authors(authors: Iterable[str]) -> tuple[Name, ...]:
    return tuple(filter(None, map(parse_name, islice(authors, MAX_AUTHORS))))


@lru_cache(maxsize=32_768)
def parse_pages(text: str | None) -> Pages:
    """Parse pages such as `pp. 123-9`, `123–129`, `S12-S15` and `e0227919`; none for "no pagination" and for dates."""
    if not text or MONTH.search(text):
        return NO_PAGES
    parts = [match for part in DASH.split(text[:60])[:2] if (match := PAGE.search(part))]
    if not parts:
        return NO_PAGES
    first, last = (f"{match.group(2)}" for match in (parts[0], parts[-1]))
    prefix = parts[0].group(1).lower()[-1:] if parts[0].group(1).lower() not in {"p", "pp", "page", "pages"} else ""
    if len(parts) == 1:
        return Pages(prefix + first, "", first)
    digits = first + last
    if len(last) < len(first):
        last = first[: len(first) - len(last)] + last
    return Pages(prefix + first, prefix + last, digits if len(digits) > len(first + last) else first + last)


@lru_cache(maxsize=8_192)
def parse_number(text: str | None) -> str:
    """The leading number of a volume or issue, with prefix `s` for a supplement; "" for "1)", a broken "(Suppl. 1)"."""
    if not text or MONTH.search(text) or (")" in text and "(" not in text):
        return ""
    match = VOLUME_NUMBER.search(text)
    number = match.group().lstrip("0") if match else ""
    return f"s{number}" if match and re.match(r"\W*s(?:\b|up)", text, re.IGNORECASE) else number


@lru_cache(maxsize=4_096)
def sketch_abstract(text: str) -> tuple[int, ...]:
    """The bottom-k sketch of a text.

    Only triples of words whose first word has 4, 8, ... letters are hashed: about a quarter, and the same quarter in every copy.
    """
    if not text:
        return ()
    text = text[:MAX_SKETCHED_CHARS]
    if "<" in text or "&" in text:
        text = TAG.sub(" ", unescape(text))
    tokens = text.lower().encode("utf-8", "surrogatepass").translate(PARTED).split()
    # in C, from the lengths of the words to the hashes
    sketched = compress(zip(tokens, tokens[1:], tokens[2:], strict=False), map(IS_SKETCHED.__getitem__, map(len, tokens)))
    return tuple(sorted(set(map(crc32, map(b" ".join, sketched))))[:SKETCH])


def resemblance(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Estimated share of the shorter text that the longer one contains, in [0, 1]. Neither sketch may be empty."""
    least = min(one[-1] if len(one) == SKETCH else 2**32, other[-1] if len(other) == SKETCH else 2**32)
    first, second = set(one[: bisect_right(one, least)]), set(other[: bisect_right(other, least)])
    return len(first & second) / max(1, min(len(first), len(second)))


# canonical bytes, for storage and for a total order: equal keys have equal bytes


def encode_keys(key: Keys) -> bytes:
    # without the mark that few titles have: ties are broken by these bytes, and the results of all others stay as they were
    title = tuple(key.title) if key.title.retracted else tuple(key.title)[:-1]
    plain: Any = (*key[:2], *key[4:5], *key[6:], title, tuple(map(tuple, key.authors)), tuple(key.pages))
    return marshal.dumps(plain, MARSHAL_VERSION)


def decode_keys(encoded_key: bytes) -> Keys:
    """Only for bytes that `encode_keys` returned in this process: marshal trusts its input."""
    kind, identifiers, year, *rest, title, authors, pages = marshal.loads(encoded_key)  # noqa: S302
    return Keys(kind, identifiers, Title(*title), tuple(map(Name._make, authors)), year, Pages(*pages), *rest)


def decode_content(encoded_key: bytes) -> tuple[str, ...]:
    """The content words of the title alone, as `decode_keys` returns them."""
    content: tuple[str, ...] = marshal.loads(encoded_key)[-3][CONTENT]  # noqa: S302
    return content


def sort_key(key: Keys, name: str = "", encoded_key: bytes | None = None) -> bytes:
    """Sort key of `TITLE_BYTES + DIGEST_BYTES` bytes: the title, then a digest of all fields and of `name`.

    `name` distinguishes equal keys. Pass `encoded_key` if `encode_keys(key)` is already known.
    """
    title = _title_bytes(key)
    whole = (encode_keys(key) if encoded_key is None else encoded_key) + name.encode("utf-8", "surrogatepass")
    return title + blake2b(whole, digest_size=DIGEST_BYTES).digest()


def sort_places(keys: Sequence[Keys], names: Sequence[str] = ()) -> list[int]:
    """Indexes of `keys` in the order of `sort_key`, which is computed in full only for equal titles."""
    titles = [_title_bytes(key) for key in keys]
    holders = Counter(titles)
    return sorted(
        range(len(keys)),
        key=lambda at: titles[at] if holders[titles[at]] == 1 else sort_key(keys[at], names[at] if names else ""),
    )


def _title_bytes(key: Keys) -> bytes:
    return key.title.compact.encode("utf-8", "surrogatepass")[:TITLE_BYTES].ljust(TITLE_BYTES)
