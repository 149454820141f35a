"""What a search did not do, and why: services that did not answer, steps that did not run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from outrider.interfaces.cli.terminal import errors, select_due
from outrider.state.errors import NothingSearchable
from outrider.state.records import LIBRARY
from outrider.state.reranking import NOT_PROBED
from outrider.usecases.explain_hit import name_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from outrider.state.response import Failure, SearchResponse, SourceReport

ABOUT_REQUEST = frozenset({"filters", "rest of the query", "user_feedback", "new queries"})
"""Steps whose reason lies in this request. The reasons of others lie in the set-up and are repeated once a day."""
NO_ADVICE = frozenset({"expansion", "rest of the expansion"})
"""Steps whose reason is of no use to a reader."""
SWITCHED_OFF = "_enabled is false"
"""End of the reason for a step that the request itself switches off."""
NEED_MODEL = {"translator.model", "fine_scorer"}


def list_limits(answer: SearchResponse, advice_file: Path | None, *, explain: bool) -> list[str]:
    """What the search did not do, and why."""
    remarks: list[str] = []
    if (scoring := answer.scoring) and scoring.read < scoring.of:
        risk = "not known" if scoring.risk is None else f"put at {scoring.risk:.2g}"
        remarks.append(f"A model read {scoring.read:,} of {scoring.of:,} works; the chance that the rest would change the first is {risk}")
    if answer.reranked_by and explain:
        remarks.append(f"Reranked by {answer.reranked_by}")
    if explain:
        reported = (row for row in answer.sources if row.message and row.status != "off")
        remarks += [f"{row.source}/{row.strategy} ({row.status}): {row.message}" for row in reported]
    elif any(map(_is_limited, answer.sources)):
        remarks.append(_summarise_services(answer.sources))
    setup = [(f"{row.source}/{row.strategy}", row.message) for row in answer.sources if row.status == "off"]
    for step in answer.bypassed:
        if step.step in ABOUT_REQUEST:
            remarks.append(f"Note: {step.step}: {step.why}")
        elif explain or not (step.step in NO_ADVICE or step.why == answer.context.bypassed or step.why.endswith(SWITCHED_OFF)):
            setup.append((step.step, step.why))
    names_by_reason: dict[str, list[str]] = {}
    for name, why in setup:
        names_by_reason.setdefault(why, []).append(name)
    advice = {why: f"{', '.join(names)} ({why})" for why, names in names_by_reason.items()}
    due = [*advice.values()] if explain or advice_file is None else select_due(advice.values(), advice_file, time.time())
    if due and (explain or not errors().is_terminal):
        remarks.append("Not run: " + "; ".join(due))
    elif due:
        commands = {row.message: f"search by meaning (needs: {row.command})" for row in answer.sources if row.command}
        short = {
            NOT_PROBED: "a reranker",
            **{why: "a chat model" for why, names in names_by_reason.items() if set(names) <= NEED_MODEL},
            **commands,
        }
        names = [short.get(why, text) for why, text in advice.items() if text in due]
        remarks.append(f"Not used: {', '.join(names)}; `outrider doctor` says what they need")
    return remarks


def explain_failure(answer: SearchResponse, failure: Failure, *, explain: bool) -> str:
    """Why the search failed. Of services without a network only their number, which a reader would look for among addresses."""
    by_source: dict[str, list[SourceReport]] = {}
    for row in answer.sources:
        by_source.setdefault(row.source, []).append(row)
    unreachable = [name for name, rows in by_source.items() if all(row.status == "unavailable" for row in rows)]
    if explain or failure.error != NothingSearchable.__name__ or len(unreachable) < 2:
        return failure.message
    reasons = [f"{name_source(name)}: {row.message}" for name, rows in by_source.items() if name not in unreachable for row in rows]
    return "; ".join(dict.fromkeys([*reasons, f"{len(unreachable)} services could not be reached (no network?); --explain says why"]))


def _is_limited(row: SourceReport) -> bool:
    """Whether a source answered less than was asked. What NOT or a filter of the request leaves out is no limit."""
    return bool(row.message) and row.status not in {"off", "ok", "empty", "cached"}


def _summarise_services(rows: Sequence[SourceReport]) -> str:
    """One line about sources that did not answer in full."""
    by_source: dict[str, list[SourceReport]] = {}
    for row in rows:
        if row.status != "off":
            by_source.setdefault(row.source, []).append(row)
    services = {name: own for name, own in by_source.items() if name != LIBRARY}
    unreachable = [name for name, own in services.items() if all(row.status == "unavailable" for row in own)]
    own_rows = by_source.get(LIBRARY, ())
    if services and len(unreachable) == len(services) and not any(map(_is_limited, own_rows)):
        searched = "; searched your library" if own_rows else ""
        number = f"{len(services)} services" if len(services) > 1 else name_source(unreachable[0])
        return f"Offline: {number} could not be reached{searched}"
    statuses = {
        name: ", ".join(dict.fromkeys(row.status.replace("_", " ") for row in own if _is_limited(row)))
        for name, own in by_source.items()
        if any(map(_is_limited, own))
    }
    names = ", ".join(f"{name_source(name)} ({status})" for name, status in statuses.items())
    return f"{len(statuses)} of {len(by_source)} sources did not answer in full: {names}; --explain says why"
