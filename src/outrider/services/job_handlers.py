"""What runs each kind of background job, over the services of the job's library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from outrider.services import Services
from outrider.services.citation_queue import find_library_address
from outrider.services.citations import run_citation_job
from outrider.services.code_links import run_code_links_job
from outrider.services.fetch_works import run_fetch_job
from outrider.services.full_text import run_full_text_job

if TYPE_CHECKING:
    from outrider.state.jobs import JobHandler, JobKind

MakeHandlers = Callable[[Services], Mapping["JobKind", "JobHandler"]]


def make_job_handlers(services: Services) -> Mapping[JobKind, JobHandler]:
    """The handlers over these services, by kind. A job of another kind fails with a message."""
    return {
        "fetch": partial(run_fetch_job, services),
        "full_text": partial(run_full_text_job, services),
        "citations": partial(run_citation_job, services),
        "code_links": partial(run_code_links_job, services),
    }


@dataclass(slots=True)
class HandlersByLibrary:
    """Handlers for the library that a job names. Services of other libraries than the given ones are opened once, and closed by `close`."""

    services: Services
    make: MakeHandlers = make_job_handlers
    _opened: dict[str, Services] = field(default_factory=dict)

    def __call__(self, library: str) -> Mapping[JobKind, JobHandler]:
        if library in ("", find_library_address(self.services.settings)):
            return self.make(self.services)
        if library not in self._opened:
            self._opened[library] = Services.for_library(library)
        return self.make(self._opened[library])

    def close(self) -> None:
        for services in self._opened.values():
            services.close()
