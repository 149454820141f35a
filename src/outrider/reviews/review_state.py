"""What the entries of a log amount to: the decisions that hold, and the state of each record

Kinds of entries: `create`, `settings`, `import`, `include`, `exclude`, `maybe`, `resolve`, `undo` and `note`. A record's verdict is final
once as many reviewers as the review asks for decided alike, or a decision resolved their conflict. Of an imported label one is enough.
Decisions of others on a record are visible to a reviewer once its verdict is final or in conflict: before, they could sway the reviewer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, count
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

from outrider.state.reviews import VERDICTS, Decision, Order, Presentation, RecordState, ReviewDamaged, ReviewNote, Verdict
from outrider.statistics.recall_certificate import order_draws

RESOLVE = "resolve"
NOT_SHOWN: Mapping[str, Any] = {}


class Entry(NamedTuple):
    """A decision as the log has it, as values without containers: the collector of garbage passes over a hundred thousand of them."""

    line: int
    """Its place among all entries."""
    by: str
    verdict: Verdict
    at: str
    reason: str
    order: Order
    rank: int | None
    model: str
    imported: bool
    resolves: bool

    def decision(self, record: int) -> Decision:
        fields = self._asdict()
        shown = Presentation(order=fields.pop("order"), rank=fields.pop("rank"), model=fields.pop("model"))
        del fields["line"]
        return Decision(record=record, shown=shown, **fields)


class Batch(NamedTuple):
    """The records of one import."""

    file: str
    sha256: str
    first: int
    records: int
    fields: Mapping[str, Any]


class ScreenedLabel(NamedTuple):
    """A final verdict, for estimates of recall. `maybe` counts as included: it goes on to the full text."""

    record: int
    included: bool
    is_drawn: bool
    """The decision that made its verdict final was made because it was drawn at random."""
    is_reached: bool
    """Rankings have put it before all others that were left, or it was decided on without a draw: for as many reviewers as it takes."""


@dataclass(slots=True)
class ReviewState:
    name: str = ""
    question: str = ""
    created: str = ""
    seed: int = 0
    reviewers: int = 1
    reasons: tuple[str, ...] = ()
    total: int = 0
    batches: list[Batch] = field(default_factory=list)
    duplicate_of: dict[int, int] = field(default_factory=dict)
    duplicates: dict[int, list[int]] = field(default_factory=dict)
    """By work: the other records that describe it."""
    notes: dict[int, list[ReviewNote]] = field(default_factory=dict)
    """By work."""
    reasons_used: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By reviewer."""
    lines: int = 0
    """Entries of the log so far."""
    _decided: dict[int, dict[str, Entry]] = field(default_factory=dict)
    """By record, then reviewer: the decision that holds."""
    _resolved: dict[int, Entry] = field(default_factory=dict)
    _independent: dict[int, dict[str, Verdict]] = field(default_factory=dict)
    """By record, then reviewer: the decisions after which no further reviewer was waited for, if a record takes several."""
    _before: dict[tuple[int, str, bool], list[Entry]] = field(default_factory=dict)
    """By record, reviewer and whether it resolves: earlier decisions, to which `undo` returns."""
    _drawn: set[tuple[int, str]] = field(default_factory=set)
    """Records and the reviewers who decided on them as draws; they stay so when the decision is corrected or taken back."""
    _passed: dict[int, set[str]] = field(default_factory=dict)
    """By drawn record: the reviewers whose ranking put it before all that they had left."""
    _draws: tuple[tuple[int, int], tuple[int, ...]] = ((0, 0), ())
    _undone: dict[tuple[int, str], Entry] = field(default_factory=dict)
    """By record and reviewer: the last decision that was taken back."""
    _recent: dict[str, list[int]] = field(default_factory=dict)
    """By reviewer: records in the order of their decisions, which `undo` takes back from the end."""

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Take the next entry of the log."""
        self.lines += 1
        kind = entry["kind"]
        if kind in VERDICTS:
            self._decide(entry, cast("Verdict", kind), self._decided.setdefault(entry["record"], {}), entry["by"])
        elif kind == RESOLVE:
            self._decide(entry, entry["verdict"], self._resolved, entry["record"])
        elif kind == "undo":
            self._undo(entry["record"], entry["by"])
        elif kind == "note":
            self.notes.setdefault(self.leader(entry["record"]), []).append(
                ReviewNote(record=entry["record"], text=entry["text"], by=entry["by"], at=entry["at"])
            )
        elif kind == "import":
            self.batches.append(Batch(entry["file"], entry["sha256"], self.total + 1, entry["records"], entry))
            self.total += entry["records"]
            for number, of in entry["duplicate_of"].items():
                self.duplicate_of[int(number)] = of
                self.duplicates.setdefault(of, []).append(int(number))
        elif kind in ("create", "settings"):
            for name in ("name", "question", "created", "seed", "reviewers"):
                setattr(self, name, entry.get(name, getattr(self, name)))
            self.reasons = tuple(entry.get("reasons", self.reasons))
        else:
            raise ReviewDamaged(f"the log has an entry of the kind {kind!r}, which this version of Outrider does not know; update it")

    def _decide(self, entry: Mapping[str, Any], verdict: Verdict, place: dict[Any, Entry], key: Any) -> None:
        record, by, shown, reason = entry["record"], entry["by"], entry.get("shown", NOT_SHOWN), entry.get("reason", "")
        resolves = place is self._resolved
        new = Entry(
            self.lines, by, verdict, entry["at"], reason, shown.get("order", "chosen"), shown.get("rank"), shown.get("model", ""),
            "imported" in entry, resolves,
        )  # fmt: skip
        if (before := place.get(key)) is not None:
            self._before.setdefault((record, by, resolves), []).append(before)
        self._recent.setdefault(by, []).append(record)
        for number in shown.get("passed", ()):
            self._passed.setdefault(number, set()).add(by)
        if new.order == "random":
            self._drawn.add((record, by))
        place[key] = new
        if self.reviewers > 1 and record not in self._independent and not resolves and not self.is_open(record):
            self._independent[record] = {name: entry.verdict for name, entry in self._decided[record].items() if not entry.imported}
        if reason:
            self.reasons_used[by][reason] += 1

    def _undo(self, record: int, by: str) -> None:
        recent = self._recent[by]
        del recent[len(recent) - 1 - recent[::-1].index(record)]
        resolved, decided = self._resolved.get(record), self._decided.get(record, {})
        own = decided.get(by)
        resolves = resolved is not None and resolved.by == by and (own is None or resolved.line > own.line)
        place: dict[Any, Entry] = self._resolved if resolves else decided
        key = record if resolves else by
        undone = self._undone[record, by] = place.pop(key)
        if before := self._before.get((record, by, resolves)):
            place[key] = before.pop()
        if not decided and record not in self._resolved:  # a resolution holds also where the decisions below it are taken back
            self._decided.pop(record, None)
        if self.is_open(record):
            self._independent.pop(record, None)
        if undone.reason:
            self.reasons_used[by][undone.reason] -= 1

    def find_undone(self, by: str, record: int) -> Presentation:
        """How a record was shown for the last decision on it that the reviewer took back; `chosen` for none."""
        undone = self._undone.get((record, by))
        return Presentation() if undone is None else Presentation(order=undone.order, rank=undone.rank, model=undone.model)

    def last_decided(self, by: str) -> int | None:
        """The record whose decision `undo` takes back."""
        recent = self._recent.get(by)
        return recent[-1] if recent else None

    def can_undo(self, record: int, by: str) -> bool:
        resolved = self._resolved.get(record)
        return by in self._decided.get(record, ()) or (resolved is not None and resolved.by == by)

    def leader(self, record: int) -> int:
        """The record that stands for all records of its work."""
        return self.duplicate_of.get(record, record)

    def state(self, record: int) -> RecordState:
        record = self.leader(record)
        if (resolved := self._resolved.get(record)) is not None:
            return resolved.verdict
        decided = self._decided.get(record)
        if not decided:
            return "unscreened"
        entries = [*decided.values()]
        if len(entries) < self.reviewers and not any(entry.imported for entry in entries):
            return "waiting"
        first = entries[0].verdict
        return first if all(entry.verdict == first for entry in entries) else "conflict"

    def decisions(self, record: int, viewer: str | None = None) -> tuple[Decision, ...]:
        """The decisions that hold, in their order; for a viewer without those of others while the record waits."""
        record = self.leader(record)
        entries = [*self._decided.get(record, {}).values()]
        if (resolved := self._resolved.get(record)) is not None:
            entries.append(resolved)
        if viewer is not None and self.state(record) == "waiting":
            entries = [entry for entry in entries if entry.by == viewer]
        return tuple(entry.decision(record) for entry in sorted(entries, key=lambda entry: entry.line))

    def visible_notes(self, record: int, viewer: str | None = None) -> tuple[ReviewNote, ...]:
        record = self.leader(record)
        blind = viewer is not None and self.state(record) in ("waiting", "unscreened") and self.reviewers > 1
        return tuple(note for note in self.notes.get(record, ()) if not blind or note.by == viewer)

    def leaders(self) -> Iterator[int]:
        """Every work once, by number."""
        return (number for number in range(1, self.total + 1) if number not in self.duplicate_of)

    def find_open(self, by: str) -> list[int]:
        """Works on which a reviewer may decide: not decided by this reviewer, nor by as many others as the review asks for."""
        decided = self._decided
        return [
            number
            for number in self.leaders()
            if number not in decided or (decided[number].keys() != {by} and by not in decided[number] and self.is_open(number))
        ]

    def is_open(self, record: int) -> bool:
        return self.state(record) in ("unscreened", "waiting")

    def list_labels(self, viewer: str) -> dict[int, bool]:
        """What the ranking may learn from for a reviewer: final verdicts, and the reviewer's own decisions; true for inclusions.

        Drawn records that the ranking has not reached are left out: a proof of recall rests on that (`list_sealed`).
        """
        labels = {}
        for record, decided in self._decided.items():
            own, state = decided.get(viewer), self.state(record)
            if self._is_reached(record, decided):
                verdict = own.verdict if state == "waiting" and own else state
            elif own and viewer in self._list_passers(record, decided):
                verdict = own.verdict
            else:
                continue
            if verdict in ("include", "exclude"):
                labels[record] = verdict == "include"
        return labels

    def list_draws(self) -> tuple[int, ...]:
        """All works in the order in which they are drawn, fixed by the seed. Works of later imports fall between the others."""
        size = self.total, len(self.duplicate_of)
        if self._draws[0] != size:
            ids = [str(number) for number in self.leaders()]
            self._draws = size, tuple(map(int, order_draws(ids, f"{self.name}\0{self.created}\0{self.seed}")))
        return self._draws[1]

    def list_sealed(self, viewer: str) -> list[int]:
        """Drawn records that the ranking has not reached for a reviewer: it still ranks them, without their labels."""
        return [
            record
            for record, decided in self._decided.items()
            if not self._is_reached(record, decided) and viewer not in self._list_passers(record, decided)
        ]

    def _is_reached(self, record: int, decided: Mapping[str, Entry]) -> bool:
        """Whether as many rankings reached a record as it takes reviewers: undrawn, it would have its verdict by now."""
        if any(entry.imported for entry in decided.values()):
            return True
        return len(self._list_passers(record, decided)) >= self.reviewers

    def _list_passers(self, record: int, decided: Mapping[str, Entry]) -> set[str]:
        """The reviewers whose ranking has reached a record, and those who chose it."""
        chosen = {by for by, entry in decided.items() if not self._is_draw(record, entry)}
        return chosen | self._passed.get(record, set())

    def _is_draw(self, record: int, entry: Entry) -> bool:
        return entry.order == "random" or (entry.order == "chosen" and (record, entry.by) in self._drawn)

    def list_screened(self) -> list[ScreenedLabel]:
        """The final verdicts in the order in which they became final."""
        final = []
        for record, decided in self._decided.items():
            if (state := self.state(record)) in VERDICTS:
                decisive = max(decided.values(), key=lambda entry: entry.line) if decided else self._resolved[record]
                last = self._resolved.get(record) or decisive
                label = ScreenedLabel(record, state != "exclude", self._is_draw(record, decisive), self._is_reached(record, decided))
                final.append((last.line, label))
        return [label for _, label in sorted(final)]

    def count_screened(self) -> int:
        """Works that have a verdict, or a conflict."""
        return sum(not self.is_open(record) for record in self._decided)

    def count_by_reviewer(self) -> dict[str, tuple[int, str]]:
        """Records that each reviewer decided on, and the time of the last decision."""
        counts: dict[str, tuple[int, str]] = {}
        for decided in self._decided.values():
            for by, entry in decided.items():
                number, last = counts.get(by, (0, ""))
                counts[by] = (number + 1, max(last, entry.at))
        return dict(sorted(counts.items()))

    def pair_verdicts(self) -> dict[tuple[str, str], list[tuple[Verdict, Verdict]]]:
        """The decisions of each two reviewers on the records on which both decided before they saw each other's."""
        pairs: dict[tuple[str, str], list[tuple[Verdict, Verdict]]] = {}
        for verdicts in self._independent.values():
            for one, other in combinations(sorted(verdicts), 2):
                pairs.setdefault((one, other), []).append((verdicts[one], verdicts[other]))
        return dict(sorted(pairs.items()))

    def count_decided(self, by: str) -> int:
        return sum(by in decided for decided in self._decided.values())

    def name_sources(self) -> tuple[str, ...]:
        """The source of each import: files with one name by as much of their paths as tells them apart."""
        paths = [PurePosixPath(batch.fields.get("path") or batch.fields["source"]) for batch in self.batches]
        names = []
        for path, batch in zip(paths, self.batches, strict=True):
            others = {other.parts for other in paths if other.name == path.name and other != path}
            depth = next(depth for depth in count(1) if not any(other[-depth:] == path.parts[-depth:] for other in others))
            names.append(PurePosixPath(*path.parts[-depth:]).as_posix() if depth > 1 else batch.fields["source"])
        return tuple(names)

    def list_reasons(self, viewer: str | None = None) -> tuple[str, ...]:
        """Reasons for exclusion to offer: the most used first, then those of the review that were not used yet.

        Where a work takes several reviewers, those of others are left out until every work has a verdict: they would tell a blind reviewer
        what the others look for.
        """
        screened = len(self._decided.keys() | self._resolved.keys())
        is_blind = self.reviewers > 1 and (
            screened < self.total - len(self.duplicate_of) or any(self.state(number) not in VERDICTS for number in self.leaders())
        )
        used: Counter[str] = Counter()
        for by, reasons in self.reasons_used.items():
            if by == viewer or not is_blind:
                used.update(reasons)
        ordered = sorted(+used, key=lambda reason: (-used[reason], reason))
        return tuple(dict.fromkeys([*ordered, *self.reasons]))
