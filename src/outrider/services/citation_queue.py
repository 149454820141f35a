"""Where background jobs are kept, and the citation job that is queued after a search."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from outrider.jobs.job_table import MAX_TARGET_CHARS, POSTGRES, JobTable
from outrider.state.errors import JobError, SearchError, TargetPaused
from outrider.text.sanitize import OFFLINE, is_loopback, origin, without_control, without_credentials

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outrider.settings.model import Settings
    from outrider.state.hits import Hit

FILE = "jobs.sqlite"
MOST_WORKS = 20
"""Works of a search whose citations are read: the first ones, whatever its `top_k`."""
THREAD = "outrider-queueing"

log = logging.getLogger(__name__)
OWNER: ContextVar[str | None] = ContextVar("OWNER", default=None)
"""The owner of the key of a server's request, empty for a request without a key; None outside a server, where a user sees every job."""


def find_data_folder(settings: Settings) -> Path:
    """The folder of the file of threads, or that of this user's data where they are in a database."""
    threads = settings.threads.uri
    is_file = threads and "://" not in threads
    return Path(threads).expanduser().parent if is_file else platformdirs.user_data_path("outrider", appauthor=False)


def find_job_table(settings: Settings) -> JobTable:
    """The table of `jobs.uri`; by default beside the threads. Raises `JobError` for a remote database while nothing may be contacted."""
    uri, threads = settings.jobs.uri, settings.threads.uri
    if not uri and threads.startswith(POSTGRES):
        uri = threads
    elif not uri:
        uri = str(find_data_folder(settings) / FILE)
    if "://" not in uri:
        return JobTable(str(Path(uri).expanduser().absolute()))
    if settings.sources.offline and not is_local_database(uri):
        raise JobError(f"jobs.uri is {without_credentials(uri)}, {OFFLINE}; use a file")
    return JobTable(uri)


def is_local_database(uri: str) -> bool:
    """Whether a database is on this machine, reached over loopback or a socket of Postgres."""
    is_socket = not origin(uri)[1] and "host=" not in uri
    return is_socket or is_loopback(uri)


def find_library_address(settings: Settings) -> str:
    """The library of the settings, for a process in any folder."""
    uri = settings.library.uri
    return uri if "://" in uri else str(Path(uri).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class CitationQueue:
    """Queues a job that reads the citations of a search's works. It runs later, with a budget of its own."""

    settings: Settings

    def add(self, hits: Iterable[Hit], query: str, thread: str = "") -> None:
        """Return at once: the disk is written to in a thread, which the end of the process waits for."""
        papers = [hit.doc_id for hit in hits if hit.kind == "paper"]
        works: list[JsonValue] = [*papers[:MOST_WORKS]]
        if works:
            owner = f"{OWNER.get()}/" if OWNER.get() else ""  # as the name of a thread begins with it
            target = thread or (owner + " ".join(without_control(query).split()))[:MAX_TARGET_CHARS]
            threading.Thread(target=self._write, args=(target, {"targets": works}), name=THREAD).start()

    def _write(self, target: str, request: dict[str, JsonValue]) -> None:
        try:
            table = find_job_table(self.settings)
            table.queue("citations", target, find_library_address(self.settings), request)
            table.forget_unrun(self.settings.jobs.retention_days)
        except TargetPaused:
            pass
        except SearchError as error:  # the search has its answer
            log.warning("the citations of this search will not be read: %s", error)
