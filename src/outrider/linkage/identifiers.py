"""Identifiers in normal form.

Each function returns None for text that is no such identifier; none of them guesses.

Forms follow the registries: DOI handbook §2.2 (case-insensitive, prefix `10.`), NLM (PMID, PMCID), arXiv identifier scheme
(both before and after 2007), ISO 2108 (ISBN, check digit verified), PEP 503 (distribution names).
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

DOI = re.compile(r"10\.\d{4,9}/(?:(?!</)[^\s\"])+", re.IGNORECASE)
ARXIV = re.compile(r"(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?", re.IGNORECASE)
ARXIV_PREFIX = re.compile(r"^(?:arxiv:|(?:https?://)?(?:www\.)?(?:export\.)?arxiv\.org/(?:abs|pdf)/)", re.IGNORECASE)
PMID_PREFIX = re.compile(r"^(?:pmid:?\s*|https?://(?:www\.)?(?:pubmed\.ncbi\.nlm\.nih\.gov|ncbi\.nlm\.nih\.gov/pubmed)/)", re.IGNORECASE)
MAX_DIGITS = 9
PMCID = re.compile(r"(?:^|[/:\s])PMC(\d+)", re.IGNORECASE)
OPENALEX = re.compile(r"(?:^|/)([waspi]\d{2,12})/?$", re.IGNORECASE)
OPENALEX_WORK = re.compile(r"(?P<prefix>openalex:\s*|(?:https?://)?(?:api\.)?openalex\.org/(?:works/)?)?(W\d{2,12})/?", re.IGNORECASE)
S2 = re.compile(r"(?:^|/|:)([0-9a-f]{40}|\d{3,12})/?$", re.IGNORECASE)
REPOSITORY = re.compile(r"^(?:(?:https?://|git@)?(?:www\.)?github\.com[/:])?([\w-][\w.-]*)/([\w.-]+?)(?:\.git)?/?$", re.IGNORECASE)
IN_TEXT = re.compile(
    r"(?:arxiv[:\s]\s*|arxiv\.org/(?:abs|pdf)/)(?P<arxiv>\d{4}\.\d{4,5}|[a-z-]+(?:\.[a-z]{2})?/\d{7})|(?<![\w.])(?P<number>\d{4}\.\d{5})(?:v\d+)?(?![\w.]*\w)"
    r"|(?:pmid[:\s]\s*|pubmed\.ncbi\.nlm\.nih\.gov/|ncbi\.nlm\.nih\.gov/pubmed/)(?P<pmid>\d{1,9})(?!\d)|\b(?P<pmcid>PMC\d{3,9})\b",
    re.IGNORECASE,
)
"""Identifiers, other than DOIs, within a sentence; a number alone only in arXiv's form since 2015."""
PMID_ALONE = re.compile(r"\s*\d{5,9}\s*")
"""A text of fewer digits alone may be a year."""
TRACKING = re.compile(r"utm_\w+|fbclid|gclid|mc_cid|mc_eid|ref|source|via", re.IGNORECASE)
HOST = "www."
TRAILING = ".,;:'\"”’"


@lru_cache(maxsize=16_384)
def normal_doi(text: str) -> str | None:
    """`10.1000/xyz` from a DOI in any form: resolver URL, `doi:` prefix, percent-encoding, trailing punctuation."""
    match = DOI.search(unquote(text))
    if not match:
        return None
    doi = match.group().rstrip(TRAILING).lower()
    for opening, closing in ("()", "[]", "{}", "<>"):  # a bracket around the DOI is not part of it; one inside (SICI) is
        if doi.endswith(closing) and doi.count(closing) > doi.count(opening):
            doi = doi[:-1].rstrip(TRAILING)
    return doi


def normal_arxiv(text: str) -> str | None:
    """`2101.00001` or `hep-th/9901001`, without version; a bare number only in arXiv's own form."""
    match = ARXIV.fullmatch(ARXIV_PREFIX.sub("", text.strip()).removesuffix(".pdf"))
    return match.group(1).lower() if match else None


def normal_pmid(text: str) -> str | None:
    digits = PMID_PREFIX.sub("", text.strip()).rstrip("/")
    return _number(digits) if digits.isascii() and digits.isdigit() else None


def normal_pmcid(text: str) -> str | None:
    match = PMCID.search(text.strip())
    number = _number(match.group(1)) if match else None
    return f"PMC{number}" if number else None


def _number(digits: str) -> str | None:
    """Without leading zeros; None for zero, and for more than `MAX_DIGITS` digits."""
    bare = digits.lstrip("0")
    return bare if 0 < len(bare) <= MAX_DIGITS else None


def find_identifiers(text: str) -> tuple[tuple[str, str], ...]:
    """The DOIs, arXiv numbers, PMIDs and PMCIDs in a request, each once, as pairs of scheme (a field of `Identifiers`) and value."""
    if not any(char.isdigit() for char in text):
        return ()
    if PMID_ALONE.fullmatch(text):
        return (("pmid", number),) if (number := normal_pmid(text)) else ()
    pairs = [("doi", doi) for match in DOI.finditer(unquote(text)) if (doi := normal_doi(match.group().rstrip("?!")))]
    for match in IN_TEXT.finditer(DOI.sub(" ", text)):
        scheme, value = next((name, value) for name, value in match.groupdict().items() if value)
        scheme = "arxiv" if scheme == "number" else scheme
        normal = {"arxiv": normal_arxiv, "pmid": normal_pmid, "pmcid": normal_pmcid}[scheme](value)
        pairs += [(scheme, normal)] if normal else []
    return tuple(dict.fromkeys(pairs))


@lru_cache(maxsize=16_384)
def normal_isbn(text: str) -> str | None:
    """The 13-digit form, from ISBN-10 or ISBN-13 with a right check digit."""
    digits = re.sub(r"[^0-9Xx]", "", re.sub(r"^isbn(?:-1[03])?:?", "", text.strip(), flags=re.IGNORECASE)).upper()
    if len(digits) == 10 and digits[:9].isdigit():
        if sum((10 - place) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits)) % 11:
            return None
        digits = "978" + digits[:9]
        return digits + _check_13(digits)
    return digits if len(digits) == 13 and digits.isdigit() and digits[-1] == _check_13(digits[:12]) else None


def normal_distribution(name: str) -> str:
    """A Python distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normal_openalex(text: str) -> str | None:
    """`W123` from `https://openalex.org/W123`."""
    match = OPENALEX.search(text.strip())
    return match.group(1).upper() if match else None


def normal_openalex_work(text: str) -> str | None:
    """The same of a work alone, also from `openalex:W123`."""
    match = OPENALEX_WORK.fullmatch(text.strip())
    return match.group(2).upper() if match else None


def find_openalex_work(text: str) -> str | None:
    """The same of a text that names OpenAlex: a bare `W123` may be a number of somebody else's."""
    match = OPENALEX_WORK.fullmatch(text.strip())
    return match.group(2).upper() if match and match["prefix"] else None


def normal_s2(text: str) -> str | None:
    """A paper's 40 hexadecimal digits, or its corpus number."""
    match = S2.search(text.strip())
    return match.group(1).lower() if match else None


def normal_repository(text: str) -> str | None:
    """`owner/name` in lower case, from an address or from `owner/name` itself; GitHub ignores case."""
    match = REPOSITORY.match(text.strip())
    return f"{match.group(1)}/{match.group(2)}".lower() if match else None


@lru_cache(maxsize=16_384)
def canonical_url(text: str) -> str | None:
    """The address without scheme, `www.`, fragment, tracking parameters and final slash, parameters sorted; None if not a web address."""
    try:
        parts = urlsplit(text.strip())
        host, port = (parts.hostname or "").removeprefix(HOST), parts.port
    except ValueError:
        return None
    if parts.scheme.lower() not in {"http", "https"} or not host:
        return None
    parameters = sorted((name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not TRACKING.fullmatch(name))
    place = f"{host}:{port}" if port not in {None, 80, 443} else host
    return f"{place}{parts.path.rstrip('/')}{'?' + urlencode(parameters) if parameters else ''}"


def _check_13(digits: str) -> str:
    return str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10)
