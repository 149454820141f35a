"""Open reviews of a process, each with its ranker, and the choice of the next record for a reviewer"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from outrider.reviews import decision_log
from outrider.reviews.ranker import NO_MODEL, Ranker, Ranking
from outrider.reviews.review import Review
from outrider.state.reviews import NoSuchReview, Order, Shown

ON_SCREENS = "shown.json"
SHOWN_S = 1_800.0
"""Time for which a record that a reviewer sees is not shown to another, where one decision is enough."""


class NextRecord(NamedTuple):
    number: int | None
    shown: Shown
    terms: tuple[str, ...]
    """Words that speak most for inclusion."""
    left: int


@dataclass(slots=True)
class ReviewSession:
    """An open review. Blocking; safe between threads."""

    review: Review
    _ranker: tuple[int, str, Ranker] | None = None
    _rankings: dict[str, tuple[int, Ranking]] = field(default_factory=dict)
    """By reviewer: the last ranking, and the number of entries of the log from which it was made."""
    _shown: dict[tuple[str, int], Shown] = field(default_factory=dict)
    """By reviewer and record: how it was last shown. A note, help or an undone decision shows the record again, not chosen."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def prepare(self) -> Ranker:
        """The ranker with its features, which take seconds for thousands of records."""
        with self._lock:
            state = self.review.state
            key = (state.total, state.question)
            if self._ranker is None or self._ranker[:2] != key:
                ranker = Ranker([text for text, _ in self.review.texts()], state.question, state.seed)
                ranker.fit_features()
                self._ranker = (*key, ranker)
                self._rankings.clear()
            return self._ranker[2]

    def next_record(self, by: str, order: Order = "model", skip: Collection[int] = ()) -> NextRecord:
        """The best record on which a reviewer may decide. Without others it is the first of those skipped."""
        self.review.refresh()
        state = self.review.state
        if not (pool := state.find_open(by)):
            return NextRecord(None, Shown(), (), 0)
        ranking, sealed = self._rank(by, order, pool)
        open_numbers = [number for number in ranking.numbers if number not in sealed]
        taken = self._claim(by) if state.reviewers == 1 else set()
        place = next((place for place, number in enumerate(open_numbers) if number not in taken and number not in skip), None)
        if place is None:
            place = next((place for place, number in enumerate(open_numbers) if number not in skip), 0)
        number = open_numbers[place]
        if state.reviewers == 1:
            self._claim(by, number)
        passed = tuple(sorted(sealed.intersection(ranking.numbers[: ranking.numbers.index(number)]))) if sealed else ()
        shown = Shown(order=ranking.order, rank=place + 1, model=ranking.model, passed=passed)
        self._shown[by, number] = shown
        return NextRecord(number, shown, ranking.terms, len(pool))

    def last_shown(self, by: str, number: int) -> Shown:
        """How a record was last shown to a reviewer; `chosen` if it was not."""
        return self._shown.get((by, number), Shown())

    def remarks(self) -> tuple[str, ...]:
        learns = self._ranker is None or self._ranker[2].learns
        return (*self.review.remarks, *(() if learns else (NO_MODEL,)))

    def _rank(self, by: str, order: Order, pool: list[int]) -> tuple[Ranking, frozenset[int]]:
        """The ranking, and the drawn records in it that it ranks without knowing their labels."""
        if order == "random":
            left = frozenset(pool)
            return Ranking(tuple(number for number in self.review.state.list_draws() if number in left), "random"), frozenset()
        ranker = self.prepare()
        with self._lock:
            state = self.review.state
            sealed = frozenset(state.list_sealed()) - frozenset(pool)
            key = f"{order} {by}"
            lines, ranking = self._rankings.get(key, (-1, None))
            if ranking is None or lines != state.lines:
                ranking = ranker.rank(state.list_labels(by), [*pool, *sealed], order)
                self._rankings[key] = (state.lines, ranking)
            return ranking, sealed

    def _claim(self, by: str, number: int | None = None) -> set[int]:
        """The records that others see at the moment; notes that this reviewer sees a record.

        A lost note costs nothing: two reviewers then see one record, and both decisions count.
        """
        path, now = self.review.folder / ON_SCREENS, time.time()
        screens: dict[str, tuple[int, float]] = {}
        with suppress(OSError, ValueError, TypeError):
            for name, (shown, at) in json.loads(path.read_text(encoding="utf-8")).items():
                if 0 <= now - float(at) < SHOWN_S:
                    screens[str(name)] = (int(shown), float(at))
        if number is not None:
            screens[by] = (number, now)
            part = path.with_name(f"{ON_SCREENS}.{threading.get_ident()}.part")
            with suppress(OSError):
                part.write_text(json.dumps(screens), encoding="utf-8")
                part.replace(path)
        return {shown for name, (shown, _) in screens.items() if name != by}


class OpenReviews:
    """The reviews below a folder. Each is opened once in a process; later calls read what others appended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions: dict[Path, ReviewSession] = {}
        self._lock = threading.Lock()

    def open(self, folder: Path) -> ReviewSession:
        """Raises `NoSuchReview`, `ReviewDamaged`."""
        with self._lock:
            session = self._sessions.get(folder)
            if session is None or not (folder / decision_log.NAME).is_file():
                session = self._sessions[folder] = ReviewSession(Review(folder))
        session.review.refresh()
        return session

    def list_folders(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(one for one in self.folder.iterdir() if not one.name.startswith(".") and (one / decision_log.NAME).is_file())

    def delete(self, folder: Path) -> None:
        """Delete a review with all its decisions, also a damaged one. Raises `NoSuchReview`."""
        if not (folder / decision_log.NAME).is_file():
            raise NoSuchReview(f"there is no review at {folder}")
        with self._lock:
            self._sessions.pop(folder, None)
            hidden = folder.with_name(f".{folder.name}.deleted")
            shutil.rmtree(hidden, ignore_errors=True)
            folder.rename(hidden)  # at once: a process that is killed meanwhile leaves no half of a review
            shutil.rmtree(hidden)
