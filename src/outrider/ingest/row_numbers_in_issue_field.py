"""Running numbers of a file that stand where an issue or a volume should be.

EndNote and others export a row number as `number`, which every reader takes for the issue. It differs on every record, so that
two records of one work seem to stand in different issues. Readers' entries pass through `drop_running_numbers`, a window at a time.

Real issues look different: most are at most 12, so that records of several journals share them; numbers that differ are
consecutive issues of one journal, in the order of the years. So a column is a running number only if its numbers also go on from
one record to the next where journal or year contradict that, or if they differ among many records of many journals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final

from outrider.ingest.column_mapping import FIELD_OF
from outrider.ingest.entry import Entry, FileNote, Parsed, estimate_bytes
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper
from outrider.text.words import fold_name

FIELDS: Final = ("issue", "volume")
ROW_NUMBER = "row_number"
"""Field of the metadata that keeps the number."""
WINDOW = 200
"""Records that are judged together; a file of which only a part counts its records is mended in that part."""
WINDOW_BYTES = 8 * 2**20
MIN_RECORDS = 13
"""Twelve records may be one of each month, and fewer cost few duplicates."""
PRESENT, IN_SEQUENCE = 0.95, 0.9
"""Shares of a window: records with a number, and steps of one (below `MIN_DIFFERENT` records: all)."""
MIN_CONTRADICTED, CONTRADICTED = 6, 0.25
"""Steps of one that no journal makes. By chance one step in twelve between records of different journals is one."""
MIN_DIFFERENT, MIN_JOURNALS, MOST_OF_ONE = 20, 8, 0.6
"""Records, journals and share of the commonest journal, above which numbers that all differ cannot be issues."""
SKEWED = 0.25
"""Place of the median between the least number and the largest; that of rows, also of a selection of them, is near the middle."""
MAX_PER_RECORD = 50
"""Numbers of rows are at most this often as large as their number; patents, and issues counted for a century, are larger."""
MIN_REPEATS = 6.0
"""Repetitions between journals that chance would make (one in 400 that there is none), above which numbers without any are no issues."""
MIN_STEPS, MIXED = 15, 0.25
"""Comparisons of years, and share of both directions, that show numbers of one journal to be in no order of time."""
MAX_YEARS = 2
"""Between consecutive issues."""
NUMBER = re.compile(r"[#(\[]?(\d{1,7})[.)\]]?")


def drop_running_numbers(entries: Iterable[Parsed], mapped: Iterable[str] = ()) -> Iterator[Parsed]:
    """The entries in their order, a running number moved from issue or volume to the metadata; at the end a note that says so.

    Holds at most `WINDOW` records or `WINDOW_BYTES`. Records with a `doc_id` are Outrider's own and stay as they are, and so
    do fields that a person has `mapped` to columns.
    """
    known = {FIELD_OF.get(fold_name(name)) for name in mapped}
    columns = [_Column(name) for name in FIELDS if name not in known]
    window: list[Parsed] = []
    size = 0
    try:
        for entry in entries:
            is_row = isinstance(entry, Entry) and isinstance(entry.record, Paper) and not entry.record.doc_id
            if not window and not (is_row and isinstance(entry, Entry) and any(column.read(entry.record) for column in columns)):
                yield entry  # nothing to judge: files without issues are not held up
                continue
            window.append(entry)
            size += estimate_bytes(entry.record) if isinstance(entry, Entry) else 0
            if len(window) >= WINDOW or size >= WINDOW_BYTES:
                yield from _judge(window, columns)
                window, size = [], 0
    except (UnreadableFile, OSError):
        yield from _judge(window, columns)
        raise
    yield from _judge(window, columns)
    for column in columns:
        if column.dropped:
            yield FileNote(
                f"its {column.name} is a running number of the file in {column.dropped:,} records, not the {column.name} of a journal; "
                f"it is kept as {ROW_NUMBER} in their metadata"
            )


@dataclass(slots=True)
class _Column:
    """One field over the windows of a file."""

    name: str
    dropped: int = 0
    last: list[int] = field(default_factory=list)
    """Numbers of the window before, if they were a running number."""
    started: bool = False

    def read(self, record: object) -> str | None:
        value: str | None = getattr(record, self.name, None)
        return value

    def is_running(self, papers: Sequence[Paper]) -> bool:
        """Whether this window of the file holds a running number."""
        rows = [(int(match[1]), paper) for paper in papers if (match := NUMBER.fullmatch((self.read(paper) or "").strip()))]
        first, self.started = not self.started, True
        last, self.last = self.last, []
        if not rows or len(rows) < PRESENT * len(papers):
            return False
        numbers = [number for number, _ in rows]
        if last:  # whether the numbers go on with those of the window before, which were a running number
            steps = Counter(later - earlier for earlier, later in pairwise((last[-1], *numbers)))
            is_other = len(set(numbers)) == len(numbers) and not set(numbers).intersection(last)
            running = steps[1] + steps[-1] >= IN_SEQUENCE * len(numbers) or is_other
        else:
            running = len(rows) >= MIN_RECORDS and self._starts(rows, first=first)
        if running:
            self.last = numbers
        return running

    def _starts(self, rows: Sequence[tuple[int, Paper]], *, first: bool) -> bool:
        # volumes of one series, such as Lecture Notes, go on over its books: they count the rows only from 1 on
        if self.name == "volume" and not (first and rows[0][0] in (0, 1)):
            return False
        steps = Counter(later[0] - earlier[0] for earlier, later in pairwise(rows))
        sign = max((1, -1), key=lambda step: steps[step])
        if steps[sign] >= (IN_SEQUENCE if len(rows) >= MIN_DIFFERENT else 1) * (len(rows) - 1):
            contradicted = sum(
                later[0] - earlier[0] == sign and _contradict(earlier[1], later[1], sign) for earlier, later in pairwise(rows)
            )
            return contradicted >= max(MIN_CONTRADICTED, CONTRADICTED * (len(rows) - 1))
        return self.name == "issue" and _are_rows(rows)


def _contradict(earlier: Paper, later: Paper, sign: int) -> bool:
    """Whether the later record cannot be in the next issue of the earlier one's journal."""
    journals = {_fold(earlier.venue), _fold(later.venue)}
    if len(journals) == 2 and "" not in journals:
        return True
    years = 0 if earlier.year is None or later.year is None else (later.year - earlier.year) * sign
    return not 0 <= years <= MAX_YEARS


def _are_rows(rows: Sequence[tuple[int, Paper]]) -> bool:
    """Whether numbers in no order are those of rows: all differ, though issues of these journals would repeat or follow the years."""
    numbers = [number for number, _ in rows]
    if len(rows) < MIN_DIFFERENT or len(set(numbers)) < len(rows) or max(numbers) > MAX_PER_RECORD * len(rows):
        return False
    spread = (sorted(numbers)[len(numbers) // 2] - min(numbers)) / (max(numbers) - min(numbers))
    if not SKEWED <= spread <= 1 - SKEWED:
        return False  # most issues are small, and the largest is far above them
    by_journal: dict[str, list[tuple[int, int | None]]] = {}
    for number, paper in sorted(rows, key=lambda row: row[0]):
        by_journal.setdefault(_fold(paper.venue), []).append((number, paper.year))
    sizes = [len(of_one) for journal, of_one in by_journal.items() if journal]
    if len(sizes) >= MIN_JOURNALS and max(sizes) <= MOST_OF_ONE * len(rows):
        return True
    return _expect_repeats([of_one for journal, of_one in by_journal.items() if journal]) >= MIN_REPEATS or _ignore_years(
        by_journal.values()
    )


def _expect_repeats(journals: Sequence[Sequence[tuple[int, int | None]]]) -> float:
    """How many numbers two journals would share if each spread its own evenly between its least and its largest."""
    ranges = [(of_one[0][0], of_one[-1][0] + 1, len(of_one)) for of_one in journals]
    return sum(
        max(0, min(end, other_end) - max(start, other_start)) * (size / (end - start)) * (other_size / (other_end - other_start))
        for (start, end, size), (other_start, other_end, other_size) in combinations(ranges, 2)
    )


def _ignore_years(journals: Iterable[Sequence[tuple[int, int | None]]]) -> bool:
    """Whether years rise and fall with the numbers of one journal: issues that never repeat go on through the years."""
    pairs = [(earlier[1], later[1]) for of_one in journals for earlier, later in pairwise(of_one)]
    steps = [later > earlier for earlier, later in pairs if earlier is not None and later is not None and earlier != later]
    return len(steps) >= MIN_STEPS and MIXED <= sum(steps) / len(steps) <= 1 - MIXED


def _fold(venue: str | None) -> str:
    return re.sub(r"[\W_]+", "", (venue or "").casefold()).removeprefix("the")


def _judge(window: Sequence[Parsed], columns: Sequence[_Column]) -> Iterator[Parsed]:
    papers = [entry.record for entry in window if isinstance(entry, Entry) and isinstance(entry.record, Paper) and not entry.record.doc_id]
    running = [column for column in columns if papers and column.is_running(papers)]
    for entry in window:
        if not running or not isinstance(entry, Entry) or not isinstance(entry.record, Paper) or entry.record.doc_id:
            yield entry
            continue
        record = entry.record
        numbers = {column.name: value for column in running if (value := column.read(record))}
        for column in running:
            column.dropped += column.name in numbers
        metadata = {**record.metadata, ROW_NUMBER: next(iter(numbers.values()))} if numbers else record.metadata
        yield Entry(record.model_copy(update={**dict.fromkeys(numbers), "metadata": metadata}), entry.own_id)
