"""Records of the library by the names that people use for them.

A name is an id, a DOI, a PMID, an arXiv number, a package or a repository. It means the record with that `doc_id`; else the entry with
that id in an ingested file, such as a BibTeX key; else the records with that identifier; else the package or the repository. Of these,
the first that the library has counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.ingest.record_ids import make_id
from outrider.linkage.identifiers import normal_arxiv, normal_distribution, normal_doi, normal_pmid, normal_repository
from outrider.training.questions import find_by_identifier

if TYPE_CHECKING:
    from outrider.library.library import Library

MAX_OWN_IDS = 200_000
"""Pairs of a name and a file that are looked up; the files with most records come first."""


@dataclass(frozen=True, slots=True)
class RecordMatches:
    """The records by name, in the order of the names."""

    doc_ids: dict[str, tuple[str, ...]]
    """Several where they share an identifier."""
    unknown: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    """Ids of entries of several files, which may be different works."""


async def match_records(library: Library, names: Iterable[str]) -> RecordMatches:
    matches: dict[str, tuple[str, ...]] = {}
    ambiguous: list[str] = []
    order = list(dict.fromkeys(names))
    rest = await _match_ids(library, {name: [name] for name in order}, matches)
    by_file = await _list_own_ids(library, rest)
    rest = await _match_ids(library, by_file, matches)
    for name in by_file.keys() & matches.keys():
        if len(matches[name]) > 1:
            ambiguous.append(name)
            del matches[name]
    rest = await _match_identifiers(library, rest, matches)
    await _match_ids(library, {name: _list_package_ids(name) for name in rest}, matches)
    unknown = [name for name in order if name not in matches and name not in ambiguous]
    return RecordMatches({name: matches[name] for name in order if name in matches}, tuple(unknown), tuple(sorted(ambiguous)))


async def _match_ids(library: Library, ids_by_name: dict[str, list[str]], matches: dict[str, tuple[str, ...]]) -> list[str]:
    """Adds the names with an id that the library has; returns the others."""
    wanted = list(dict.fromkeys(doc_id for doc_ids in ids_by_name.values() for doc_id in doc_ids))
    present = await library.content_hashes(wanted) if wanted else {}
    for name, doc_ids in ids_by_name.items():
        if own := tuple(doc_id for doc_id in doc_ids if doc_id in present):
            matches[name] = own
    return [name for name in ids_by_name if name not in matches]


async def _list_own_ids(library: Library, names: list[str]) -> dict[str, list[str]]:
    """The ids that the library gives to entries of its files with these names; a file of one record has none."""
    if not names:
        return {}
    counts = await library.origins()
    renamed = await library.id_origins()
    files = sorted((origin for origin, count in counts.items() if count > 1), key=lambda origin: (-counts[origin], origin))
    origins = [renamed.get(origin, origin) for origin in files[: MAX_OWN_IDS // len(names) + 1]]
    return {name: [make_id(origin, f"id:{name}") for origin in origins] for name in names}


async def _match_identifiers(library: Library, names: list[str], matches: dict[str, tuple[str, ...]]) -> list[str]:
    targets: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        forms = ("doi", normal_doi(name)), ("arxiv", normal_arxiv(name)), ("pmid", normal_pmid(name))
        targets[name] = [(scheme, value) for scheme, value in forms if value]
    values_by_scheme: dict[str, list[str]] = {}
    for scheme, value in dict.fromkeys(pair for pairs in targets.values() for pair in pairs):
        values_by_scheme.setdefault(scheme, []).append(value)
    present = await find_by_identifier(library, values_by_scheme)
    for name, pairs in targets.items():
        if own := next((ids for pair in pairs if (ids := present.get(":".join(pair)))), None):
            matches[name] = tuple(own)
    return [name for name in names if name not in matches]


def _list_package_ids(name: str) -> list[str]:
    scheme, colon, rest = name.partition(":")
    if colon and scheme.lower() == "pypi":
        return [f"pypi:{normal_distribution(rest)}"]
    repository = normal_repository(name.removeprefix("github:"))
    return [f"pypi:{normal_distribution(name)}", *([f"github:{repository}"] if repository else [])]
