"""The store of feedback on hits and of past queries: one SQLite file on this machine

Feedback belongs to a library and to the owner of a server's key. Nothing here is sent anywhere. Each method blocks.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from outrider.state.errors import SearchError
from outrider.state.learning import FeedbackAction, FeedbackList, JudgedWork

TABLES = (
    """CREATE TABLE IF NOT EXISTS lists (id TEXT PRIMARY KEY, library TEXT NOT NULL, owner TEXT NOT NULL, query TEXT NOT NULL,
    works TEXT NOT NULL, at DOUBLE PRECISION NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS feedback (list TEXT NOT NULL, doc_id TEXT NOT NULL, action TEXT NOT NULL,
    PRIMARY KEY (list, doc_id)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS queries (owner TEXT NOT NULL, query TEXT NOT NULL, count INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (owner, query)) WITHOUT ROWID""",
)
MOST_LISTS, MOST_WORKS, MOST_QUERIES = 300, 30, 2_000
MAX_QUERY_CHARS = 300
"""Longer queries are not completed."""
BUSY_S = 10.0


class LearningError(SearchError):
    """The file cannot be read or written."""


@dataclass(frozen=True, slots=True)
class LearningStore:
    path: Path

    @property
    def stamp(self) -> tuple[int, int]:
        """Changes with each write."""
        try:
            status = self.path.stat()
        except OSError:
            return 0, 0
        return status.st_mtime_ns, status.st_size

    def record(self, hits: FeedbackList, library: str, owner: str, actions: Mapping[str, FeedbackAction]) -> None:
        """What was done with works of a list, by id. Of a work the last action counts; `open` undoes no `keep` and no `drop`."""
        with self._connect() as connection:
            works = json.dumps([work.model_dump(mode="json", exclude={"action"}) for work in hits.works[:MOST_WORKS]])
            insert = "INSERT OR IGNORE INTO lists VALUES (?, ?, ?, ?, ?, ?)"
            connection.execute(insert, (hits.id, library, owner, hits.query, works, time.time()))
            for doc_id, action in actions.items():
                if action == "undo":
                    connection.execute("DELETE FROM feedback WHERE list = ? AND doc_id = ?", (hits.id, doc_id))
                else:
                    verb = "IGNORE" if action == "open" else "REPLACE"
                    insert = f"INSERT OR {verb} INTO feedback VALUES (?, ?, ?)"  # noqa: S608 - our word
                    connection.execute(insert, (hits.id, doc_id, action))
            old = "SELECT id FROM lists WHERE library = ? AND owner = ? ORDER BY at DESC LIMIT -1 OFFSET ?"
            for (number,) in connection.execute(old, (library, owner, MOST_LISTS)).fetchall():
                connection.execute("DELETE FROM lists WHERE id = ?", (number,))
                connection.execute("DELETE FROM feedback WHERE list = ?", (number,))

    def read(self, library: str, owner: str) -> list[FeedbackList]:
        """Lists with feedback, oldest first."""
        if not self.path.exists():
            return []
        with self._connect() as connection:
            query = "SELECT id, query, works FROM lists WHERE library = ? AND owner = ? ORDER BY at, id"
            rows = connection.execute(query, (library, owner)).fetchall()
            actions = {(number, doc_id): action for number, doc_id, action in connection.execute("SELECT * FROM feedback")}
        lists = []
        for number, text, works in rows:
            judged = (JudgedWork(**work, action=actions.get((number, work["doc_id"]))) for work in json.loads(works))
            one = FeedbackList(id=number, query=text, works=tuple(judged))
            lists += [one] if any(work.action for work in one.works) else []
        return lists

    def reset(self, library: str, owner: str) -> int:
        """Forget all feedback on a library; the number of searches."""
        if not self.path.exists():
            return 0
        with self._connect() as connection:
            chosen = "SELECT id FROM lists WHERE library = ? AND owner = ?"
            connection.execute(f"DELETE FROM feedback WHERE list IN ({chosen})", (library, owner))  # noqa: S608 - our own words
            return int(connection.execute("DELETE FROM lists WHERE library = ? AND owner = ?", (library, owner)).rowcount)

    def remember(self, query: str, owner: str) -> None:
        text = " ".join(query.split())
        if not 0 < len(text) <= MAX_QUERY_CHARS:
            return
        with self._connect() as connection:
            upsert = """INSERT INTO queries VALUES (?, ?, 1, ?)
                ON CONFLICT (owner, query) DO UPDATE SET count = count + 1, at = excluded.at"""
            connection.execute(upsert, (owner, text, time.time()))
            old = "SELECT query FROM queries WHERE owner = ? ORDER BY at DESC LIMIT -1 OFFSET ?"
            rows = connection.execute(old, (owner, MOST_QUERIES)).fetchall()
            connection.executemany("DELETE FROM queries WHERE owner = ? AND query = ?", [(owner, row[0]) for row in rows])

    def complete(self, beginning: str, owner: str, most: int) -> list[str]:
        """Past queries that begin so, the most frequent and then the newest first."""
        if not self.path.exists():
            return []
        with self._connect() as connection:
            rows = connection.execute("SELECT query FROM queries WHERE owner = ? ORDER BY count DESC, at DESC, query", (owner,)).fetchall()
        wanted = " ".join(beginning.casefold().split())
        return [row[0] for row in rows if row[0].casefold().startswith(wanted)][:most]

    def list_popular(self, most: int) -> list[str]:
        """Past queries of all owners, the most frequent and then the newest first."""
        if not self.path.exists():
            return []
        with self._connect() as connection:
            query = "SELECT query FROM queries GROUP BY query ORDER BY SUM(count) DESC, MAX(at) DESC, query LIMIT ?"
            return [row[0] for row in connection.execute(query, (most,))]

    def forget_queries(self, owner: str) -> int:
        """The number of queries that were forgotten."""
        if not self.path.exists():
            return 0
        with self._connect() as connection:
            return int(connection.execute("DELETE FROM queries WHERE owner = ?", (owner,)).rowcount)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """A connection whose statements are one transaction."""
        try:
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.touch(mode=0o600)  # queries are private
            with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as connection, connection:
                for table in TABLES:
                    connection.execute(table)
                connection.execute("PRAGMA secure_delete = ON")
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise LearningError(f"what was learned in {self.path} cannot be read or written: {error}; move the file away") from error
