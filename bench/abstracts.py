"""Abstracts on the subject of a question, and on others: whether a hit says that nothing in it answers.

Of each collection: documents that people judged relevant; those that bm25s ranks first among the others, of which some answer, since few
were judged; and others by chance. SciFact's queries are claims, those of the other collections questions and descriptions. The bounds were
chosen on SciFact alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bench.data import COLLECTIONS, Absent, Collection, collection
from bench.report import Cell, Report, progress
from outrider.distiller.distiller import Distiller
from outrider.distiller.engines.select import make_engine
from outrider.distiller.selection import SelectionSettings
from outrider.distiller.units import segment_text
from outrider.settings.model import DistillerSettings
from outrider.state.distilling import Reading
from outrider.state.records import Paper

COLUMNS = ("collection", "abstracts", "texts", "nothing answers", "uncertain", "certain")
SAMPLE = 300
DEPTH = 20
"""Places of the ranking that are looked at for documents that nobody judged relevant."""
Pair = tuple[str, Paper]


def run() -> Report:
    rows: list[tuple[Cell, ...]] = []
    notes = [f"At most {SAMPLE} pairs of a query and a document each, drawn with a fixed seed; engine `words`, settings as shipped."]
    for name in COLLECTIONS:
        progress(f"abstracts: {name}")
        try:
            source = collection(name)
        except Absent as absent:
            notes.append(f"skipped: {absent}")
            continue
        rows += [(name, kind, *_count(pairs)) for kind, pairs in _draw(source)]
    return Report("abstracts", COLUMNS, tuple(rows), tuple(notes))


def _draw(source: Collection) -> Iterator[tuple[str, list[Pair]]]:
    rng = random.Random(0)
    by_id = {paper.doc_id: paper for paper in source.documents}
    relevant = [(query, doc_id) for query in sorted(source.queries) for doc_id in sorted(source.qrels[query]) if doc_id in by_id]
    yield "relevant", [(source.queries[query], by_id[doc_id]) for query, doc_id in rng.sample(relevant, min(SAMPLE, len(relevant)))]
    ranked = _rank_others(source)
    first = [(query, doc_id) for query in sorted(ranked) for doc_id in ranked[query][:2]]
    yield "ranked first of the others", [(source.queries[query], by_id[id_]) for query, id_ in rng.sample(first, min(SAMPLE, len(first)))]
    queries, papers = rng.choices(sorted(source.queries), k=SAMPLE), rng.choices(source.documents, k=SAMPLE)
    chance = [(query, paper) for query, paper in zip(queries, papers, strict=True) if paper.doc_id not in source.qrels[query]]
    yield "others by chance", [(source.queries[query], paper) for query, paper in chance]


def _rank_others(source: Collection) -> Mapping[str, Sequence[str]]:
    import bm25s
    from Stemmer import Stemmer

    stemmer, engine = Stemmer("english"), bm25s.BM25()
    texts = [f"{paper.title}\n{paper.abstract}" for paper in source.documents]
    engine.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    ranked = {}
    for query, text in source.queries.items():
        tokens = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, show_progress=False)
        places, _ = engine.retrieve(tokens, k=DEPTH, show_progress=False)
        ids = [source.documents[at].doc_id for at in places[0].tolist()]
        ranked[query] = [doc_id for doc_id in ids if doc_id not in source.qrels[query]]
    return ranked


def _count(pairs: Sequence[Pair]) -> tuple[Cell, ...]:
    few = DistillerSettings()
    distiller = Distiller(make_engine("words"), selection=SelectionSettings(max_units=few.max_units, max_units_first=few.max_units_first))
    verdicts: Counter[str] = Counter()
    for query, paper in pairs:
        reading = Reading(paper.doc_id, paper.abstract, paper.title)
        if paper.abstract and segment_text(reading).is_abstract():
            units = distiller.distil(query, [reading]).units
            verdicts["certain" if any(unit.why != "best" for unit in units) else "uncertain" if units else "nothing"] += 1
    total = verdicts.total()
    return total, *(verdicts[name] / total if total else None for name in ("nothing", "uncertain", "certain"))
