"""Baselines for deduplication: DOI only, DOI and equal or similar titles, ASReview's rule, and bib-dedupe."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import chdir, closing, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.data import Absent
from outrider.linkage.clustering import Groups
from outrider.linkage.identifiers import normal_doi
from outrider.linkage.names_and_titles import normal_title
from outrider.linkage.out_of_core import OutOfCoreResolver
from outrider.linkage.resolve import resolve
from outrider.state.records import Paper

Rule = Callable[[Sequence[Paper]], Sequence[Sequence[int]]]
LIKE = 0.9
NOT_COMPARED = re.compile(r"[^A-Za-z0-9]")


def outrider(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    return resolve(records).groups


def outrider_on_disk(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    """The deduplication of `outrider dedup` and `outrider library dedup`."""
    with TemporaryDirectory() as folder, closing(OutOfCoreResolver(Path(folder))) as many:
        many.add_records((record.doc_id, record) for record in records)
        return [group.places for group in many.resolve().groups()]


def by_doi(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    return _joined(records, _dois)


def by_doi_and_title(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    return _joined(records, lambda paper: [*_dois(paper), *filter(None, [normal_title(paper.title)])])


def by_doi_and_like_title(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    """Every pair of titles is compared, in C; time grows with the square."""
    import numpy as np
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    groups = _groups(records, _dois)
    titles = [normal_title(paper.title) for paper in records]
    for at, title in enumerate(titles):
        if title:
            alike = cdist([title], titles[at + 1 :], scorer=Indel.normalized_similarity, score_cutoff=LIKE)[0]
            for other in np.flatnonzero(alike >= LIKE).tolist():
                groups.join(at, at + 1 + other)
    return groups.members()


def bib_dedupe(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    """In one process, like the others. `Absent` if it is not installed."""
    try:
        import bib_dedupe.bib_dedupe as bib  # type: ignore[import-not-found]
        import pandas as pd  # type: ignore[import-untyped]
    except ModuleNotFoundError as missing:
        raise Absent(f"{missing}; pip install bib-dedupe==0.11.0") from missing
    with Path(os.devnull).open("w", encoding="utf-8") as quiet, redirect_stdout(quiet):
        prepared = bib.prep(pd.DataFrame([_row(at, paper) for at, paper in enumerate(records)]), cpu=1)
        matched = bib.match(bib.block(prepared, cpu=1), cpu=1)
        clusters = bib.cluster(matched)
    groups = Groups(len(records))
    for members in clusters:
        for other in members[1:]:
            groups.join(int(members[0]), int(other))
    return groups.members()


def asreview(records: Sequence[Paper]) -> Sequence[Sequence[int]]:
    """ASReview marks records whose DOI, or title and abstract, an earlier one has. `Absent` if it is not installed."""
    try:
        import pandas as pd

        with TemporaryDirectory() as folder, chdir(folder):  # it leaves a cache where it is imported
            from asreview.data.utils import duplicated  # type: ignore[import-not-found]
    except ModuleNotFoundError as missing:
        raise Absent(f"{missing}; pip install asreview==3.0.8") from missing
    texts = [(paper.title, paper.abstract) for paper in records]
    marked = duplicated(
        pd.DataFrame(
            {
                "doi": [paper.identifiers.doi for paper in records],
                "title": [title for title, _ in texts],
                "abstract": [abstract for _, abstract in texts],
            }
        )
    )
    first, groups = dict[str, int](), Groups(len(records))
    for at, (paper, is_repeated) in enumerate(zip(records, marked, strict=True)):
        # it does not say which earlier record has them
        for name in (paper.identifiers.doi or "", NOT_COMPARED.sub("", f"{paper.title} {paper.abstract}").lower()):
            if name and (earlier := first.setdefault(name, at)) != at and is_repeated:
                groups.join(earlier, at)
    return groups.members()


def _row(at: int, paper: Paper) -> dict[str, Any]:
    return {
        "ID": str(at),
        "ENTRYTYPE": "article",
        "title": paper.title,
        "author": " and ".join(paper.authors),
        "year": str(paper.year or ""),
        "journal": paper.venue or "",
        "booktitle": "",
        "series": "",
        "volume": paper.volume or "",
        "number": paper.issue or "",
        "pages": paper.pages or "",
        "abstract": paper.abstract,
        "doi": paper.identifiers.doi or "",
        "search_set": "",
    }


def _dois(paper: Paper) -> list[str]:
    return list(filter(None, [normal_doi(paper.identifiers.doi or "")]))


def _joined(records: Sequence[Paper], names: Callable[[Paper], Sequence[str]]) -> Sequence[Sequence[int]]:
    return _groups(records, names).members()


def _groups(records: Sequence[Paper], names: Callable[[Paper], Sequence[str]]) -> Groups:
    first: dict[str, int] = {}
    groups = Groups(len(records))
    for at, paper in enumerate(records):
        for name in names(paper):
            groups.join(first.setdefault(name, at), at)
    return groups


RULES: dict[str, Rule] = {
    "Outrider": outrider,
    "bib-dedupe": bib_dedupe,
    "ASReview": asreview,
    "DOI": by_doi,
    "DOI, equal title": by_doi_and_title,
    "DOI, title >= 90 %": by_doi_and_like_title,
}
