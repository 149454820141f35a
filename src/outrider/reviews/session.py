"""Open reviews of a process, each with its ranker, and the choice of the next record"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from outrider.reviews import decision_log
from outrider.reviews.ranker import EXTRA, NO_MODEL, Ranker, Ranking
from outrider.reviews.review import Review
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.errors import install_hint
from outrider.state.reviews import NoSuchReview, Order, Presentation

ON_SCREENS = "shown.json"
SHOWN_S = 1_800.0
"""Time for which a record that a reviewer sees is not shown to another, where one decision is enough."""


class NextRecord(NamedTuple):
    number: int | None
    shown: Presentation
    terms: tuple[str, ...]
    """Words that speak most for inclusion."""
    left: int


class _Screen(NamedTuple):
    """The record that a reviewer sees, since when (seconds), and why."""

    number: int
    at: float
    shown: Presentation


@dataclass(slots=True)
class ReviewSession:
    """An open review. Blocking; safe between threads."""

    review: Review
    _ranker: tuple[int, str, Ranker] | None = None
    _rankings: dict[str, tuple[int, Ranking]] = field(default_factory=dict)
    """By reviewer: the last ranking, and the number of entries of the log from which it was made."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def prepare(self, tasks: TaskMap = map_here) -> Ranker:
        """The ranker with its features, whose terms `tasks` count; seconds for tens of thousands of records."""
        with self._lock:
            state = self.review.state
            key = (state.total, state.question)
            if self._ranker is None or self._ranker[:2] != key:
                ranker = Ranker(self.review.texts(), state.question, state.seed)
                ranker.fit_features(tasks)
                self._ranker = (*key, ranker)
                self._rankings.clear()
            return self._ranker[2]

    def next_record(self, by: str, order: Order = "model", skip: Collection[int] = ()) -> NextRecord:
        """The best record on which a reviewer may decide. Without others it is the first of those skipped."""
        self.review.refresh()
        state = self.review.state
        ranking, sealed = self._draw(by) if order == "random" else self._rank(by, order)
        open_numbers = [number for number in ranking.numbers if number not in sealed]
        if not open_numbers:
            return NextRecord(None, Presentation(), (), 0)
        taken = self._list_taken(by) if state.reviewers == 1 else set()
        place = next((place for place, number in enumerate(open_numbers) if number not in taken and number not in skip), None)
        if place is None:
            place = next((place for place, number in enumerate(open_numbers) if number not in skip), 0)
        number = open_numbers[place]
        # not what lies behind a skipped record: reviewers skip relevant ones more often, and the proof would not see them
        first = ranking.numbers.index(open_numbers[0])
        passed = tuple(sorted(sealed.intersection(ranking.numbers[:first])))
        shown = Presentation(order=ranking.order, rank=place + 1, model=ranking.model, passed=passed)
        self._write_screen(by, _Screen(number, time.time(), shown))
        return NextRecord(number, shown, ranking.terms, len(open_numbers))

    def remarks(self) -> tuple[str, ...]:
        learns = self._ranker is None or self._ranker[2].learns
        return (*self.review.remarks, *(() if learns else (NO_MODEL.format(install_hint(EXTRA)),)))

    def _draw(self, by: str) -> tuple[Ranking, frozenset[int]]:
        with self.review.reading() as state:
            pool = frozenset(state.find_open(by))
            return Ranking(tuple(number for number in state.list_draws() if number in pool), "random"), frozenset()

    def _rank(self, by: str, order: Order) -> tuple[Ranking, frozenset[int]]:
        """The ranking, and the drawn records in it that it ranks without knowing their labels."""
        with self._lock:
            ranker = self.prepare()
            with self.review.reading() as state:
                if state.total != ranker.size:  # an import came in between
                    ranker = self.prepare()
                pool, labels, lines = state.find_open(by), state.list_labels(by), state.lines
                sealed = frozenset(state.list_sealed(by)) - frozenset(pool)
            key = f"{order} {by}"
            ranked_lines, ranking = self._rankings.get(key, (-1, None))
            if ranking is None or ranked_lines != lines:
                ranking = ranker.rank(labels, [*pool, *sealed], order)
                self._rankings[key] = (lines, ranking)
            return ranking, sealed

    def find_presentation(self, by: str, number: int, presentation: Presentation | None = None) -> Presentation:
        return self.find_presentations(by, [number], presentation)[number]

    def find_presentations(self, by: str, numbers: Iterable[int], presentation: Presentation | None = None) -> dict[int, Presentation]:
        """How a reviewer came to see records: as the caller tells, else as they were shown last, or for a decision taken back.

        A caller may show the record once more, with a note or a message, or not know of `Presentation`. A draw must not get lost by that:
        its label would steer the ranking.
        """
        if presentation is not None and presentation.order != "chosen":
            return dict.fromkeys(numbers, presentation)
        screen = self._read_screens().get(by)
        shown = {} if screen is None else {screen.number: screen.shown}
        return {number: shown.get(number) or self.review.state.find_undone(by, number) for number in numbers}

    def _list_taken(self, by: str) -> set[int]:
        """The records that others see at the moment.

        A lost note costs little: two reviewers then see one record, and both decisions count.
        """
        now = time.time()
        return {screen.number for name, screen in self._read_screens().items() if name != by and 0 <= now - screen.at < SHOWN_S}

    def _read_screens(self) -> dict[str, _Screen]:
        screens: dict[str, _Screen] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):
            for name, (number, at, shown) in json.loads((self.review.folder / ON_SCREENS).read_text(encoding="utf-8")).items():
                screens[str(name)] = _Screen(int(number), float(at), Presentation.model_validate(shown))
        return screens

    def _write_screen(self, by: str, screen: _Screen) -> None:
        screens = {**self._read_screens(), by: screen}
        rows = {name: (one.number, one.at, one.shown.model_dump(exclude_defaults=True)) for name, one in screens.items()}
        part = self.review.folder / f"{ON_SCREENS}.{os.getpid()}.{threading.get_ident()}.part"
        with suppress(OSError):
            part.write_text(json.dumps(rows), encoding="utf-8")
            part.replace(self.review.folder / ON_SCREENS)


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
            if session is None or session.review.is_replaced():
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
