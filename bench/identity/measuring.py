"""Deduplication on the labelled sets, compared with simpler rules and bib-dedupe.

It also measures how the time grows with the number of records. Each rule starts with empty caches, and packages imported.

**Sensitivity** is the share of superfluous records that are removed, **specificity** the share of works that remain: a group keeps one
record, and its work is that of most of its records. A work without a kept record is **lost**. Precision, recall and F1 are of pairs. In
Tafenoquine records are only marked: sensitivity is the share of marked records in a group with another record, and lost is the number of
unmarked records in a group.

"cross-validated": works are divided into folds, and each fold is judged by weights fitted without it (and on the other sets). "other sets
only": by weights fitted without any record of this set. Everything else about the rules was developed with all sets known.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.data import COLLECTIONS, Absent, collection, data_folder
from bench.identity.confusable import ConfusablePair, is_one_hit, make_pairs
from bench.identity.fitting import FITTED_ON, Example, examples, fitted, without
from bench.identity.growth import grown
from bench.identity.rules import RULES, Rule, outrider, outrider_on_disk
from bench.identity.sets import SETS, LabelledSet, labelled
from bench.report import Cell, Report, progress
from outrider.linkage.normalized_record import make_keys
from outrider.linkage.resolve import resolve_keys
from outrider.state.records import Paper

FOLDS = 5
SEEDS = range(6)
"""Seeds of other divisions into folds."""
SIZES = (1_000, 10_000, 100_000)
IN_MEMORY = 100_000
"""Up to this many records are also resolved in memory; more only with keys on disk."""
COLUMNS = ("set", "rule", "records", "groups", "sensitivity", "specificity", "lost", "precision", "recall", "F1", "CPU s", "reaches")
TARGETS: dict[str, Callable[[Counts], bool]] = {
    "asysd": lambda counts: counts.sensitivity >= 0.999 and counts.specificity >= 0.999,
    "dblp_acm": lambda counts: counts.f1 >= 0.98,
    "cora": lambda counts: counts.f1 >= 0.88,
    "tafenoquine": lambda counts: counts.sensitivity >= 0.99 and counts.lost == 0,
}
PEERS = ("bib-dedupe", "ASReview", "DOI, equal title", "DOI, title >= 90 %")
LEAST_JOINED, MOST_WRONG = 0.95, 0.005
ON_DISK = "Outrider, keys on disk"
COMMAND = "outrider dedup FILE --json"
"""The whole command in a process of its own, with its start and the reading of the file."""
GROWING = {"Outrider": outrider, ON_DISK: outrider_on_disk}
GROWING_PEERS = ("bib-dedupe", "ASReview", "DOI, equal title")
PEERS_AT = 10_000
"""Number of records at which peers are measured beside us."""
TIMES_FASTER = 10
"""Target: speed relative to bib-dedupe, on ASySD and at `PEERS_AT` records."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums, so that folds can be added."""

    superfluous: int = 0
    gone: int = 0
    works: int = 0
    lost: int = 0
    true_pairs: int = 0
    found_pairs: int = 0
    right_pairs: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in Counts.__slots__))

    @property
    def sensitivity(self) -> float:
        return self.gone / max(1, self.superfluous)

    @property
    def specificity(self) -> float:
        return 1 - self.lost / max(1, self.works)

    @property
    def precision(self) -> float:
        return self.right_pairs / max(1, self.found_pairs)

    @property
    def recall(self) -> float:
        return self.right_pairs / max(1, self.true_pairs)

    @property
    def f1(self) -> float:
        return 2 * self.right_pairs / max(1, self.found_pairs + self.true_pairs)


def run(records: int = SIZES[-1]) -> Report:
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    try:
        rows, notes = _sets()
        rows += confusable_pairs()
        grown_rows, grown_notes = growth(sizes(records))
        rows, notes = [*rows, *grown_rows], [*notes, *grown_notes]
    except Absent as absent:
        notes.append(f"skipped: {absent}")
    return Report("identity", COLUMNS, tuple(rows), tuple(notes))


def _sets() -> tuple[list[tuple[Cell, ...]], list[str]]:
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    examples_by_set = {name: examples(labelled(name)) for name in FITTED_ON}
    for name in SETS:
        source = labelled(name)
        took = dict[str, float]()
        for rule, work in RULES.items():
            progress(f"{source.name}: {rule}")
            try:
                groups, took[rule] = timed(work, source.records)
            except Absent as absent:
                notes.append(f"{rule} was skipped: {absent}")
                continue
            rows.append(row(name, source, rule, len(groups), counted(source, groups), took[rule]))
        if name in examples_by_set:
            seeds = (None, *SEEDS) if name == "cora" else (None,)  # a few large works decide its figure
            divisions = [cross_validated(name, source, examples_by_set, seed) for seed in seeds]
            labels = ["cross-validated", *(f"other folds {seed}" for seed in seeds[1:])]
            if len(divisions) > 1:
                divisions, labels = [*divisions, sum(divisions, Counts())], [*labels, "all divisions together"]
            rows += (row(name, source, label, None, counts, None) for label, counts in zip(labels, divisions, strict=True))
            rows.append(row(name, source, "other sets only", None, left_out(name, source, examples_by_set), None))
        if name == "asysd":
            file = data_folder() / "dedup" / "asysd_diabetes.csv"
            took[COMMAND] = command_s(file)
            rows.append((source.name, COMMAND, len(source.records), *(None,) * 7, took[COMMAND], None))
            notes += compare_times(source.name, took)
    return rows, list(dict.fromkeys(notes))


def row(name: str, source: LabelledSet, rule: str, groups: int | None, counts: Counts, took_s: float | None) -> tuple[Cell, ...]:
    reaches = "yes" if TARGETS[name](counts) else "no"
    pairs = (counts.precision, counts.recall, counts.f1) if counts.true_pairs else (None, None, None)
    specificity = counts.specificity if source.works is not None else None
    return source.name, rule, len(source.records), groups, counts.sensitivity, specificity, counts.lost, *pairs, took_s, reaches


def compare_times(name: str, took: Mapping[str, float]) -> Iterator[str]:
    """How often our CPU times go into bib-dedupe's, if it was measured."""
    if (peer := took.get("bib-dedupe")) is None:
        return
    for rule in ("Outrider", ON_DISK, COMMAND):
        if rule in took:
            yield f"{name}: {rule} takes 1/{peer / took[rule]:.1f} of bib-dedupe's CPU time (target: at most 1/{TIMES_FASTER})"


def command_s(file: Path) -> float:
    """CPU seconds of `outrider dedup` on a file, all of its process."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "outrider", "dedup", str(file), "--json"], check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def empty_caches() -> None:
    """Forget what our functions keep between calls, so that a rule is not measured with what an earlier one normalised."""
    modules = [module for name, module in sys.modules.items() if name.startswith("outrider.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()


def timed(work: Rule, records: Sequence[Paper]) -> tuple[Sequence[Sequence[int]], float]:
    """The groups, and the processor time in seconds, which excludes other processes and imports."""
    work(records[:2])
    empty_caches()
    started = time.process_time()
    groups = work(records)
    return groups, time.process_time() - started


def counted(source: LabelledSet, groups: Sequence[Sequence[int]], of: Collection[int] | None = None) -> Counts:
    """Counts of all works, or of these. A group loses works whose records it drops; a pair belongs to its first record's work."""
    if source.works is None:
        return _marked(source, groups)
    works = source.works
    counted_works = set(works) if of is None else set(of)
    group_of = {at: number for number, members in enumerate(groups) for at in members}
    remaining = Counter(_majority_work(source, members) for members in groups)
    sizes = Counter(works)
    true = [(one, other) for one, other in source.true_pairs() if works[one] in counted_works]
    found_pairs = sum(
        works[one] in counted_works and source.judged(one, other)
        for members in groups
        for place, one in enumerate(members)
        for other in members[place + 1 :]
    )
    return Counts(
        superfluous=sum(sizes[work] - 1 for work in counted_works),
        gone=sum(sizes[work] - max(1, remaining[work]) for work in counted_works),
        works=len(counted_works),
        lost=sum(not remaining[work] for work in counted_works),
        true_pairs=len(true),
        found_pairs=found_pairs,
        right_pairs=sum(group_of[one] == group_of[other] for one, other in true),
    )


def _majority_work(source: LabelledSet, members: Sequence[int]) -> int:
    """The work of most of these records; of equals the first."""
    assert source.works is not None
    counts = Counter(source.works[at] for at in members)
    return min(counts, key=lambda work: (-counts[work], work))


def _marked(source: LabelledSet, groups: Sequence[Sequence[int]]) -> Counts:
    together = {at for members in groups if len(members) > 1 for at in members}
    return Counts(
        superfluous=len(source.marked),
        gone=len(together & source.marked),
        works=len(source.records) - len(source.marked),
        lost=len(together - source.marked),
    )


def cross_validated(name: str, source: LabelledSet, examples_by_set: dict[str, list[Example]], seed: int | None = None) -> Counts:
    """All records are resolved together for each fold; only the fold's works are counted. A seed shuffles the works before."""
    assert source.works is not None
    keys = [make_keys(record) for record in source.records]
    works = sorted(set(source.works))
    if seed is not None:
        Random(seed).shuffle(works)
    total = Counts()
    for fold in range(FOLDS):
        progress(f"{source.name}: fold {fold + 1} of {FOLDS}")
        held_out = set(works[fold::FOLDS])
        training = [example for other, some in examples_by_set.items() for example in (without(some, held_out) if other == name else some)]
        total += counted(source, resolve_keys(keys, fitted(training)).groups, held_out)
    return total


def left_out(name: str, source: LabelledSet, examples_by_set: dict[str, list[Example]]) -> Counts:
    progress(f"{source.name}: other sets only")
    weights = fitted([example for other, some in examples_by_set.items() if other != name for example in some])
    return counted(source, resolve_keys([make_keys(record) for record in source.records], weights).groups)


def confusable_pairs() -> list[tuple[Cell, ...]]:
    """Each pair alone: the share of pairs of one work that are one hit, the share of pairs of two works that stay two."""
    pairs = make_pairs()
    rules = {"Outrider": lambda pair: is_one_hit(pair.one, pair.other), **{name: _joins(RULES[name]) for name in PEERS}}
    rows: list[tuple[Cell, ...]] = []
    for rule, joins in rules.items():
        progress(f"confusable pairs: {rule}")
        started = time.process_time()
        try:
            joined = [joins(pair) for pair in pairs]
        except Absent:
            continue
        same = [one for one, pair in zip(joined, pairs, strict=True) if pair.same]
        different = [one for one, pair in zip(joined, pairs, strict=True) if not pair.same]
        sensitivity, wrong = sum(same) / len(same), sum(different)
        reaches = "yes" if sensitivity >= LEAST_JOINED and wrong <= MOST_WRONG * len(different) else "no"
        shares = sensitivity, 1 - wrong / len(different), wrong
        rows.append(("confusable pairs", rule, 2 * len(pairs), None, *shares, None, None, None, time.process_time() - started, reaches))
    return rows


def _joins(rule: Rule) -> Callable[[ConfusablePair], bool]:
    return lambda pair: len(rule([pair.one, pair.other])) == 1


def sizes(records: int) -> tuple[int, ...]:
    return (*(size for size in SIZES if size < records), records)


def growth(of: Sequence[int]) -> tuple[list[tuple[Cell, ...]], list[str]]:
    """Outrider on this many records made from real ones, in memory and on disk; beside peers at `PEERS_AT` records."""
    real, titles = material()
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    for size in of:
        source, took = grown(real, titles, size), dict[str, float]()
        works = GROWING if size <= IN_MEMORY else {ON_DISK: outrider_on_disk}
        peers = {name: RULES[name] for name in GROWING_PEERS} if size == PEERS_AT else {}
        for rule, work in {**works, **peers}.items():
            progress(f"{size:,} grown records: {rule}")
            try:
                groups, took[rule] = timed(work, source.records)
            except Absent:
                continue
            counts = counted(source, groups)
            pairs = counts.precision, counts.recall, counts.f1
            shares = counts.sensitivity, counts.specificity, counts.lost
            rows.append((source.name, rule, size, len(groups), *shares, *pairs, took[rule], None))
        notes += compare_times(source.name, took)
    return rows, notes


def material() -> tuple[Sequence[Paper], Sequence[str]]:
    """Real records with year, volume and pages, and real titles of every available collection."""
    sets = [labelled(name).records for name in ("asysd", "tafenoquine")]
    texts = [labelled("dblp_acm").records, *(collection(name).documents for name in COLLECTIONS)]
    real = [record for records in sets for record in records if record.pages]
    return real, [record.title for records in (*sets, *texts) for record in records if len(record.title.split()) > 3]
