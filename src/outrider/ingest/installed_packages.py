"""Python packages of this environment as repository records, from their core metadata.

The fields are those of PEP 566 and PEP 643. A requirement is an edge `depends_on`, one of an extra `suggests`; other environment
markers are not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import Distribution, distributions
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed
from outrider.linkage.identifiers import normal_distribution
from outrider.state.records import Edge, Identifiers, Repository

if TYPE_CHECKING:
    from importlib.metadata import PackageMetadata

ORIGIN = "installed"
ITSELF = "outrider"
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
EXTRA = re.compile(r"\bextra\s*==")
GITHUB = re.compile(r"(?:www\.)?github\.com", re.IGNORECASE)
NOT_A_NAME = re.compile(r"<[^>]*>|\([^()]*\)")
NOBODY = frozenset(
    {"others", "contributors", "other contributors", "individual contributors", "inc", "inc.", "llc", "llc.", "ltd", "ltd.", "gmbh"}
)
"""Parts of lists of people that name none."""
GITHUB_PAGES = frozenset({"sponsors", "orgs", "topics", "apps", "marketplace", "settings", "about"})
SOURCE_LABELS = ("repository", "source", "source code", "sourcecode", "code", "github", "homepage", "home-page", "home page")
HOME_LABELS = ("homepage", "home-page", "home page", "home", *SOURCE_LABELS[:6])
READABLE = ("Topic", "Framework", "Intended Audience", "Environment", "Natural Language")
NO_VALUE = frozenset({"", "unknown", "none"})
BADGE = re.compile(
    r"^\s*(?:(?:\[?!\[[^\]]*\]\([^)]*\)(?:\]\([^)]*\))?|\[?!\[[^\]]*\]\[[^\]]*\](?:\]\[[^\]]*\]|\]\([^)]*\))?|<a\b[^>]*>\s*<img\b[^>]*>\s*</a>|<img\b[^>]*>)\s*)+$"
)
DOI_LINK = re.compile(r"https?://(?:dx\.)?doi\.org/10\.\d{4,9}/[^\s\"'<>]+", re.IGNORECASE)
MOST_BADGES = 10
LAYOUT = re.compile(
    r"</?(?:a|b|br|center|div|em|h[1-6]|i|img|p|picture|source|span|strong|sub|sup|table|tbody|td|th|thead|tr)\b[^<>]{0,1000}>",
    re.IGNORECASE,
)
FENCE = re.compile(r"\s*(?:```|~~~)")
RST_IMAGE = re.compile(r"^\s*\.\.\s+(?:\|[^|]+\|\s+)?image::")
RST_OPTION = re.compile(r"^\s+:[a-z-]+:")
EMAIL_NAME = re.compile(r'"?([^"<,]*?)"?\s*(?:<[^>]*>)?\s*(?:,|$)')


def read_installed_packages() -> Iterator[Parsed]:
    """One entry a distribution, by normalised name; the first on the path if a name is there twice, as for an import.

    Outrider itself is left out: its README shows questions with their answers, and would be found for them.
    """
    first: dict[str, Distribution] = {}
    nameless = 0
    for distribution in distributions():
        try:
            name = _read_value(distribution.metadata, "Name")
        except FileNotFoundError:  # later Pythons raise where 3.11 gives nothing
            name = ""
        if name:
            first.setdefault(normal_distribution(name), distribution)
        else:
            nameless += 1
    first.pop(ITSELF, None)
    for normal, distribution in sorted(first.items()):
        yield Entry(make_record(normal, distribution))
    for place in range(nameless):
        yield BadEntry(f"installed package without a name ({place + 1})", "its metadata is missing or broken; reinstall it")


def make_record(normal: str, distribution: Distribution) -> Repository:
    """The record of a distribution under its normalised name."""
    metadata = distribution.metadata
    links = _read_links(metadata)
    github = next(filter(None, (_parse_github(links.get(label, "")) for label in (*SOURCE_LABELS, *links))), None)
    classifiers = [str(line) for line in metadata.get_all("Classifier") or ()]
    licence = next((line.split(" :: ")[-1] for line in classifiers if line.startswith("License ::")), "")
    # since metadata 2.1 the long description is the message's body, before that a header with indented lines
    body = metadata.get_payload() if isinstance(metadata, Message) else ""
    if not isinstance(body, str) or not body.strip():
        body = re.sub(r"\n {7}[ |]?", "\n", _read_value(metadata, "Description"))
    extra: dict[str, JsonValue] = {
        "version": _read_value(metadata, "Version"),
        "requires_python": _read_value(metadata, "Requires-Python"),
        "classifiers": [*classifiers],
        "project_urls": dict(links),
        "badges": list_badge_links(body),
    }
    return Repository(
        doc_id=f"pypi:{normal}",
        title=_read_value(metadata, "Name"),
        description=" ".join(_read_value(metadata, "Summary").split()),
        text=plain_readme(body),
        url=next((links[label] for label in (*HOME_LABELS, *links) if label in links), None),
        identifiers=Identifiers(pypi=normal, github=github),
        authors=_read_people(metadata),
        language="Python",
        tags=_make_tags(_read_value(metadata, "Keywords"), classifiers),
        edges=_make_edges(normal, distribution.requires or []),
        origin=ORIGIN,
        licence=_read_value(metadata, "License-Expression") or licence or _read_value(metadata, "License").split("\n")[0].strip() or None,
        metadata={name: value for name, value in extra.items() if value},
    )


def _read_value(metadata: PackageMetadata, name: str) -> str:
    """A field's value; empty for the words that old tools wrote instead of nothing."""
    value = str((metadata.get_all(name) or [""])[0]).strip()
    return "" if value.lower() in NO_VALUE else value


def plain_readme(readme: str) -> str:
    """A README without lines that hold images only, HTML layout outside code, and characters that cannot be stored."""
    lines: list[str] = []
    in_image = in_code = False
    for line in readme.encode("utf-8", "replace").decode().replace("\r\n", "\n").split("\n"):
        in_image = bool(RST_IMAGE.match(line)) or (in_image and bool(RST_OPTION.match(line)))
        if not in_image and not (len(line) < 4_000 and BADGE.match(line)):  # the pattern is slow on long lines
            in_code ^= bool(FENCE.match(line))
            lines.append(line if in_code else LAYOUT.sub("", line))
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return "" if text.lower() in NO_VALUE else text


def list_badge_links(readme: str) -> list[JsonValue]:
    """The links of DOI badges in lines that `plain_readme` leaves out: they name papers and archives of the package."""
    lines = (line for line in readme.split("\n") if len(line) < 4_000 and "doi" in line.lower() and BADGE.match(line))
    return [*dict.fromkeys(link.rstrip(").,") for line in lines for link in DOI_LINK.findall(line))][:MOST_BADGES]


def _read_links(metadata: PackageMetadata) -> dict[str, str]:
    """Absolute links by lower-case label, in the order of the metadata."""
    pairs = [str(line).partition(",")[::2] for line in metadata.get_all("Project-URL") or ()]
    pairs += [("homepage", _read_value(metadata, "Home-page")), ("download", _read_value(metadata, "Download-URL"))]
    links: dict[str, str] = {}
    for label, url in pairs:
        if url.strip().lower().startswith(("http://", "https://")):
            links.setdefault(label.strip().lower(), url.strip())
    return links


def _parse_github(url: str) -> str | None:
    """`owner/name`, lower case, of a repository's address or one below it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    owner, _, rest = parts.path.strip("/").partition("/")
    name = rest.partition("/")[0].removesuffix(".git")
    return f"{owner}/{name}".lower() if GITHUB.fullmatch(parts.netloc) and name and owner not in GITHUB_PAGES else None


def _read_people(metadata: PackageMetadata) -> tuple[str, ...]:
    """Names from Author and Author-email, else of the maintainers. Addresses, remarks in parentheses and "others" are left out."""
    for name, email in (("Author", "Author-email"), ("Maintainer", "Maintainer-email")):
        from_email = (match.group(1) for match in EMAIL_NAME.finditer(_read_value(metadata, email)))
        texts = (NOT_A_NAME.sub("", text) for text in (_read_value(metadata, name), *from_email))
        people = (" ".join(person.split()) for text in texts for person in re.split(r",|;|&|\band\b", text))
        if known := dict.fromkeys(person for person in people if person and "@" not in person and person.casefold() not in NOBODY):
            return tuple(known)
    return ()


def _make_tags(keywords: str, classifiers: list[str]) -> tuple[str, ...]:
    """Keywords, then the subjects in the classifiers: `Topic :: A :: B` as `A / B`."""
    words = re.split(r"[,;\n]", keywords) if re.search(r"[,;\n]", keywords) else keywords.split()
    subjects = (classifier.split(" :: ") for classifier in classifiers)
    readable = (" / ".join(parts[1:]) for parts in subjects if parts[0] in READABLE)
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in (*words, *readable)))))


def _make_edges(normal: str, requirements: list[str]) -> tuple[Edge, ...]:
    edges: dict[Edge, None] = {}
    for requirement in requirements:
        match = REQUIREMENT_NAME.match(requirement.strip())
        target = normal_distribution(match.group()) if match else normal
        if target != normal:  # `all` extras name the package itself
            edges[Edge(relation="suggests" if EXTRA.search(requirement) else "depends_on", target=f"pypi:{target}")] = None
    needed = {edge.target for edge in edges if edge.relation == "depends_on"}
    return tuple(edge for edge in edges if edge.relation == "depends_on" or edge.target not in needed)
