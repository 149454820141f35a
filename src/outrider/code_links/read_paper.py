"""Repositories that a paper names, and whether they are its own code

"Our code is available at ..." is not "we used X (github...)": each address gets points from its sentence and section, and at `OWN_POINTS`
the repository is the paper's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from outrider.code_links.names import (
    GITHUB_PAGE,
    NameInText,
    find_papers,
    find_repositories,
    is_archive,
    list_paper_names,
    page_name,
    squeeze,
)
from outrider.code_links.read_repository import quote
from outrider.state.code_links import EvidencePlace, LinkEvidence, LinkKind
from outrider.state.records import Record

OWN_POINTS = 4
MOST_CHARS = 600_000
MOST_ADDRESSES = 100
ARTEFACT = (
    r"(?:source[- ]?codes?|codes?|scripts?|implementations?|software|packages?|toolkits?|toolbox(?:es)?|"
    r"librar(?:y|ies)|tools?|programs?|models?|weights|materials?|"
    r"experiments?|details|results|notebooks?|benchmarks?|frameworks?|repositor(?:y|ies)|demo|resources|"
    r"paper list|corpus|data ?sets?|data|artifacts?|pipeline|simulator|it)"
)
AVAILABLE = re.compile(
    r"\b(?:available|accessible|released|open[- ]?sourced?|hosted|downloadable|found|obtained|downloaded|"
    r"maintained?|published|provided|shared|deposited|accessed)\b",
    re.IGNORECASE,
)
OWN_SUBJECT = re.compile(
    rf"\b(?:our|this (?:paper|work|study|article)'s|the authors'?|all(?: the)?(?: of)?(?: our)?|the accompanying|"
    rf"we (?:also |will |have |publicly |openly |further |consistently )*(?:releas|open|publi|provid|shar|"
    rf"mak|made|maintain|host|implement|develop|present))\b|\b(?:will be|be made)\b[^.]{{0,40}}\b(?:available|"
    rf"released|public)"
    rf"|(?:^|[.;,:(]\s*|\band )(?:(?:the|python|matlab|r|c\+\+|pytorch|jax|julia|source|data and|all|its|"
    rf"full|reproducible|an open[- ]source|open[- ]source)\s+)*{ARTEFACT}\b",
    re.IGNORECASE,
)
ARTEFACTS = re.compile(rf"\b{ARTEFACT}\b", re.IGNORECASE)
CODE = re.compile(
    r"\b(?:codes?|implementations?|software|scripts?|packages?|librar(?:y|ies)|toolkits?|repositor(?:y|ies)|notebooks?|tool|program)\b",
    re.IGNORECASE,
)
SECTION = re.compile(
    r"(?:^|\n)\W{0,4}(?:\d[\d.]*\s*)?(?:(?:data|code|software|materials?|source code|resource|model|weights)(?:,? (?:a"
    r"nd|&) (?:data|code|software|materials?|model))? (?:availability|access|sharing)(?: statement)?"
    r"|availability(?: and (?:implementation|requirements))?(?: of (?:data|code|software)[\w ]{0,30})?|"
    r"project home ?page|supplementary (?:code|software))\b",
    re.IGNORECASE,
)
LABEL = re.compile(
    r"(?:^|[\n.;|(]\s*)(?:availability(?: and implementation)?|code|source code|software|github|project home ?page|"
    r"implementation|repository|code and data|data and code)\s*(?:\([^)]*\))?\s*[:=–—-]\s*\S{0,20}\s*$",
    re.IGNORECASE,
)
USES = re.compile(
    r"\b(?:we|was|were|is|are|been|have)\s+(?:\w+ ){0,2}?(?:used?|using|employ(?:ed)?|adopt(?:ed)?|appl(?:y|"
    r"ied)|adapt(?:ed)?|modif(?:y|ied)|utili[sz]ed?|trained|computed|performed|evaluated|implemented|"
    r"run|conducted|compared|build|built|borrow(?:ed)?|follow(?:ed)?|rel(?:y|ied))\b(?![^.]{0,20}\bto (?:release|"
    r"share))"
    r"|\b(?:using|via the|with the help of|based (?:up)?on|built (?:up)?on|adapted from|modified from|"
    r"derived from|(?:provided|developed|released|published|written|maintained|implemented|described|"
    r"proposed) by|downloaded from|obtained from|taken from|borrowed from|fork(?:ed)? (?:of|from)|baselines?|"
    r"third[- ]party|existing|publicly available (?:tool|implementation|code|software) |inspired by|thanks? to|"
    r"courtesy of|the official (?:code|implementation|repository)|(?<!\ball )(?<!\bour )original (?:code|implementation|authors?)|"
    r"(?:software|tools?|packages?|programs?|data(?: ?sets?)?) used (?:in|for|by|here)|"
    r"their (?:code|implementation|official|github|released|public|repository))\b",
    re.IGNORECASE,
)
SUBJECT = re.compile(r"(?:^|[.;:•]\s*)(?:the )?([\w+-]{2,40})(?: \w+){0,2} (?:is|are)\b", re.IGNORECASE)
CITED = re.compile(r"\bet al\.?|\[\d{1,3}(?:[,–-]\s?\d{1,3})*\]|\((?:[A-Z][\w-]+(?: and [A-Z][\w-]+)?,? )(?:19|20)\d\d\w?\)")
REFERENCES = re.compile(
    r"(?:^|\n)\W{0,4}(?:\d[\d.]*\s*)?(?:references|bibliography|literature cited|works cited)\s*(?:\n|$)", re.IGNORECASE
)
END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!al\.)(?<!cf\.)\s+(?=(?:[•▪*–-]\s*)?[\"“(\[]?[A-Z0-9])|\n\s*\n")
ACRONYM = re.compile(r"^\W*([\w+.-]{2,30})\s*[:–—]")
ARCHIVED = re.compile(r"^(?P<owner>[\w-]+)/(?P<name>[\w.-]+?)\s*(?::|$)")

OF_OTHERS = re.compile(
    r"^(?:an? |the |on )?(?:\w+ )?(?:survey|review|evaluation|comparison|assessment|replication|reproduction|study|overview|critique)\b"
    r"|^(?:evaluat|compar|assess|reproduc|replicat|revisit|us|understand|benchmark|analy[sz]|review)ing\b",
    re.IGNORECASE,
)
"""Titles of papers about what others made: that a repository is named in one does not make it the paper's own."""
COMMON = frozenset(
    """code data model models learning network networks deep python tool tools software analysis toolbox library package survey
    benchmark""".split()
)
"""Words of titles that many repositories are named by."""


def read_paper(record: Record) -> Iterator[LinkEvidence]:
    """Evidence in a paper's own texts; a record without an address in it costs one look at each."""
    names = list_paper_names(record)
    if record.identifiers.doi and is_archive(f"doi:{record.identifiers.doi}"):
        yield from _read_archive(record, names[0])
    comment = record.metadata.get("comment")
    texts: list[tuple[EvidencePlace, str, str]] = [
        ("abstract", record.abstract or record.description, ""),
        ("text", record.text[:MOST_CHARS], ""),
    ]
    texts += [("metadata", comment, "comment")] if isinstance(comment, str) else []
    for place, text, field in texts:
        yield from _read_text(record, names[0], place, text, field)


def _read_text(record: Record, work: str, place: EvidencePlace, text: str, field: str) -> Iterator[LinkEvidence]:
    best: dict[str, LinkEvidence] = {}
    references = next((match.start() for match in REFERENCES.finditer(text) if match.start() > len(text) // 3), len(text))
    for address in islice(find_repositories(text), MOST_ADDRESSES):
        points = -9 if address.start > references else count_points(record, text, address, short=place != "text")
        kind: LinkKind = (
            "paper's own code" if points >= OWN_POINTS else "uses" if USES.search(_sentence_before(text, address.start)) else "mentions"
        )
        sure = min(0.97, 0.8 + 0.02 * points) if kind == "paper's own code" else 0.4 if kind == "uses" else 0.3
        evidence = LinkEvidence(
            work=work,
            target=address.name,
            kind=kind,
            read_in=record.doc_id,
            place=place,
            field=field,
            line=text.count("\n", 0, address.start) + 1 if place == "text" else None,
            start=address.start,
            end=address.end,
            words=quote(text, address.start, address.end),
            confidence=round(sure, 3),
        )
        known = best.get(address.name)
        if known is None or evidence.confidence > known.confidence:
            best[address.name] = evidence
    yield from best.values()
    yield from _read_pages(record, work, place, text, references)


def count_points(record: Record, text: str, address: NameInText, *, short: bool) -> int:
    """How much says that a repository is the paper's own; `short` for an abstract, which rarely names others' code."""
    before = _sentence_before(text, address.start)
    after = END.split(text[address.end : address.end + 120])[0]
    sentence = f"{before} {after}"
    uses, available = USES.search(before), AVAILABLE.search(sentence)
    # "Using X, we ...; our code is available at": only what stands after it counts
    late_own = list(OWN_SUBJECT.finditer(before))
    if uses and late_own and late_own[-1].start() > uses.end() and AVAILABLE.search(before, late_own[-1].start()):
        uses = None
    own = bool(late_own)
    named = agrees_with_title(address.name, record.title)
    points = 2 * bool(available) + 2 * own + bool(ARTEFACTS.search(before[-160:])) + 3 * named
    points += OWN_POINTS * bool(LABEL.search(before[-80:])) + 3 * _in_availability(text, address.start)
    points += bool(short and CODE.search(before))
    points -= 5 * bool(uses) + 2 * bool(CITED.search(before[-100:]) and not named)
    if available and not own and not named and not LABEL.search(before[-80:]):
        points -= 1  # "X is available at ...": X is rather another's
    points += 0 if named else _judge_subject(record, before, address.name)
    return points


def _judge_subject(record: Record, before: str, name: str) -> int:
    """Points for "X is available at .../X": the paper's own tool if its texts present X ("we developed X", "X is a"), else another's."""
    subject = SUBJECT.search(before)
    word = subject[1] if subject else ""
    if not word or squeeze(word) != squeeze(name.rpartition("/")[2]):
        return 0
    word = re.escape(word)
    presented = (
        rf"\b(?:we|here we|this (?:paper|work|article)) (?:\w+ ){{0,2}}(?:present|introduc|develop|propos|describ|releas|creat|design|"
        rf"built)\w*\b[^.]{{0,60}}\b{word}\b|\bour\b[^.]{{0,40}}\b{word}\b"
    )
    texts = f"{record.abstract or record.description}\n{record.text[:MOST_CHARS]}"
    return 3 if re.search(presented, texts, re.IGNORECASE) else -OWN_POINTS


def agrees_with_title(name: str, title: str) -> bool:
    """Whether the repository is named after the paper: its acronym, or two words of the title in a row."""
    if OF_OTHERS.match(title):
        return False
    squeezed = squeeze(name.rpartition("/")[2])
    if len(squeezed) < 3:
        return False
    words = [squeeze(word) for word in title.split()]
    acronym = ACRONYM.match(title)
    if acronym and squeeze(acronym[1]) == squeezed:
        return True
    runs = {"".join(words[start:end]) for start in range(len(words)) for end in range(start + 1, min(start + 9, len(words)) + 1)}
    marked = {squeeze(word) for word in re.findall(r"\b\w*[a-z]*[A-Z]\w*[A-Z]\w*\b", title)}
    return (
        squeezed in marked
        or (len(squeezed) >= 6 and squeezed in runs and squeezed not in words)
        or (len(squeezed) >= 4 and squeezed in words and squeezed not in COMMON)
    )


def _sentence_before(text: str, at: int) -> str:
    return END.split(text[max(0, at - 400) : at])[-1].replace("\n", " ")


def _in_availability(text: str, at: int) -> bool:
    """Whether the nearest heading of a section within some lines is one of availability."""
    start = max(0, at - 700)
    matches = list(SECTION.finditer(text, start, at))
    return bool(matches) and text.count("\n\n", matches[-1].end(), at) <= 2


def _read_pages(record: Record, work: str, place: EvidencePlace, text: str, references: int) -> Iterator[LinkEvidence]:
    if ".github.io" not in text:
        return
    for match in islice(GITHUB_PAGE.finditer(text, 0, references), 5):
        before = _sentence_before(text, match.start())
        is_own = bool(
            AVAILABLE.search(before) or re.search(r"\bproject (?:web ?)?(?:page|site)\b", before, re.IGNORECASE)
        ) and not USES.search(before)
        if is_own and (page := page_name(match.group().rstrip("."))):
            yield LinkEvidence(
                work=work, target=page, kind="page", read_in=record.doc_id, place=place, start=match.start(), end=match.end(),
                words=quote(text, match.start(), match.end()), confidence=0.85,
            )  # fmt: skip


def _read_archive(record: Record, work: str) -> Iterator[LinkEvidence]:
    """Zenodo names a release of a repository `owner/name: title`; its description may have the address."""
    match = ARCHIVED.match(record.title)
    links = [one.name for one in find_repositories(" ".join(str(value) for value in record.metadata.values() if isinstance(value, str)))]
    target = f"github:{match['owner']}/{match['name']}".lower() if match else next(iter(links), None)
    if target:
        yield LinkEvidence(
            work=work, target=target, kind="archive", read_in=record.doc_id, place="record", field="title" if match else "links",
            words=record.title[:200], confidence=0.9 if match else 0.7,
        )  # fmt: skip


def read_page(record: Record) -> Iterator[LinkEvidence]:
    """A page that names one repository and one paper of the same name, such as a project's home page, is a page of both."""
    page = page_name(record.url)
    if not page:
        return
    text = "\n".join((record.description, record.text[:20_000]))
    repositories = list(dict.fromkeys(one.name for one in find_repositories(text)))
    papers = list(dict.fromkeys(one.name for one in find_papers(text)))
    own = [name for name in repositories if agrees_with_title(name, record.title)]
    if len(own) == 1:
        yield LinkEvidence(
            work=own[0], target=page, kind="page", read_in=record.doc_id, place="text", words=record.title[:200], confidence=0.8
        )
        if len(papers) == 1:
            yield LinkEvidence(
                work=papers[0], target=page, kind="page", read_in=record.doc_id, place="text", words=record.title[:200], confidence=0.7
            )
