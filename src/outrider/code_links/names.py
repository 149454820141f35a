"""Names of papers, repositories and pages, and where they stand in a text.

A repository is `github:owner/name`, `gitlab:group/name`, `codeberg:...`, `bitbucket:...`, or `git:host/path` on another GitLab; a paper is
`doi:...`, `arxiv:...`, `pmid:...`, `pmcid:...`, or `title:...` where nothing else names it; a page is `page:host/path`. Forms of addresses
follow docs.github.com, docs.gitlab.com (groups may be nested) and the DOI handbook.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from outrider.linkage.identifiers import canonical_url, normal_arxiv, normal_doi, normal_pmcid, normal_pmid
from outrider.state.records import Record, Repository

HOSTS = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "codeberg", "bitbucket.org": "bitbucket"}
NO_OWNERS = frozenset(
    """about account apps blog collections contact customer-stories enterprise events explore features issues join login marketplace
    notifications organizations orgs premium-support pricing pulls readme resources search security sessions settings site solutions
    sponsors stars team topics trending users""".split()
)
"""First path segments of GitHub's own pages."""
ADDRESS = re.compile(
    r"(?<![\w.-])(?:(?:git\+)?https?://|ssh://git@|git@|git://)?(?:www\.)?"
    r"(?P<host>github\.com|gitlab\.com|codeberg\.org|bitbucket\.org|gitlab\.[a-z0-9-]+(?:\.[a-z0-9-]+){1,3})[/:]"
    r"(?P<broken>[ \t]?\r?\n[ \t]*)?(?P<owner>[A-Za-z0-9][\w.-]{0,99})(?P<rest>(?:/|(?=\s*\n\s*/))[^\s<>\"'`|{}\[\]\\^]*)",
    re.IGNORECASE,
)
RAW = re.compile(r"https?://raw\.githubusercontent\.com/([\w-]+)/([\w.-]+)/", re.IGNORECASE)
GITHUB_PAGE = re.compile(r"https?://([a-z0-9-]+)\.github\.io(?:/([\w.-]+))?", re.IGNORECASE)
SEGMENT = re.compile(r"[\w.-]+")
BROKEN_AFTER = re.compile(r"(?:[ \t]?\r?\n[ \t]*|[ ])([A-Za-z0-9][\w.-]*)")
"""The rest of an address that a PDF broke after a slash or a hyphen."""
SLUG = re.compile(r"(?=.*[-_\d]|[a-z]+[A-Z]|[A-Z]+[a-z]+[A-Z])[\w.-]+")
"""Only a name that no plain word is continues a broken address."""
TRAILING = ".,;:!?'\"”’)]}>*_"

PAPER = re.compile(
    r"(?P<doi>10\.\d{4,9}(?:/|%2F)(?:\\_|\\%|(?!</|\]\(|\)\]|\*\*)[^\s\"'<>|`{}\\])+)"
    r"|(?:arxiv\.org/(?:abs|pdf|html)/|arxiv[:\s]\s?|(?:huggingface\.co|hf\.co)/papers/|alphaxiv\.org/abs/)(?P<arxiv>\d"
    r"{4}\.\d{4,5}|[a-z-]+(?:\.[a-z]{2})?/\d{7})(?:v\d+)?"
    r"|(?:aclanthology\.org|aclweb\.org/anthology(?:/papers)?(?:/[A-Z]/[A-Z]\d\d)?)/(?P<acl>\d{4}\.[a-z0-9_-]+\.\d+|[A-Z]\d\d-\d{4})"
    r"|(?:pubmed\.ncbi\.nlm\.nih\.gov/|ncbi\.nlm\.nih\.gov/pubmed/)(?P<pmid>\d{1,9})|(?:/articles/)(?P<pmcid>PMC\d{3,9})",
    re.IGNORECASE,
)
VIEW = re.compile(r"(?:/status)?\.svg.*$|/status$|\.(?:pdf|full|abstract|html?)$|/(?:full|pdf|abstract|meta|epdf)$", re.IGNORECASE)
ARXIV_DOI = re.compile(r"10\.48550/arxiv\.(.+)")
NOT_LETTERS = re.compile(r"[\W_]+")
LEAST_TITLE_WORDS = 3
"""A shorter title names too many works."""


class NameInText(NamedTuple):
    name: str
    start: int
    end: int


def find_repositories(text: str) -> Iterator[NameInText]:
    """Addresses of repositories in a text, in order; those of GitHub's own pages are left out."""
    if "git" not in text and "codeberg" not in text and "bitbucket" not in text and "Git" not in text:
        return
    for match in ADDRESS.finditer(text):
        path, end = _read_path(text, match)
        name = normal_address(match["host"], path)
        if name:
            yield NameInText(name, match.start(), end)
    for match in RAW.finditer(text):
        yield NameInText(f"github:{match[1]}/{match[2]}".lower(), match.start(), match.end())


def _read_path(text: str, match: re.Match[str]) -> tuple[list[str], int]:
    """The segments of the path, continued over a line break or a space after a slash or a hyphen if the rest looks like a name."""
    whole, end = match["owner"] + match["rest"], match.end()
    broken_at_start = match["broken"] is not None
    if (
        whole.endswith(("/", "-"))
        and whole.count("/") <= 1
        and (more := BROKEN_AFTER.match(text, end))
        and SLUG.fullmatch(more[1].rstrip(TRAILING))
    ) or (whole.endswith("-") and (more := BROKEN_AFTER.match(text, end)) and "\n" in more.group()):
        whole, end = whole + more[1], more.end()
    segments = re.split(r"[/?#]", whole)
    if broken_at_start and not SLUG.fullmatch(segments[0]) and len(segments) < 2:
        return [], end
    return segments, end


def normal_address(host: str, segments: list[str]) -> str | None:
    """The name of the repository at a path; None for a path that is none."""
    host = host.lower()
    scheme = HOSTS.get(host, "git")
    names = [segment for segment in (segment.rstrip(TRAILING) for segment in segments) if segment]
    if len(names) < 2 or not all(map(SEGMENT.fullmatch, names[:2])):
        return None
    if scheme == "github" and names[0].lower() in NO_OWNERS:
        return None
    kept = names[:2]
    if scheme in ("gitlab", "git"):  # groups may be nested; `-` parts a repository from its pages
        kept = []
        for name in names:
            if name in ("-", "tree", "blob", "issues", "raw", "merge_requests", "commit", "wikis") or not SEGMENT.fullmatch(name):
                break
            kept.append(name)
        if len(kept) < 2:
            return None
    kept[-1] = kept[-1].removesuffix(".git")
    path = "/".join(kept).lower()
    return (f"git:{host}/{path}" if scheme == "git" else f"{scheme}:{path}") if kept[-1] else None


def parse_repository_address(url: str | None) -> str | None:
    """The name of the repository that a whole address is of, or lies in."""
    return next((one.name for one in find_repositories(url or "")), None)


def repository_url(name: str) -> str | None:
    """The address of a repository by its name."""
    scheme, _, path = name.partition(":")
    host = next((host for host, known in HOSTS.items() if known == scheme), None)
    return f"https://{path}" if scheme == "git" else f"https://{host}/{path}" if host else None


def find_papers(text: str) -> Iterator[NameInText]:
    """Identifiers of papers in a text, in order."""
    if "10." not in text and "rxiv" not in text.lower() and "acl" not in text and "papers/" not in text and "ncbi" not in text:
        return
    for match in PAPER.finditer(text):
        if match["doi"] and "shields.io" in text[max(0, match.start() - 60) : match.start()]:
            continue  # the badge's picture escapes hyphens; its link names the DOI
        if name := normal_paper(match.lastgroup or "", match[match.lastgroup or 0]):
            yield NameInText(name, match.start(), match.end())


def normal_paper(scheme: str, value: str) -> str | None:
    """`doi:...` and so on; arXiv's DOIs as arXiv numbers, and papers of the ACL anthology by their DOI."""
    if scheme == "doi":
        doi = normal_doi(VIEW.sub("", unquote(value.replace("\\", ""))).rstrip(TRAILING + "(") or "")
        if not doi:
            return None
        number = ARXIV_DOI.fullmatch(doi)
        arxiv = normal_arxiv(number[1]) if number else None
        return f"arxiv:{arxiv}" if arxiv else f"doi:{doi}"
    if scheme == "acl":
        return f"doi:10.18653/v1/{value.lower()}"
    if scheme == "arxiv":
        return f"arxiv:{arxiv}" if (arxiv := normal_arxiv(value)) else None
    if scheme == "pmid":
        return f"pmid:{pmid}" if (pmid := normal_pmid(value)) else None
    return f"pmcid:{pmcid}" if (pmcid := normal_pmcid(value)) else None


def is_archive(name: str) -> bool:
    """Whether a DOI is of Zenodo, which archives releases of repositories."""
    return name.startswith("doi:10.5281/zenodo.")


def title_name(title: str) -> str | None:
    """`title:...` in lower case without punctuation; None for a title that names too many works."""
    words = NOT_LETTERS.sub(" ", title.casefold()).split()
    return f"title:{' '.join(words)}" if len(words) >= LEAST_TITLE_WORDS else None


def squeeze(text: str) -> str:
    """Lower case without spaces and punctuation: names are compared so."""
    return NOT_LETTERS.sub("", text.casefold())


def list_paper_names(record: Record) -> tuple[str, ...]:
    """All names under which evidence may know a paper."""
    own = record.identifiers
    pairs = (("doi", own.doi), ("arxiv", own.arxiv), ("pmid", own.pmid), ("pmcid", own.pmcid))
    names = [name for scheme, value in pairs if value and (name := normal_paper(scheme, value))]
    names += [f"doc:{record.doc_id}"]
    if title := title_name(record.title):
        names.append(title)
    return tuple(dict.fromkeys(names))


def list_repository_names(record: Record) -> tuple[str, ...]:
    """All names under which evidence may know a repository: its address on a code host, a package's name, its id."""
    own = record.identifiers
    names = [f"github:{own.github.lower()}"] if own.github else []
    names += [address] if (address := parse_repository_address(record.url)) else []
    names += [f"pypi:{own.pypi.lower()}"] if own.pypi else []
    return tuple(dict.fromkeys((*names, f"doc:{record.doc_id}")))


def list_names(record: Record) -> tuple[str, ...]:
    """All names of a record of any kind."""
    if isinstance(record, Repository):
        names = list_repository_names(record)
        return (*names, *(one for one in list_paper_names(record) if one.startswith("doi:")))
    names = list_paper_names(record)
    page = page_name(record.url) if record.kind == "page" else None
    return (*names, page) if page else names


def page_name(url: str | None) -> str | None:
    address = canonical_url(url or "")
    return f"page:{address}" if address else None
