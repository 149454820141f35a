"""What an entry of a file cites, as edges; an entry that is cited by its own id gets its name once the file is named."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from outrider.identity.identifiers import normal_arxiv, normal_doi, normal_pmid
from outrider.ingest.values import scalar
from outrider.state.records import Edge, Record

OWN_ID = "id:"
"""Begins the target of an edge to another entry of the same file, by its own id; naming puts that entry's `doc_id` there."""
MAX_OWN_ID_CHARS = 80


def cites(doi: str | None, pmid: str | None, arxiv: str | None = None) -> Edge | None:
    """The edge to a work that is cited, by the best of its normal identifiers; None for a work without."""
    best = next((f"{scheme}:{value}" for scheme, value in (("doi", doi), ("pmid", pmid), ("arxiv", arxiv)) if value), None)
    return Edge(relation="cites", target=best) if best else None


def cited(item: JsonValue) -> Edge | None:
    """One entry of a list of references: by DOI, PMID or arXiv number, else by the own id of another entry of the file (`id:...`)."""
    if isinstance(item, dict):
        known = {
            name.casefold(): value for part in (item, item.get("externalIds")) if isinstance(part, dict) for name, value in part.items()
        }
        said = {scheme: scalar(known.get(scheme)) or "" for scheme in ("doi", "pmid", "pubmed", "arxiv")}
        return cites(normal_doi(said["doi"]), normal_pmid(said["pmid"] or said["pubmed"]), normal_arxiv(said["arxiv"]))
    text = scalar(item) or ""
    numbered = normal_pmid(text) if not text.isdigit() else None
    edge = cites(normal_doi(text), numbered, normal_arxiv(text))
    return edge or (Edge(relation="cites", target=OWN_ID + text) if 0 < len(text) <= MAX_OWN_ID_CHARS and " " not in text else None)


def with_own_ids(record: Record, renamed: Callable[[str], str]) -> Record:
    """The record with the own ids that it cites replaced by what they are renamed to: a whole target for each `id:...`."""
    if not any(edge.target.startswith(OWN_ID) for edge in record.edges):
        return record
    edges = (Edge(relation=edge.relation, target=renamed(edge.target)) if edge.target.startswith(OWN_ID) else edge for edge in record.edges)
    return record.model_copy(update={"edges": tuple(edges)})
