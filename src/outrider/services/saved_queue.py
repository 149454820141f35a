"""Where saved searches are kept, which of them are due, and their background jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.jobs.job_table import POSTGRES
from outrider.saved_searches.schedule import parse_schedule
from outrider.saved_searches.store import SavedStore
from outrider.services.citation_queue import find_data_folder, find_job_table, is_local_database
from outrider.state.errors import BadRequest, SavedError, TargetPaused
from outrider.text.sanitize import OFFLINE, without_credentials

if TYPE_CHECKING:
    from outrider.settings.model import Settings
    from outrider.state.saved import SavedRun, SavedSearch

FILE = "saved.sqlite"

log = logging.getLogger(__name__)


def find_saved_store(settings: Settings) -> SavedStore:
    """The store of `saved.uri`; by default beside the threads, and in the database of the jobs where several servers share one.

    Raises `BadRequest` for an address that is no Postgres database, `SavedError` for a remote one while nothing may be contacted.
    """
    uri = settings.saved.uri
    if not uri and settings.shared.redis_url:
        jobs = find_job_table(settings)
        uri = jobs.uri if jobs.is_postgres else ""
    if uri.startswith(POSTGRES):
        if settings.sources.offline and not is_local_database(uri):
            raise SavedError(f"saved.uri is {without_credentials(uri)}, {OFFLINE}; use a file")
        return SavedStore(uri)
    if "://" in uri:
        raise BadRequest(f"saved.uri takes a file or an address postgresql://..., not {without_credentials(uri)}")
    if uri:
        return SavedStore(Path(uri).expanduser().absolute())
    return SavedStore((find_data_folder(settings) / FILE).absolute())


def find_next_run(saved: SavedSearch, last: SavedRun | None) -> float | None:
    """When it is due, in seconds since the epoch: by its schedule after its last run, or after it was saved; None without a schedule.

    Raises `BadRequest` for a schedule that cannot be read any more, such as in a time zone that this machine does not know.
    """
    if not saved.schedule:
        return None
    anchor = max(saved.created_at, saved.queued_at or 0.0, last.started_at if last else 0.0)
    return parse_schedule(saved.schedule, saved.timezone).next_after(datetime.fromtimestamp(anchor, UTC)).timestamp()


def log_problem(saved: SavedSearch, error: BadRequest) -> None:
    log.warning("the saved search %s does not run by its schedule: %s", saved.name, error)


def is_due(
    saved: SavedSearch, last: SavedRun | None, now: float, on_problem: Callable[[SavedSearch, BadRequest], None] = log_problem
) -> bool:
    """By its schedule and its last run. One whose schedule cannot be read is not, and stops no other."""
    try:
        at = find_next_run(saved, last)
    except BadRequest as error:
        on_problem(saved, error)
        return False
    return at is not None and at <= now


def list_due(store: SavedStore, now: float, on_problem: Callable[[SavedSearch, BadRequest], None] = log_problem) -> list[SavedSearch]:
    """Saved searches that are due; one that missed several runs is due once."""
    scheduled = (saved for saved in store.list_searches() if saved.schedule)
    return [saved for saved in scheduled if is_due(saved, next(iter(store.runs(saved)[-1:]), None), now, on_problem)]


def queue_run(settings: Settings, saved: SavedSearch) -> str:
    """Queue the job that runs a saved search, and return its number. Raises `TargetPaused`."""
    return find_job_table(settings).queue("saved", saved.name, saved.library, {"saved": saved.name})


def queue_due_searches(settings: Settings, now: float) -> int:
    """Queue a job for each saved search that is due; the number of jobs. Of several servers one queues it."""
    store = find_saved_store(settings)
    numbers: list[str] = []

    def queue(saved: SavedSearch) -> None:
        with suppress(TargetPaused):  # a person paused it: it is due again at its next time
            numbers.append(queue_run(settings, saved))

    for saved in list_due(store, now):
        store.queue(saved, now, partial(is_due, now=now), partial(queue, saved))
    return len(numbers)
