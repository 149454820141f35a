"""A recording from the tape of a run: without secrets, and without texts that must stay out"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from outrider.recorder.codec import END_VALUE, LEFT_OUT, NO_PART_OF_A_QUESTION, TEXT, Encoder, Json, digest, dump
from outrider.recorder.ports import PortBook, Question
from outrider.recorder.recording import FORMAT, CallEntry, Index, Kind, LeftOut, UpdateEntry
from outrider.recorder.tape import END, THREAD, RecordedCall, RecordingTape
from outrider.settings.model import Settings, TextsToKeep
from outrider.settings.redact import Redactor, redact
from outrider.state.full_text import KEY as FULL_TEXT
from outrider.text.sanitize import HIDDEN
from outrider.version import __version__

RISK = re.compile(r"""://[^/\s"]*@|[?&;][^=?&;#\s"'<>]{1,200}=|outrider_""")
"""What a password or a key in an address, or a key of our server, begins with."""
WORD = re.compile(r"\w+")
HIDDEN_BYTES = HIDDEN.encode()
SHINGLE = 8
"""Words in sequence that count as a quotation of a text that must stay out."""
LONG_TEXT = 2_000
"""Characters from which on a text in a question is replaced by its digest: it stands in a record or a prompt already."""
NOT_ASKED = frozenset({"budget", "within_s", "progress", "into", "shape"})
"""Arguments that do not decide an answer, or are no values."""
NOT_STORED = frozenset({"seen"})
"""Of a harvest: ids that only its own adapter reads, as many as there are hits."""
EARLIER_FIELDS = ("strategy", "judged")
"""Fields of the state that a search takes over from the one before on its thread."""
PACKAGES = ("langgraph", "langchain-core", "pydantic", "lancedb", "numpy")
OPEN_LICENCES = (
    "cc by", "cc0", "public domain", "publicdomain", "pd", "mit", "apache", "bsd", "isc", "gpl", "lgpl", "agpl", "mpl", "epl", "unlicense",
    "odc", "odbl", "creativecommons.org",
)  # fmt: skip
"""Beginnings or parts of licences under which a text may be passed on."""
CLOSED_LICENCES = (
    "all rights reserved", "copyright", "tdm", "elsevier", "springer", "wiley", "acs.org", "closed", "proprietary", "no redistribution",
    "publisher-specific", "implied-oa", "arxiv.org/licenses/nonexclusive", "arxiv-nonexclusive",
    "noassertion",
)  # fmt: skip
"""Parts of licences under which it may not."""


def may_pass_on(licence: str, texts: TextsToKeep) -> bool:
    """Whether a text with this licence belongs into a recording; an empty one is not stated."""
    if texts == "all":
        return True
    name = licence.lower().replace("-", " ").strip()
    is_open = any(name.startswith(part) or (len(part) > 4 and part in name) for part in OPEN_LICENCES)
    if texts == "open":
        return is_open
    return is_open or not any(part.replace("-", " ") in name for part in CLOSED_LICENCES)


@dataclass(slots=True)
class ClosedTexts:
    """Texts that must stay out, and what quotes them: every text with so many words of one in sequence."""

    shingles: set[int] = field(default_factory=set)

    def add(self, text: str) -> None:
        self.shingles.update(_hash_shingles(text))

    def remove_from(self, value: Json) -> Json:
        if not self.shingles:
            return value
        if isinstance(value, str):
            return leave_out(value) if not self.shingles.isdisjoint(_hash_shingles(value)) else value
        if isinstance(value, list):
            return [self.remove_from(item) for item in value]
        if isinstance(value, dict):
            return {key: self.remove_from(inner) for key, inner in value.items()}
        return value


def _hash_shingles(text: str) -> Iterator[int]:
    found = WORD.findall(text.lower())
    return (hash(tuple(found[at : at + SHINGLE])) for at in range(len(found) - SHINGLE + 1))


def leave_out(text: str) -> Json:
    """What stands for a text: enough to see whether another one is the same."""
    return {TEXT: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), "chars": len(text)}


@dataclass(slots=True)
class RecordFilter:
    """Prepares a record for a recording: without its text where the licence asks, without secrets."""

    texts: TextsToKeep
    secrets: SecretFilter
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    redacted: dict[str, None] = field(default_factory=dict)
    """Records with a secret, such as a badge whose address has a token."""
    closed: ClosedTexts = field(default_factory=ClosedTexts)

    def __call__(self, fields: dict[str, Json]) -> bytes:
        metadata = fields.get("metadata") or {}
        fetched = metadata.get(FULL_TEXT)  # a fetched text has a licence of its own, or states none
        own = fetched.get("licence") if isinstance(fetched, dict) else fields.get("licence") or metadata.get("licence")
        licence = str(own or "")
        text = fields.get("text") or ""
        if text and not may_pass_on(licence, self.texts):
            self.closed.add(text)
            fields["text"] = ""
            fields[LEFT_OUT] = leave_out(text)
            self.left_out[str(fields["doc_id"])] = LeftOut(doc_id=str(fields["doc_id"]), licence=licence or "none stated", chars=len(text))
        content = self.secrets.dump(fields)
        if HIDDEN_BYTES in content and content != dump(fields):
            self.redacted[str(fields["doc_id"])] = None
        return content


@dataclass(frozen=True, slots=True)
class SecretFilter:
    """Removes the secrets of the settings, and passwords and keys in addresses, from JSON."""

    redactor: Redactor

    def dump(self, value: Json) -> bytes:
        """The value as JSON without secrets. Most values hold nothing that looks like one, which their text tells at once."""
        content = dump(value)
        text = content.decode("utf-8", "surrogatepass")
        secrets = self.redactor.secrets
        if RISK.search(text) or any(form in text for secret in secrets for form in (secret, json.dumps(secret)[1:-1])):
            return dump(self._remove(value))
        return content

    def clean(self, value: Json) -> Json:
        return json.loads(self.dump(value))

    def _remove(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.redactor.redact(value)
        if isinstance(value, list):
            return [self._remove(item) for item in value]
        if isinstance(value, dict):
            return {self._remove(key): self._remove(inner) for key, inner in value.items()}
        return value


def encode_question(question: Question, encoder: Encoder, clean: Callable[[Json], Json]) -> tuple[str, Json]:
    """The key of a question, under which a replay finds its answer, and the arguments as they are stored."""
    keeps_texts = question.port == "chat"
    given = {name: value for name, value in question.arguments.items() if name not in NOT_ASKED}
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    encoded = clean(encoder.encode(arguments, NO_PART_OF_A_QUESTION))
    if (shape := question.arguments.get("shape")) is not None:
        encoded["shape"] = getattr(shape, "__name__", str(shape))
    stored = encoded if keeps_texts else shorten_texts(encoded)
    return digest(dump([question.port, question.method, shorten_texts(encoded)], sort=True)), stored


def shorten_texts(value: Json) -> Json:
    if isinstance(value, str) and len(value) > LONG_TEXT:
        return leave_out(value)
    if isinstance(value, list):
        return [shorten_texts(item) for item in value]
    if isinstance(value, dict):
        return {key: shorten_texts(inner) for key, inner in value.items()}
    return value


@dataclass(slots=True)
class RecordingMaker:
    """Encodes one tape."""

    settings: Settings
    ports: PortBook
    encoder: Encoder = field(init=False)
    filter: RecordFilter = field(init=False)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.filter = RecordFilter(self.settings.recorder.texts, SecretFilter(Redactor.from_settings(self.settings)))
        self.encoder = Encoder(self.filter)

    def make(  # noqa: PLR0913 - the parts of an index
        self,
        tape: RecordingTape,
        kind: Kind,
        request: Mapping[str, Any],
        limits: Mapping[str, Any],
        response: bytes,
        *,
        made_at: str,
        prompts: Mapping[str, str],
        facts: Mapping[str, Any],
    ) -> tuple[Index, dict[str, bytes]]:
        calls = tuple(self._make_call(call) for call in tape.calls)
        updates = tuple(self._make_update(update.node, update.update) for update in tape.updates)
        if self.filter.left_out:  # now that all of them are known, also where they are quoted
            self.blobs.clear()
            calls = tuple(self._make_call(call) for call in tape.calls)
            updates = tuple(self._make_update(update.node, update.update) for update in tape.updates)
        readings: dict[str, list[float]] = {}
        for name, value in tape.readings:
            readings.setdefault(self._clean(name), []).append(value)
        index = Index(
            format=FORMAT,
            outrider=__version__,
            kind=kind,
            made_at=made_at,
            request=self._clean(dict(request)),
            limits=dict(limits),
            settings=self._clean(without_hidden(redact(self.settings))),
            environment=dict(describe_environment()),
            prompts=self._clean(dict(prompts)),
            earlier=self._store(self.encoder.encode(earlier)) if (earlier := read_earlier(tape.first_state)) else "",
            facts=self._clean(dict(facts)),
            ports=self._clean(self.ports.describe(self.encoder)),
            calls=calls,
            readings={name: tuple(values) for name, values in readings.items()},
            updates=updates,
            began=tape.began,
            response_sha256=digest(response),
            response_bytes=len(response),
            left_out=tuple(self.filter.left_out.values()),
            redacted=tuple(map(self._clean, self.filter.redacted)),
        )
        return index, {**self.blobs, **self.encoder.blobs}

    def _clean(self, value: Json) -> Json:
        return self.filter.secrets.clean(value)

    def _store(self, value: Json) -> str:
        content = self.filter.secrets.dump(self.filter.closed.remove_from(value))
        name = digest(content)
        self.blobs[name] = content
        return name

    def _make_call(self, call: RecordedCall) -> CallEntry:
        question = call.question
        fields = {
            "node": call.node,
            "port": question.port,
            "method": question.method,
            "began": call.began,
            "ended": call.ended,
            "at": call.at,
        }
        if question.port == THREAD:
            return CallEntry(**fields, key=f"{THREAD} {question.method}", outcome=call.outcome)
        key, arguments = encode_question(question, self.encoder, self._clean)
        answer = ""
        if call.outcome == "error":
            answer = self._store(self.encoder.encode_error(call.value))
        elif call.outcome == "value":
            answer = self._store(END_VALUE if call.value is END else self.encoder.encode(call.value))
        harvest = {name: value for name, value in (call.harvest or {}).items() if name not in NOT_STORED}
        return CallEntry(
            **fields,
            key=key,
            question=self._store(arguments),
            outcome=call.outcome,
            answer=answer,
            spendings=tuple(tuple(asdict(one).values()) for one in call.budget.spendings) if call.budget else (),
            awaited=call.awaited,
            harvest=self._store(self.encoder.encode(harvest)) if harvest else "",
        )

    def _make_update(self, node: str, update: Mapping[str, Any]) -> UpdateEntry:
        blob = self._store(self.encoder.encode(update))
        return UpdateEntry(node=node, blob=blob, sha256=blob)


def read_earlier(state: Any) -> dict[str, Any]:
    """What the first state of a search has of those before on its thread: the plan, and what a person said about works."""
    fields = {name: getattr(state, name, None) for name in EARLIER_FIELDS}
    return {name: value for name, value in fields.items() if value is not None and value != type(state).model_fields[name].default}


def without_hidden(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without the marks that stand for secrets: a replay has none."""
    return {name: without_hidden(value) if isinstance(value, Mapping) else value for name, value in settings.items() if value != HIDDEN}


@cache
def describe_environment() -> Mapping[str, str]:
    """Versions that a difference may come from."""
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
