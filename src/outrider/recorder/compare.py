"""Node-by-node comparison of a recorded run with its replay or another recording

Nodes are compared in their order, and each by what it was given (settings, prompts, versions), what it asked and was answered, and what it
wrote. The first node that differs in any of these is the first difference; what follows it usually follows from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from outrider.recorder.codec import REFERENCE, TUPLE, TYPE, VALUE, Json, dump
from outrider.recorder.make_recording import describe_environment, encode_question
from outrider.recorder.recording import CallEntry, Recording
from outrider.recorder.replay_tape import ReplayTape
from outrider.recorder.tape import THREAD
from outrider.version import __version__

TIMES = frozenset({"timings_ms", "execution_time_ms", "took_ms", "started_at", "took_s", "age_s", "seconds"})
"""Fields that differ between any two live runs."""
CLOSE = 1e-6
MOST_SHOWN, MOST_CHARS = 20, 160
Part = Literal["version", "environment", "settings", "prompt", "question", "answer", "call", "update", "response"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One change: `node` is empty for what holds for the whole run."""

    node: str
    part: Part
    name: str
    before: str
    now: str

    def describe(self) -> str:
        where = f"{self.node}: " if self.node else ""
        return f"{where}{self.part} {self.name}: {self.before} -> {self.now}"


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`first_node` is the first one that differs; empty where none does."""

    same: bool
    """Whether the response is the same, byte for byte."""
    first_node: str
    differences: tuple[Difference, ...]
    nodes: tuple[tuple[str, bool], ...]
    """Each node in its order, and whether it wrote the same."""
    lacks: tuple[str, ...] = ()
    """What the recording leaves out, so that a replay cannot be the same."""
    response: Json = None
    sha256_before: str = ""
    sha256_now: str = ""
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "same": self.same,
            "first_node": self.first_node,
            "differences": [
                {"node": one.node, "part": one.part, "name": one.name, "before": one.before, "now": one.now} for one in self.differences
            ],
            "nodes": [{"node": node, "same": same} for node, same in self.nodes],
            "lacks": list(self.lacks),
            "remarks": list(self.remarks),
            "sha256_before": self.sha256_before,
            "sha256_now": self.sha256_now,
            "response": self.response,
        }


@dataclass(frozen=True, slots=True)
class Replay:
    """A replayed run."""

    response: bytes
    sha256: str
    updates: Sequence[tuple[str, Json]]
    blobs: Mapping[str, bytes]
    tape: ReplayTape
    problem: str
    """Why it did not come to its end; empty if it did."""
    prompts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Values:
    """JSON values whose records may stand in blobs."""

    blobs: Mapping[str, bytes]

    def resolve(self, value: Json) -> Json:
        """A value without the marks of its types, one level deep."""
        if not isinstance(value, dict):
            return value
        if REFERENCE in value:
            return json.loads(self.blobs.get(value[REFERENCE], b"{}"))
        if TYPE in value and VALUE in value:
            return value[VALUE]
        return value.get(TUPLE, value)


def find_changes(
    before: Json, now: Json, old: Values, new: Values, path: str = "", without: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Json, Json]]:
    """The places where two values differ, deepest first named, in their order."""
    if before == now:  # a reference is the digest of its record
        return
    before, now = old.resolve(before), new.resolve(now)
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*before, *now)):
            if name in without:
                continue
            place = f"{path}.{name}" if path else name
            if name not in before or name not in now:
                yield place, before.get(name), now.get(name)
            else:
                yield from find_changes(before[name], now[name], old, new, place, without)
        return
    if isinstance(before, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip(before, now, strict=False)):
            yield from find_changes(one, other, old, new, f"{path}[{number}]", without)
        if len(before) != len(now):
            yield f"{path or 'list'} (length)", len(before), len(now)
        return
    if before != now and not (without and _are_close(before, now)):
        yield path, before, now


def _are_close(before: Json, now: Json) -> bool:
    """Whether two numbers differ by no more than the time between two live runs makes a work older."""
    return isinstance(before, float) and isinstance(now, float) and math.isclose(before, now, rel_tol=CLOSE)


def compare_replay(recording: Recording, replay: Replay) -> RunComparison:
    """The recorded run and its replay by this version."""
    index = recording.index
    old, new = Values(recording.blobs), Values({**recording.blobs, **replay.blobs})
    differences: list[Difference] = []
    differences += _compare_mappings("version", {"outrider": index.outrider}, {"outrider": __version__})
    nodes: list[tuple[str, bool]] = []
    prompts = _compare_mappings("prompt", index.prompts, replay.prompts)
    for number, entry in enumerate(index.updates):
        if number >= len(replay.updates):
            break
        node, update = replay.updates[number]
        changes = list(_limit(find_changes(recording.value(entry.blob), update, old, new)))
        if node != entry.node:
            differences.append(Difference(entry.node, "update", "node", entry.node, node))
        differences += [Difference(entry.node, "update", *_show(*change)) for change in changes]
        nodes.append((entry.node, not changes and node == entry.node))
    for problem in replay.tape.problems[:1]:
        differences += _explain_problem(recording, replay.tape, problem)
        nodes.append((problem.node, False))
    is_same = not replay.problem and replay.sha256 == index.response_sha256
    if is_same:  # what this version words differently had no effect
        differences = [one for one in differences if one.part in ("version", "prompt")]
    elif not differences:
        differences.append(Difference("", "response", "sha256", index.response_sha256, replay.sha256))
    first = next((node for node, same in nodes if not same), "")
    if first:
        differences += prompts
        differences += _compare_mappings("environment", index.environment, describe_environment())
    lacks = tuple(f"text of {one.doc_id} ({one.chars:,} characters): its licence is {one.licence}" for one in index.left_out)
    if not is_same:
        lacks += tuple(f"keys in links of {doc_id}, which the hash of its content depends on" for doc_id in index.redacted)
    unused = [call for call in replay.tape.list_unused() if call.port != THREAD] if not replay.problem else []
    remarks = tuple(f"{call.node} did not ask {call.port}.{call.method} again" for call in unused[:MOST_SHOWN])
    response = json.loads(replay.response) if replay.response else None
    ordered = tuple(sorted(differences, key=lambda one: one.node != first)) if first else tuple(differences)
    return RunComparison(is_same, first, ordered, tuple(nodes), lacks, response, index.response_sha256, replay.sha256, remarks)


def compare_recordings(one: Recording, other: Recording) -> RunComparison:
    """Two recorded runs, without running anything. Times are left out: they differ between any two runs."""
    old, new = Values(one.blobs), Values(other.blobs)
    before, now = one.index, other.index
    differences = _compare_mappings("version", {"outrider": before.outrider}, {"outrider": now.outrider})
    differences += _compare_mappings("environment", before.environment, now.environment)
    differences += _compare_mappings("settings", _flatten(before.settings), _flatten(now.settings))
    differences += _compare_mappings("prompt", before.prompts, now.prompts)
    differences += [
        Difference("", "question", *_show(*change)) for change in _limit(find_changes(before.request, now.request, old, new, "request"))
    ]
    nodes: list[tuple[str, bool]] = []
    first = ""
    for entry, counterpart in zip(before.updates, now.updates, strict=False):
        node = entry.node
        own = list(_compare_calls(one, other, node, old, new))
        changes = _limit(find_changes(one.value(entry.blob), other.value(counterpart.blob), old, new, "", TIMES))
        own += [Difference(node, "update", *_show(*change)) for change in changes]
        if node != counterpart.node:
            own.append(Difference(node, "update", "node", node, counterpart.node))
        first = first or (node if own else "")
        nodes.append((node, not own))
        differences += own
        if node != counterpart.node:
            break
    same = before.response_sha256 == now.response_sha256
    return RunComparison(
        same, first, tuple(differences), tuple(nodes), sha256_before=before.response_sha256, sha256_now=now.response_sha256
    )


def _compare_calls(one: Recording, other: Recording, node: str, old: Values, new: Values) -> Iterator[Difference]:
    """What a node asked and was answered: calls with the same question are compared, the rest in their order."""
    before, now = ([call for call in recording.index.calls if call.node == node and call.port != THREAD] for recording in (one, other))
    rest = list(now)
    unmatched: list[CallEntry] = []
    for call in before:
        match = next((counterpart for counterpart in rest if counterpart.key == call.key), None)
        if match is None:
            unmatched.append(call)
            continue
        rest.remove(match)
        yield from _compare_answers(one, other, node, call, match, old, new)
    for call in unmatched:
        match = next((counterpart for counterpart in rest if (counterpart.port, counterpart.method) == (call.port, call.method)), None)
        name = f"{call.port}.{call.method}"
        if match is None:
            yield Difference(node, "call", name, "asked", "not asked")
            continue
        rest.remove(match)
        changes = _limit(find_changes(one.value(call.question), other.value(match.question), old, new, name))
        yield from (Difference(node, "question", *_show(*change)) for change in changes)
        yield from _compare_answers(one, other, node, call, match, old, new)
    for call in rest:
        yield Difference(node, "call", f"{call.port}.{call.method}", "not asked", "asked")


def _compare_answers(
    one: Recording, other: Recording, node: str, call: CallEntry, match: CallEntry, old: Values, new: Values
) -> Iterator[Difference]:
    name = f"{call.port}.{call.method}"
    if call.outcome != match.outcome:
        yield Difference(node, "answer", name, call.outcome, match.outcome)
    elif call.answer and match.answer and call.answer != match.answer:
        changes = _limit(find_changes(one.value(call.answer), other.value(match.answer), old, new, name, TIMES))
        yield from (Difference(node, "answer", *_show(*change)) for change in changes)


def _explain_problem(recording: Recording, tape: ReplayTape, problem: Any) -> list[Difference]:
    """The question that was not recorded, beside the recorded one that it stands for."""
    question = problem.question
    if question is None:
        return [Difference(problem.node, "call", "run", "as recorded", str(problem))]
    name = f"{question.port}.{question.method}"
    expected = next((call for call in tape.list_unused() if (call.port, call.method) == (question.port, question.method)), None)
    if expected is None or not expected.question:
        return [Difference(problem.node, "call", name, "not asked", "asked")]
    encoder = tape.encoder
    _, arguments = encode_question(question, encoder, lambda value: value)
    old, new = Values(recording.blobs), Values({**recording.blobs, **encoder.blobs})
    changes = _limit(find_changes(recording.value(expected.question), arguments, old, new, name))
    return [Difference(problem.node, "question", *_show(*change)) for change in changes] or [
        Difference(problem.node, "call", name, "asked as often as recorded", "asked once more")
    ]


def _compare_mappings(part: Part, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return [Difference("", part, *_show(name, before.get(name), now.get(name))) for name in names]


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _limit(changes: Iterator[tuple[str, Json, Json]]) -> Iterator[tuple[str, Json, Json]]:
    return (change for _, change in zip(range(MOST_SHOWN), changes, strict=False))


def _show(name: str, before: Json, now: Json) -> tuple[str, str, str]:
    """The two values on one short line each; of two texts, from a little before where they part."""
    if isinstance(before, str) and isinstance(now, str):
        start = next((at for at, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), min(len(before), len(now)))
        start = max(0, start - MOST_CHARS // 4)
        before, now = before[start:], now[start:]
    return name, _shorten(before), _shorten(now)


def _shorten(value: Json) -> str:
    text = value if isinstance(value, str) else dump(value).decode("utf-8", "replace")
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARS else f"{line[:MOST_CHARS]}..."
