"""Why a hit is there, in plain words, and the names of sources as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from outrider.library.schema import RANKED_AUTHORS
from outrider.state.records import LIBRARY
from outrider.text.sanitize import collapse_spaces, without_control
from outrider.text.words import content_words, stem, stems

if TYPE_CHECKING:
    from outrider.state.hits import Hit

SOURCE_NAMES = {
    LIBRARY: "your library", "arxiv": "arXiv", "crossref": "Crossref", "github": "GitHub", "openalex": "OpenAlex", "pubmed": "PubMed",
    "semantic_scholar": "Semantic Scholar", "serpapi_google": "Google", "serpapi_scholar": "Google Scholar", "web": "the web",
}  # fmt: skip
BY_WORDS = "by words"
WAYS = {"lance_fts": BY_WORDS, "lance_dense": "by meaning"}
"""The library's strategies that match the query itself."""
MAX_CLAUSES = 4
"""Reasons of a hit. On a terminal, those that fit one line."""
MAX_LISTS = 3
"""Services that are named."""
MAX_WORDS, MAX_READ_CHARS = 5, 10_000
"""Words of the query that are named, and the beginning of a text in which they are looked for."""
ENTITY_NOUNS = {"keyword": "keyword", "classifier": "classifier", "mesh": "MeSH term", "venue": "venue"}
ENTITY_VERBS = {"author": "by", "suggests": "can use"}
IDENTIFIER_NAMES = {
    "doi": "DOI",
    "pmid": "PMID",
    "pmcid": "PMCID",
    "arxiv": "arXiv number",
    "isbn": "ISBN",
    "pypi": "name",
    "openalex": "OpenAlex id",
}


def name_source(name: str) -> str:
    """`semantic_scholar` as `Semantic Scholar`; a source of another package by its own name."""
    return SOURCE_NAMES.get(name, name)


def list_clauses(hit: Hit, results: Mapping[str, str], query: str = "") -> list[str]:
    """Why a hit is there, in plain words, most important first; never empty. Words of the query that the hit has are named."""
    from outrider.library.graph_neighbours import list_reasons
    from outrider.library.search_engine import MATCHES

    own = [row for row in hit.found_by if row.source == LIBRARY]
    ways = list(dict.fromkeys(WAYS[row.strategy] for row in own if row.strategy in WAYS))
    ways = [_name_words(hit, query) if way == BY_WORDS else way for way in ways]
    services = list(dict.fromkeys(name_source(row.source) for row in hit.found_by if row.source != LIBRARY))
    clauses = [hit.reason] if hit.scored_by == "model" else []
    clauses += [hit.learned] if hit.learned else []
    clauses += [f"matched {' and '.join(ways)}"] if ways else []
    clauses += ["matches the Boolean query"] if any(row.why == MATCHES for row in own) else []
    clauses += [f"found by {', '.join(services[:MAX_LISTS])}"] if services else []
    paths = [path for row in own for path in row.paths]
    named = [path for path in paths if path.through and path.through.casefold() == path.anchor.casefold()]  # by the request itself
    spelled = ((path.relation, *_spell_entity(hit, path.through).partition(":")[::2]) for path in reversed(named))
    entities = {name: (relation, kind) for relation, kind, name in spelled}  # each name once
    clauses += [_name_entity(relation, kind, name) for name, (relation, kind) in reversed(entities.items())]
    others = [replace(path, through=_spell_entity(hit, path.through)) for path in paths if path not in named]
    others = [path for path in others if path.through.partition(":")[2] not in entities]  # said already
    others = [path for path in others if path.anchor not in results or results[path.anchor] != results[hit.doc_id]]
    among = [replace(path, anchor=results[path.anchor]) for path in others if path.anchor in results]
    is_matched = bool(clauses)
    clauses += list_reasons(among, "of your results", named=True, telling=is_matched)
    elsewhere = [replace(path, anchor=_name_record(path.anchor)) for path in others]
    clauses += [] if clauses else list_reasons(elsewhere, "of the best matches", named=True)
    clauses = list(dict.fromkeys(clauses))
    shown = (collapse_spaces(without_control(text)) for text in clauses)
    return [clause for clause in shown if clause][:MAX_CLAUSES] or ["related to other results"]


def _name_words(hit: Hit, query: str) -> str:
    """`by words (progress, bar)`: those of the query that the hit has, in the beginning of its text if there are any."""
    asked = dict.fromkeys(content_words(query))
    for size in sorted({min(MAX_READ_CHARS, len(hit.original_text)), len(hit.original_text)}):
        known = set(
            stems(f"{hit.title} {hit.description} {hit.original_text[:size]} {' '.join((*hit.tags, *hit.authors[:RANKED_AUTHORS]))}")
        )
        if matched := [word for word in asked if stem(word) in known]:
            return f"{BY_WORDS} ({', '.join(matched[:MAX_WORDS])}{', …' * (len(matched) > MAX_WORDS)})"
    return BY_WORDS


def _name_record(doc_id: str) -> str:
    """A record that is no hit, by the name in its id where that is one."""
    scheme, _, name = doc_id.partition(":")
    return name if scheme in {"pypi", "github"} else doc_id if name else f"another match ({doc_id})"


def _name_entity(relation: str, kind: str, name: str) -> str:
    """That a hit has an entity of the request: `by Donald Knuth`, `has the keyword retry`, `has the DOI 10.1000/1`, `depends on httpx`."""
    if relation == "is":
        return f"has the {IDENTIFIER_NAMES.get(kind, kind)} {name}"
    if relation in ENTITY_NOUNS:
        return f"has the {ENTITY_NOUNS[relation]} {name}"
    return f"{ENTITY_VERBS.get(relation, relation)} {name}"


def _spell_entity(hit: Hit, entity: str) -> str:
    """An entity such as `author:knuth, d` as the hit spells it."""
    from outrider.library.entity_names import make_entity

    kind, _, name = entity.partition(":")
    headings = hit.metadata.get("mesh")
    spellings: Mapping[str, Iterable[object]] = {
        "author": hit.authors,
        "keyword": hit.tags,
        "venue": (hit.venue,),
        "mesh": headings if isinstance(headings, list) else (),
    }
    own = (text for text in spellings.get(kind, ()) if isinstance(text, str) and make_entity(kind, text) == (kind, name))
    return f"{kind}:{next(own, name)}" if kind else entity
