"""Notices about a work: retractions, withdrawals, expressions of concern, corrections.

Records keep what services and files report in their metadata, each in its own form. `list_notices` is the one place that reads them all:
Crossref's `updated_by` and `update_to` (with Retraction Watch), PubMed's `notices` and publication types, the flag `retracted` of OpenAlex,
arXiv's comment, and titles such as `RETRACTED: ...`. A notice is not the work that it is about: `Retraction: ...` is marked as a retraction
notice and never as retracted, whatever flag a service puts on it.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

from pydantic import Field, JsonValue

from outrider.state.model import Model

if TYPE_CHECKING:
    from outrider.state.records import Identifiers

NoticeKind = Literal[
    "retracted", "withdrawn", "partly retracted", "expression of concern", "corrected", "reinstated",
    "retraction notice", "withdrawal notice", "expression of concern notice", "correction notice",
]  # fmt: skip
"""The state of the work itself, the gravest first; then what the work is, if it is a notice about another work."""
KINDS: Final[tuple[NoticeKind, ...]] = get_args(NoticeKind)
GRAVE: Final = frozenset({"retracted", "withdrawn", "partly retracted", "expression of concern"})
"""Kinds that a reader must know before citing the work."""
NOTICE_OF: Final[Mapping[str, NoticeKind]] = {
    "retracted": "retraction notice", "partly retracted": "retraction notice", "withdrawn": "withdrawal notice",
    "expression of concern": "expression of concern notice", "corrected": "correction notice",
}  # fmt: skip
MAX_A_KIND = 20
"""Notices of one kind that are listed. All are read, so that a retraction behind 100,000 errata is seen."""
MAX_CHARS = 300
MAX_TITLE_CHARS = 2_000

UPDATES: Final[Mapping[str, NoticeKind]] = {
    "retraction": "retracted", "withdrawal": "withdrawn", "removal": "withdrawn", "partialretraction": "partly retracted",
    "expressionofconcern": "expression of concern", "reinstatement": "reinstated",
    **dict.fromkeys(("correction", "corrigendum", "erratum", "addendum", "clarification"), "corrected"),
}  # fmt: skip
"""Crossref's types of updates, as letters alone; new versions and editions are no notices."""
REFERENCES: Final[Mapping[str, NoticeKind]] = {
    "retraction_in": "retracted", "retracted_and_republished_in": "retracted", "expression_of_concern_in": "expression of concern",
    "erratum_in": "corrected", "corrected_and_republished_in": "corrected", "retraction_of": "retraction notice",
    "expression_of_concern_for": "expression of concern notice", "erratum_for": "correction notice",
}  # fmt: skip
"""PubMed's RefType in snake case."""
TYPES: Final[Mapping[str, NoticeKind]] = {
    **dict.fromkeys(("retractedpublication", "retractedarticle", "retracted"), "retracted"),
    **dict.fromkeys(("withdrawnpublication", "withdrawnarticle", "withdrawn"), "withdrawn"),
    **dict.fromkeys(("retractionofpublication", "retractionnotice", "retraction", "partialretraction"), "retraction notice"),
    "withdrawalnotice": "withdrawal notice", "expressionofconcern": "expression of concern notice",
    **dict.fromkeys(("publishederratum", "erratum", "correction", "corrigendum", "addendum"), "correction notice"),
}  # fmt: skip
"""Types of publication of PubMed, Web of Science, Scopus, OpenAlex and JATS, as letters alone."""
RELATIONS: Final[Mapping[str, NoticeKind]] = {
    "retracted by": "retracted", "corrected by": "corrected", "retracts": "retraction notice", "corrects": "correction notice",
}  # fmt: skip
CHECKS: Final = "notice_checks"
"""Metadata of a later look at the services, one entry for each that changed the notices: `date`, `services`, `notices`, `gone`, `basis`."""
REPORTERS_OF: Final[Mapping[str, frozenset[str]]] = {
    "crossref": frozenset({"crossref", "retraction-watch", "publisher"}), "pubmed": frozenset({"pubmed"}),
    "openalex": frozenset({"openalex"}), "arxiv": frozenset({"arxiv"}),
}  # fmt: skip
"""Who reports through each service."""
NOTES: Final = ("N1", "note", "notes", "extra")
"""Metadata with notes: of RIS, of BibTeX and CSL-JSON, of tables."""
MAX_NOTE_CHARS = 20_000
DESCRIBED = re.compile(
    rf"(?:^|; )(?P<kind>{'|'.join(sorted(KINDS, key=len, reverse=True))})(?: \((?P<details>[^()]*(?:\([^()]*\)[^()]*)*)\))?(?=; |\.?$)",
    re.IGNORECASE | re.MULTILINE,
)
TYPED_BY: Final = ("type", "subtype", "publication_types", "article_type", "M3")
FLAGS: Final = ("retracted", "is_retracted")
READ: Final = frozenset({"updated_by", "update_to", "notices", "comment", CHECKS, *TYPED_BY, *NOTES, *FLAGS})
"""Metadata with notices."""
TRUE: Final = frozenset({"true", "1", "yes", "y"})

TEXTS: Final = "article|paper|chapter|publication|manuscript"
TITLES: Final[Sequence[tuple[str, NoticeKind]]] = (
    # Elsevier, Springer and Cochrane write it ahead of the title, Web of Science and Ovid behind it
    (rf"[\s\[(<*“\"']*retracted(?: (?:{TEXTS}))?\s*[:\])>—–]", "retracted"),
    (r".*\S\s*[\[(]retracted\b[^\])]*[\])]\W*$", "retracted"),
    (rf"[\s\[(<*“\"']*withdrawn(?: (?:{TEXTS}))?\s*[:\])>]", "withdrawn"),
    (rf".*\S\s*[\[(]withdrawn(?: (?:{TEXTS}))?(?:[.,:;]? see\b[^\])]*)?\.?[\])]\W*$", "withdrawn"),
    (r".*\S\s*[\[(](?:article|publication) with expression of concern\b[^\])]*[\])]\W*$", "expression of concern"),
    (r".*\S\s*\[(?:published )?retraction (?:appears )?in\b[^\[\]]*\]\W*$", "retracted"),  # Ovid
    (r".*\S\s*[\[(]retraction of(?::| vol\b)[^\])]*[\])]\W*$", "retraction notice"),
    (r"\W*retraction\s*(?:(?:of|to|for|on)\s*)?[:\"“«]", "retraction notice"),
    (r"\W*(?:notice of retraction|retraction (?:note|notice|statement))\b", "retraction notice"),
    (r"\W*retraction (?:for|to) .{1,100}\bet al\b", "retraction notice"),
    (r".*\S\s*(?:[\[(]retraction[\])]|: retraction)\W*$", "retraction notice"),
    (r"\W*(?:notice of withdrawal|withdrawal (?:note|notice|statement))\b", "withdrawal notice"),
    (r"\W*(?:editorial )?(?:expression|note|notice) of concern\b", "expression of concern notice"),
    (
        r"\W*(?:(?:author|publisher)s?['’]?s? )?(?:correction|corrigend(?:um|a)|errat(?:um|a))s?\s*(?:(?:of|to|for)\s*)?[:\"“«]",
        "correction notice",
    ),
)
TITLE_WORDS = re.compile(r"retract|withdr|concern|correct|corrig|errat", re.IGNORECASE)
WITHDRAWN_COMMENT = re.compile(r"(?<!not )(?<!not been )\bwithdrawn\b(?! from)", re.IGNORECASE)
WITHDRAWN_ABSTRACT = re.compile(
    r"\W*(?:this|the) (?:paper|article|manuscript|submission|work|preprint|e-?print) (?:has been|is|was)(?: \w+)? withdrawn\b",
    re.IGNORECASE,
)
DOI = re.compile(r"10\.\d{4,9}/\S+")
DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?")
REPORTERS: Final[Mapping[str, str]] = {
    "crossref": "Crossref", "retraction-watch": "Retraction Watch", "publisher": "the publisher", "pubmed": "PubMed",
    "openalex": "OpenAlex", "arxiv": "arXiv", "title": "its title", "type": "its type of publication", "linked-record": "a linked record",
    "import": "its file",
}  # fmt: skip
"""Who reports a notice, for people."""


class Notice(Model):
    """One notice about a work, or the fact that the work is itself one."""

    kind: NoticeKind = Field(description="What happened to the work; kinds that end in `notice` are notices about another work.")
    date: str = Field("", description="ISO 8601, as far as known.")
    doi: str = Field("", description="DOI of the notice; of the other work, if this one is the notice.")
    pmid: str = Field("", description="PMID, likewise.")
    citation: str = Field("", description="Where the notice appeared, as the service words it.")
    reported_by: tuple[str, ...] = Field(
        (), description="`crossref`, `retraction-watch`, `publisher`, `pubmed`, `openalex`, `arxiv`, `title`, `type`, `linked-record`, ..."
    )

    @property
    def label(self) -> str:
        """`Retracted`, `Retraction notice`."""
        return self.kind[0].upper() + self.kind[1:]

    @property
    def key(self) -> tuple[str, str, str]:
        """What distinguishes it from other notices about the work."""
        return self.kind, self.doi, self.pmid

    def describe(self) -> str:
        """`Retracted (2020-01-31, doi:10.1000/x, reported by Crossref)` on one line."""
        by = ", ".join(REPORTERS.get(name, name) for name in self.reported_by)
        named = (f"doi:{self.doi}" if self.doi else "", f"pmid:{self.pmid}" if self.pmid else "", self.citation)
        details = ", ".join(filter(None, (self.date, *named, f"reported by {by}" if by else "")))
        return f"{self.label} ({details})" if details else self.label


class RelatedWork(Protocol):
    """`hits.Related`."""

    @property
    def relation(self) -> str: ...
    @property
    def doc_id(self) -> str: ...
    @property
    def title(self) -> str: ...


class NotedWork(Protocol):
    """What notices are read from: a record or a hit."""

    @property
    def title(self) -> str: ...
    @property
    def abstract(self) -> str: ...
    @property
    def identifiers(self) -> Identifiers: ...
    @property
    def metadata(self) -> dict[str, JsonValue]: ...


def list_notices(work: NotedWork, related: Sequence[RelatedWork] = ()) -> tuple[Notice, ...]:
    """All notices of a work, the gravest first, each once; reports of one notice are joined. `related` are works linked with it."""
    metadata = work.metadata
    if READ.isdisjoint(metadata) and not (related or work.identifiers.arxiv or TITLE_WORDS.search(work.title)):
        return ()  # most works, and a search lists the notices of a hundred
    explicit = [*_read_updates(work), *_read_references(metadata), *_read_types(metadata), *_read_notes(metadata), *_read_related(related)]
    title = _read_title(work.title[:MAX_TITLE_CHARS])
    titled = [Notice(kind=title, reported_by=("title",))] if title else []
    is_notice = any(notice.kind.endswith(" notice") for notice in (*explicit, *titled))
    if is_notice and title in ("retracted", "withdrawn"):
        titled = []  # publishers that call the notice `Retracted: ...`, too
    implied = [*titled, *_read_withdrawal(work)]
    if not is_notice:  # a service's flag is often on the notice instead of the article
        implied += _read_flag(work)
    found, gone = _read_checks(work.metadata)
    return tuple(notice for notice in _join([*explicit, *found], implied) if notice.key not in gone)


def _read_title(title: str) -> NoticeKind | None:
    if not TITLE_WORDS.search(title):  # most titles: the patterns would take longer than all else
        return None
    line = " ".join(title.split())
    return next((kind for pattern, kind in TITLES if re.match(pattern, line, re.IGNORECASE)), None)


def is_retracted(notices: Iterable[Notice]) -> bool:
    """Whether the work is retracted or withdrawn, and not reinstated later."""
    dates = [notice.date for notice in notices if notice.kind in ("retracted", "withdrawn")]
    back = max((notice.date for notice in notices if notice.kind == "reinstated"), default="")
    return any(not back or date > back for date in dates)


def is_reported(notice: Notice, others: Iterable[Notice]) -> bool:
    """Whether the same notice is among them, whoever reports it: a report without an identifier is any of its kind."""
    same_kind = [one for one in others if one.kind == notice.kind]
    if not (notice.doi or notice.pmid):
        return bool(same_kind)
    return any((one.doi and one.doi == notice.doi) or (one.pmid and one.pmid == notice.pmid) for one in same_kind)


def is_alarming(notice: Notice) -> bool:
    """Whether a reader must know it before citing the work."""
    return notice.kind in GRAVE


def describe_notices(notices: Iterable[Notice]) -> str:
    """One line, as exports carry it in a note; empty without notices."""
    return "; ".join(notice.describe() for notice in notices)


def _read_updates(work: NotedWork) -> Iterator[Notice]:
    """Crossref's updates. One that names the work itself is about the work: some publishers register the notice under its own DOI."""
    own = (work.identifiers.doi or "").lower()
    for name in ("updated_by", "update_to"):
        for update in _iter_mappings(work.metadata.get(name)):
            kind, doi = UPDATES.get(_letters(update.get("type"))), _read_doi(update.get("doi"))
            if kind is None:
                continue
            if name == "update_to" and doi != own:
                if kind not in NOTICE_OF:
                    continue
                kind = NOTICE_OF[kind]
            source = update.get("source")
            reporter = source if isinstance(source, str) and source in REPORTERS else "crossref"
            yield Notice(kind=kind, date=_read_date(update.get("date")), doi=doi, reported_by=(reporter,))


def _read_references(metadata: Mapping[str, JsonValue]) -> Iterator[Notice]:
    """PubMed's references to notices, and from notices to articles."""
    for reference in _iter_mappings(metadata.get("notices")):
        if kind := REFERENCES.get(str(reference.get("kind"))):
            pmid, citation = reference.get("pmid"), reference.get("source")
            number = str(pmid) if isinstance(pmid, str | int) and str(pmid).isascii() and str(pmid).isdecimal() else ""
            yield Notice(kind=kind, pmid=number[:10], citation=clean_line(citation), reported_by=("pubmed",))


def _read_types(metadata: Mapping[str, JsonValue]) -> Iterator[Notice]:
    for name in TYPED_BY:
        value = metadata.get(name)
        for part in value if isinstance(value, list) else [value]:
            # Web of Science: `Article; Retracted Publication`
            for word in part[:MAX_TITLE_CHARS].split(";") if isinstance(part, str) else ():
                if kind := TYPES.get(_letters(word)):
                    yield Notice(kind=kind, reported_by=("type",))


def _read_notes(metadata: Mapping[str, JsonValue]) -> Iterator[Notice]:
    """Notes as `Notice.describe` words them, in the fields to which bibliographies are exported."""
    for name in (*NOTES, "notices"):  # a column of our CSV, too
        value = metadata.get(name)
        for text in value[:MAX_TITLE_CHARS] if isinstance(value, list) else [value]:
            for match in DESCRIBED.finditer(text[:MAX_NOTE_CHARS]) if isinstance(text, str) else ():
                details = match["details"] or ""
                doi, pmid, date = (
                    re.search(pattern, details) for pattern in (r"\bdoi:(\S+?)(?:, |$)", r"\bpmid:(\d+)", r"^([\d-]{4,10})\b")
                )
                yield Notice(
                    kind=next(kind for kind in KINDS if kind == match["kind"].lower()),
                    date=_read_date(date[1]) if date else "",
                    doi=_read_doi(doi[1]) if doi else "",
                    pmid=pmid[1][:10] if pmid else "",
                    reported_by=("import",),
                )


def _read_checks(metadata: Mapping[str, JsonValue]) -> tuple[list[Notice], set[tuple[str, str, str]]]:
    """What the last check found, and the keys of what was gone then.

    The latter holds only for the metadata of that time: a notice that was read since is not hidden.
    """
    last = next(reversed([*_iter_mappings(metadata.get(CHECKS))]), None)
    if last is None:
        return [], set()
    found = [notice for one in _iter_mappings(last.get("notices")) if (notice := _parse_notice(one))]
    is_current = last.get("basis") == digest_notices(metadata)
    gone = [notice for one in _iter_mappings(last.get("gone")) if is_current and (notice := _parse_notice(one))]
    return found, {notice.key for notice in gone}


def _parse_notice(fields: Mapping[str, JsonValue]) -> Notice | None:
    kind, by = fields.get("kind"), fields.get("reported_by")
    if kind not in KINDS:
        return None
    pmid = fields.get("pmid")
    return Notice(
        kind=next(one for one in KINDS if one == kind),
        date=_read_date(fields.get("date")),
        doi=_read_doi(fields.get("doi")),
        pmid=pmid[:10] if isinstance(pmid, str) and pmid.isascii() and pmid.isdecimal() else "",
        citation=clean_line(fields.get("citation")),
        reported_by=tuple(one for one in (by if isinstance(by, list) else ()) if isinstance(one, str) and one in REPORTERS),
    )


def digest_notices(metadata: Mapping[str, JsonValue]) -> str:
    """Sha-256 of the metadata that notices are read from, without those of checks."""
    names = ("updated_by", "update_to", "notices", *FLAGS, *TYPED_BY, "comment")
    fields = {name: metadata[name] for name in names if name in metadata}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _read_related(related: Iterable[RelatedWork]) -> Iterator[Notice]:
    for one in related:
        if kind := RELATIONS.get(one.relation):
            doi = _read_doi(one.doc_id.partition(":")[2])
            citation = clean_line(one.title) or clean_line(one.doc_id)
            yield Notice(kind=kind, doi=doi, citation=citation, reported_by=("linked-record",))


def _read_withdrawal(work: NotedWork) -> Iterator[Notice]:
    """ArXiv keeps withdrawn preprints and says so in the comment; older ones say so in the abstract."""
    comment = work.metadata.get("comment")
    is_withdrawn = isinstance(comment, str) and WITHDRAWN_COMMENT.search(comment[:MAX_TITLE_CHARS])
    if work.identifiers.arxiv and (is_withdrawn or WITHDRAWN_ABSTRACT.match(work.abstract[:MAX_TITLE_CHARS])):
        yield Notice(kind="withdrawn", citation=clean_line(comment) if is_withdrawn else "", reported_by=("arxiv",))


def _read_flag(work: NotedWork) -> list[Notice]:
    values = (work.metadata.get(name) for name in FLAGS)
    if not any(value is True or value == 1 or (isinstance(value, str) and value.strip().lower() in TRUE) for value in values):
        return []
    service_id = work.metadata.get("record")
    names = (
        work.metadata.get("retracted_reported_by"),
        service_id.partition(":")[0] if isinstance(service_id, str) else "",
        getattr(work, "source", ""),
    )
    names = (*names, *(one.source for one in getattr(work, "found_by", ())))
    reporter = next((name for name in names if isinstance(name, str) and name in REPORTERS), "import")
    return [Notice(kind="retracted", reported_by=(reporter,))]


def _join(explicit: Iterable[Notice], implied: Iterable[Notice]) -> tuple[Notice, ...]:
    """One notice for reports with the same DOI or PMID; a report that names no notice joins the first of its kind."""
    by_kind: dict[NoticeKind, list[Notice]] = {}
    places: dict[tuple[str, str, str], int] = {}
    bare: list[Notice] = []
    for notice in (*explicit, *implied):
        if not (notice.doi or notice.pmid or notice.citation):
            bare.append(notice)
            continue
        listed = by_kind.setdefault(notice.kind, [])
        keys = [(notice.kind, name, value) for name in ("doi", "pmid", "citation") if (value := getattr(notice, name))]
        place = next((places[key] for key in keys[: 1 if notice.doi or notice.pmid else None] if key in places), None)
        if place is not None:
            listed[place] = _unite(listed[place], notice)
        elif len(listed) < MAX_A_KIND:
            place = len(listed)
            listed.append(notice)
        if place is not None:
            places.update(dict.fromkeys(keys, place))
    for notice in bare:
        listed = by_kind.setdefault(notice.kind, [])
        listed[:1] = [_unite(listed[0], notice) if listed else notice]
    return tuple(notice for kind in KINDS for notice in by_kind.get(kind, ()))


def _unite(one: Notice, other: Notice) -> Notice:
    fields = {name: getattr(one, name) or getattr(other, name) for name in ("date", "doi", "pmid", "citation")}
    return one.model_copy(update={**fields, "reported_by": tuple(dict.fromkeys((*one.reported_by, *other.reported_by)))})


def _iter_mappings(value: JsonValue) -> Iterator[dict[str, JsonValue]]:
    yield from (one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def _letters(value: JsonValue) -> str:
    return re.sub(r"[^a-z]", "", value[:MAX_CHARS].lower()) if isinstance(value, str) else ""


def _read_doi(value: JsonValue) -> str:
    match = DOI.fullmatch(value.strip().lower()) if isinstance(value, str) and len(value) <= MAX_CHARS else None
    return clean_line(match.group()) if match else ""


def _read_date(value: JsonValue) -> str:
    return value if isinstance(value, str) and DATE.fullmatch(value) else ""


def clean_line(value: JsonValue) -> str:
    """A text of somebody else on one line, without control and invisible characters, cut to `MAX_CHARS`."""
    if not isinstance(value, str):
        return ""
    # space separators and control characters are blanks; marks of direction and lone surrogates vanish
    chars = (" " if unicodedata.category(char) in ("Cc", "Zl", "Zp") else char for char in value[: 4 * MAX_CHARS])
    line = " ".join("".join(char for char in chars if unicodedata.category(char) not in ("Cf", "Cs")).split())
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"
