"""Services whose runs are recorded, the recorder of a graph, services of a replayed run"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from pydantic import ValidationError

from outrider.prompts import DOMAINS, OWN_DOMAIN
from outrider.recorder.codec import Unreadable, dump
from outrider.recorder.make_recording import RecordingMaker
from outrider.recorder.ports import Port, PortBook
from outrider.recorder.recording import Kind, Recording, write_recording
from outrider.recorder.replay_tape import ReplayTape
from outrider.recorder.tape import RecordingTape
from outrider.runtime.tape import WallClock
from outrider.settings.model import Settings
from outrider.state.analysis import Analysis, AnalyzeRequest
from outrider.state.chat import Chat
from outrider.state.citations import CitationsRequest, CitationsResult
from outrider.state.code_links import LinkFinder
from outrider.state.duplicate_decisions import DecisionsProvider
from outrider.state.pipeline import RunContext
from outrider.state.ports import LibraryReader, PreferencesProvider, RerankerProvider, ResultStore
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse
from outrider.version import __version__

if TYPE_CHECKING:
    from pydantic import BaseModel

log = logging.getLogger(__name__)

STATES: Mapping[Kind, tuple[type[BaseModel], type[BaseModel]]] = {
    "search": (SearchRequest, SearchResponse),
    "analyze": (AnalyzeRequest, Analysis),
    "citations": (CitationsRequest, CitationsResult),
}
"""What each graph takes and returns."""
PLAN_CACHE = "plan cache"
"""The port of `services.make_nodes.make_plan_cache`."""
FACTS = ("chat_is_of_settings",)
"""Values of the services themselves that nodes depend on."""


def record_ports(services: Any) -> None:
    """Put what nodes take from these services behind ports, and the clock on tapes."""
    _set_ports(services, PortBook())
    services.clock = WallClock(services.clock)
    services.destination = Destination()


def _set_ports(services: Any, book: PortBook) -> None:
    services.ports = book
    text_keeper, links, preferences = services.text_keeper, services.links, services.preferences
    chat, shelf, keeper, reranker, decisions = services.chat, services.shelf, services.keeper, services.reranker, services.decisions
    services.chat = book.wrap("chat", lambda: chat, Chat)
    services.shelf = book.wrap("library", lambda: shelf, LibraryReader)
    services.keeper = book.wrap("store", lambda: keeper, ResultStore)
    services.text_keeper = book.wrap("text store", lambda: text_keeper, ResultStore)
    services.links = book.wrap("links", lambda: links, LinkFinder)
    services.preferences = book.wrap("preferences", lambda: preferences, PreferencesProvider)
    services.reranker = book.wrap("reranker", lambda: reranker, RerankerProvider)
    services.decisions = book.wrap("decisions", lambda: decisions, DecisionsProvider)


@dataclass(slots=True)
class Destination:
    """Where the next recording goes: the file that a caller names, or a new one in the folder of the settings."""

    file: Path | None = None
    written: Path | None = None
    size: int = 0
    problem: str = ""
    """Why the last recording was not written."""


@dataclass(frozen=True, slots=True)
class RunRecorder:
    """Records the runs of one graph."""

    services: Any
    kind: Kind
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the nodes depend on besides the services."""
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> RecordingTape:
        return RecordingTape()

    def write(self, tape: RecordingTape, context: Any) -> None:
        """Write the recording of a run that has ended; a failure is logged, since a run is worth more than its recording."""
        destination = self.services.destination
        if tape.unwritten:
            log.warning("this run is not recorded: %s", tape.unwritten)
            destination.problem = tape.unwritten
            return
        try:
            if tape.first_state is not None:
                self._write_file(tape, context)
        except OSError as error:
            destination.problem = error.strerror or str(error)
            log.error("the recording of this run could not be written: %s", destination.problem)  # noqa: TRY400 - no fault of the program
        except Exception as error:
            destination.problem = f"an error of this program ({type(error).__name__}); its log has details"
            log.exception("the recording of this run could not be written")

    def _write_file(self, tape: RecordingTape, context: Any) -> None:
        services = self.services
        request, response = read_run(self.kind, tape)
        limits = context.model_dump(mode="json", exclude_none=True) if isinstance(context, RunContext) else {}
        prompts = read_prompts(services)
        facts = {name: getattr(services, name) for name in FACTS} | {"chat_says": services.chat_says, "versions": dict(services.versions)}
        facts |= self.facts
        facts["run_folder"] = find_run_folder_of(response)
        now = datetime.now(UTC)
        index, blobs = RecordingMaker(services.settings, services.ports).make(
            tape, self.kind, request, limits, response, made_at=now.isoformat(timespec="seconds"), prompts=prompts, facts=facts
        )
        with self._writing:
            destination = services.destination
            path = (
                destination.file
                or find_recordings_folder(services.settings) / f"{now:%Y%m%d-%H%M%S}-{self.kind}-{secrets.token_hex(4)}.zip"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            destination.size = write_recording(path, index, blobs)
            destination.written = path
        log.info("recording written", extra={"log_fields": {"path": str(path), "bytes": destination.size}})


def find_recordings_folder(settings: Settings) -> Path:
    folder = settings.recorder.folder
    return Path(folder).expanduser() if folder else platformdirs.user_data_path("outrider", appauthor=False) / "recordings"


def read_prompts(services: Any) -> dict[str, str]:
    """Texts of the prompts, by name."""
    planning, scoring = services.query_prompt, services.scoring_prompts
    own = (services.context_frame, services.dedup_prompt, services.answer_prompt)
    every = (*own, planning.base, planning.field, scoring.papers, scoring.repositories, scoring.about)
    return {prompt.name: prompt.text for prompt in every if prompt is not None}


def read_run(kind: Kind, tape: Any) -> tuple[dict[str, Any], bytes]:
    """The request and the response of a run, from the first state and what the nodes wrote."""
    if kind not in STATES:
        return dict(tape.first_state), dump(tape.updates[-1].update)
    request_type, response_type = STATES[kind]
    request = {name: getattr(tape.first_state, name) for name in request_type.model_fields}
    fields = {name: getattr(tape.first_state, name) for name in response_type.model_fields if hasattr(tape.first_state, name)}
    for update in tape.updates:
        fields |= {name: value for name, value in update.update.items() if name in response_type.model_fields}
    if kind == "search":
        request["sources"] = tuple(name for name in request["sources"] or () if isinstance(name, str)) or None
        fields["sources"] = tuple(row for row in fields.get("sources") or () if not isinstance(row, str))
    response = response_type.model_validate(fields)
    return request_type.model_construct(**request).model_dump(mode="json"), make_response_bytes(response)


def find_run_folder_of(response: bytes) -> str:
    """The folder of the systematic run that a response refers to; empty for none."""
    result_set = (json.loads(response) if response else {}).get("result_set")
    return str(Path(result_set["path"]).parent) if result_set else ""


def make_response_bytes(response: BaseModel) -> bytes:
    """The response as the hash of a recording counts it: the JSON that `--json` prints, without its line breaks."""
    return response.model_dump_json().encode()


def copy_domain(name: str, prompts: Mapping[str, str], folder: Path) -> str:
    """The domain of a replayed run: a file of one's own is read from the recording, and not from this machine."""
    if name in DOMAINS:
        return name
    if not prompts.get(OWN_DOMAIN):
        raise Unreadable(f"it lacks the text of llm.domain, {name}")
    file = folder / f"{OWN_DOMAIN}.md"
    file.write_text(prompts[OWN_DOMAIN], encoding="utf-8")
    return str(file)


def replay_services(make: Any, recording: Recording, tape: ReplayTape, folder: str) -> Any:
    """Services that take everything from a recording. `make` builds them from settings; `folder` is for its files."""
    index = recording.index
    try:
        settings = Settings.model_validate(index.settings)
    except ValidationError as error:
        name = ".".join(map(str, error.errors()[0]["loc"]))
        raise Unreadable(f"its setting {name} is none of this version, {__version__}; it was made by {index.outrider}") from error
    systematic = settings.systematic.model_copy(update={"folder": folder, "audit_log": "", "signing_key": ""})
    recorder = settings.recorder.model_copy(update={"enabled": False})
    settings = settings.model_copy(update={"systematic": systematic, "recorder": recorder})
    # made without a model, whose packages may not be here; nodes read the recorded settings
    llm = settings.llm.model_copy(update={"model": "none", "domain": copy_domain(settings.llm.domain, index.prompts, Path(folder))})
    services = make(settings.model_copy(update={"llm": llm}))
    services.settings = settings
    ports = {
        name: None if description is None else Port.restore(name, description, tape.decoder) for name, description in index.ports.items()
    }
    if not index.facts.get("plans_kept", True):  # other runs of these services may have looked for cached plans
        ports[PLAN_CACHE] = None
    _set_ports(services, PortBook(ports))
    services.clock = WallClock(services.clock)
    services.citation_queue = services.planner = None
    services.be_replayed(str(index.facts.get("chat_says", "")), own_chat=bool(index.facts.get("chat_is_of_settings")))
    return services
