"""The library's records: listing, reading, labels, removal, and what the library holds."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from outrider.cluster.maintenance import rebuild
from outrider.cluster.session import open_cluster
from outrider.cluster.task_map import check_on
from outrider.distiller.structure.block import Block
from outrider.distiller.structure.read_structure import read_structure
from outrider.library.browse import RecordQuery, count_labels
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import explain_paths
from outrider.linkage.identifiers import find_identifiers
from outrider.sources.library import BY_IDENTIFIER
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.filters import Compare
from outrider.state.hits import Ranked, RankedList
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType

if TYPE_CHECKING:
    from outrider.library.inspection import LibraryInfo
    from outrider.library.vectors.index import Near
    from outrider.services import Services
    from outrider.state.embedding import TokensRead
    from outrider.state.ports import OnCount

MOST_COMPARED, MANY, DEVIATIONS = 1_000, 30, 3.0
"""Vectors that a record is compared with. Of so many and more, alike is only what lies so many standard deviations above their mean. Of 295
packages with MiniLM, 2 deviations made `numpy` and `Markdown` alike; with 3, `httpx` keeps other clients, and `tenacity` nothing.
"""
MAX_IDS, MAX_LABELS, MAX_LABEL_CHARS = 1_000, 20, 60


@dataclass(frozen=True, slots=True)
class RecordList:
    """Some of the records that a query lists."""

    records: tuple[Record, ...]
    total: int
    labels: dict[str, tuple[str, ...]]
    """By id, of these records."""


async def list_records(services: Services, query: RecordQuery, limit: int = 20, offset: int = 0) -> RecordList:
    """Records in the order of the query, whole. Raises `LibraryMissing`."""
    library = await services.library()
    records, total = await library.browse(query, limit, offset)
    labels = await library.labels()
    return RecordList(tuple(records), total, {record.doc_id: labels[record.doc_id] for record in records if record.doc_id in labels})


@dataclass(frozen=True, slots=True)
class StoredRecord:
    record: Record
    labels: tuple[str, ...]
    vector: TokensRead | None
    """How much of the record its vector covers; None where it has none."""


async def read_record(services: Services, doc_id: str) -> StoredRecord:
    """One record, whole, by its id, DOI, PMID or arXiv number. Raises `BadRequest` where none has it."""
    library = await services.library()
    records = await library.fetch([doc_id])
    for scheme, value in find_identifiers(doc_id) if not records else ():
        records = records or (await library.page(Compare(scheme, "$eq", value), 1) if scheme in BY_IDENTIFIER else [])
    if not records:
        raise BadRequest(f"the library holds no record {doc_id!r}; `outrider library list` shows the ids")
    record = records[0]
    tokens, labels = await library.tokens_read([record.doc_id]), await library.labels()
    return StoredRecord(record, labels.get(record.doc_id, ()), tokens.get(record.doc_id))


@dataclass(frozen=True, slots=True)
class RelatedRecord:
    record: Record
    """Without edges; its body is cut."""
    why: str


@dataclass(frozen=True, slots=True)
class RelatedRecords:
    record: Record
    related: tuple[RelatedRecord, ...]
    """Best first."""


async def find_related(services: Services, doc_id: str, limit: int = 10) -> RelatedRecords:
    """Records that share works, authors, subjects or meaning with one, which is named as for `read_record`. Raises `BadRequest`.

    The graph and the vectors are fused as in a search. No model is needed: the vector of the record is stored.
    """
    record = (await read_record(services, doc_id)).record
    engine = await services.engine()
    connected, compared = await asyncio.gather(
        engine.graph.around([record.doc_id], 2 * limit), engine.library.near(record.doc_id, MOST_COMPARED)
    )
    near = _find_outstanding(compared)[:limit]
    reasons = {place.doc_id: explain_paths(place.paths, of="") for place in connected}
    for place in near:
        alike = f"alike in meaning ({place.similarity:.2f} of 1)"
        reasons[place.doc_id] = f"{reasons[place.doc_id]}; {alike}" if place.doc_id in reasons else alike
    by_graph = tuple(Ranked(place.doc_id, place.score) for place in connected)
    by_meaning = tuple(Ranked(place.doc_id, place.similarity) for place in near)
    lists = [
        RankedList(source=LIBRARY, strategy=strategy, query=record.doc_id, results=results)
        for strategy, results in ((RetrieverType.GRAPH_NEIGHBOR, by_graph), (RetrieverType.LANCE_DENSE, by_meaning))
        if results
    ]
    scores = build_fusion(services.settings.ranking)(lists)
    best = sorted(scores, key=lambda name: (-scores[name], name))[:limit]
    records = await engine.library.brief(best)
    return RelatedRecords(record, tuple(RelatedRecord(one, reasons[one.doc_id]) for one in records))


def _find_outstanding(near: Sequence[Near]) -> Sequence[Near]:
    """Those that are far more alike than the others: what a cosine says differs by model and by record. All of a small library."""
    if len(near) < MANY:
        return near
    similarities = [place.similarity for place in near]
    least = statistics.fmean(similarities) + DEVIATIONS * statistics.pstdev(similarities)
    return [place for place in near if place.similarity >= least]


@dataclass(frozen=True, slots=True)
class RemovedRecords:
    titles: dict[str, str]
    """By id, of the records that were removed."""
    unknown: tuple[str, ...]


async def remove_records(services: Services, doc_ids: Sequence[str]) -> RemovedRecords:
    """Remove records. Ingesting their files again restores them; a tagged version keeps them. Raises `LibraryError`."""
    library = await services.library()
    titles = {record.doc_id: record.title for record in await library.brief(doc_ids)}
    await library.remove(list(titles))
    return RemovedRecords(titles, tuple(doc_id for doc_id in doc_ids if doc_id not in titles))


async def label_records(
    services: Services, doc_ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Add labels to records and remove others: all labels of each record afterwards, without ids that have no record.

    Labels are a user's own: records do not change, and reading their files again keeps them. Raises `BadRequest` for an invalid label.
    """
    library = await services.library()
    after = await library.label(doc_ids, [check_label(name) for name in add], [name.strip() for name in remove])
    if wrong := next((doc_id for doc_id, names in after.items() if len(names) > MAX_LABELS), None):
        await library.label([wrong], remove=add)
        raise BadRequest(f"a record has {MAX_LABELS} labels at most, and {wrong!r} would have more; remove one first")
    return after


def check_label(name: str) -> str:
    """The label without blanks around it. Raises `BadRequest`."""
    label = " ".join(name.split())
    if not label or len(label) > MAX_LABEL_CHARS or not label.isprintable():
        raise BadRequest(f"a label is a text of 1 to {MAX_LABEL_CHARS} characters, not {name[:80]!r}")
    return label


@dataclass(frozen=True, slots=True)
class LibraryContents:
    """What a library holds."""

    info: LibraryInfo
    years: dict[int, int]
    labels: dict[str, int]
    """How many records have each, the most frequent first."""
    problem: str
    """Why it cannot be searched or written; empty where it can. `Library.check` reads everything."""


async def describe_contents(services: Services) -> LibraryContents:
    """Counts of the library, and whether a quick look finds it sound. Raises `LibraryMissing`."""
    library = await services.library()
    problem = ""
    try:
        await library.probe()
    except LibraryError as error:
        problem = str(error)
    return LibraryContents(await library.info(), await library.count_years(), count_labels((await library.labels()).values()), problem)


async def optimize_library(services: Services, on: str = "", progress: OnCount | None = None) -> LibraryInfo:
    """Compact the library, complete its indexes and drop old versions; what it holds afterwards.

    With `on="ray"` the workers of the cluster of the settings compact the records and build those indexes that miss most of them; each node
    must see the library under the same address. `progress` counts these steps. Raises `LibraryError`, and what `open_cluster` raises.
    """
    library = await services.library()
    if not check_on(on):
        await library.optimize(force=True)
        return await library.info()
    options = {name: value.get_secret_value() for name, value in services.settings.library.storage_options.items()}
    async with open_cluster(services.settings.cluster) as cluster:
        await library.optimize(force=True, rebuild=partial(rebuild, cluster, options, progress or (lambda _done, _total: None)))
    return await library.info()


PART_CHARS = 20_000


def split_text(text: str) -> list[list[tuple[Block, str]]]:
    """A text as parts of about `PART_CHARS`, each of whole blocks with their own text; empty for no text.

    A block is cut only where it is longer than a part by itself.
    """
    parts: list[list[tuple[Block, str]]] = []
    size = PART_CHARS
    for block in read_structure(text) if text.strip() else []:
        for start in range(block.start, block.end, PART_CHARS):
            end = min(block.end, start + PART_CHARS)
            if size + end - start > PART_CHARS:
                parts.append([])
                size = 0
            parts[-1].append((block, text[start:end]))
            size += end - start
    return parts
