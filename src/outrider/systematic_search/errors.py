"""What keeps a run from being gone on with, or from passing for complete."""

from __future__ import annotations

from outrider.state.errors import BadRequest, SearchError


class NoSuchRun(BadRequest):
    """There is no run at the place that was named, or what lies there is none."""


class RunBusy(SearchError):
    """Another process writes to the run."""

    exit_code = 3


class OtherRun(BadRequest):
    """A run cannot be gone on with as it was begun: by another version, or over a library that has gone."""


class IncompleteRun(SearchError):
    """Raised where the hits of a run end before all that match are there; says how many came, and how to go on."""

    exit_code = 3


class Tampered(SearchError):
    """What was written down was changed; the message names the place."""

    exit_code = 3
