"""Embedding on a Ray cluster: actors with the model behind the protocol of an embedder.

Whatever embeds with a `TextEmbedder` embeds on the cluster with this one: ingestion, reindexing. Each call names the model that it wants,
so that an actor that was started again on another node needs nothing from its predecessor, and no key is in an actor's constructor, which
Ray stores.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from outrider.cluster.session import Cluster
from outrider.cluster.tasks import CRASHES, RemoteError, Returned, catch_expected, is_crash, is_lost, unwrap
from outrider.models.embed.embedder import Embedder
from outrider.runtime.threads_and_loops import finish, run_in_thread
from outrider.settings.model import EmbeddingSettings
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.errors import ClusterError, MissingExtra, ModelError, ModelUnavailable
from outrider.state.ports import OnCount

if TYPE_CHECKING:
    import numpy as np

PIECES_AN_ACTOR = 4
"""Of a batch: with one piece each, all would wait for the slowest."""
LOOK_EVERY_S = 1.0
"""At the caller: progress raises where it has stopped waiting, and the embedder may have been closed."""


@dataclass(frozen=True, slots=True)
class Model:
    """What an actor needs to load the same model as this process would."""

    settings: EmbeddingSettings
    space: EmbeddingSpace | None
    """The library's."""
    offline: bool


class EmbeddingActor:
    """Holds the model in a process of its own."""

    def __init__(self) -> None:
        self._loaded: tuple[Model, Embedder] | None = None

    def ping(self) -> None:
        """Answers once the process runs."""

    def describe(self, model: Model) -> Returned[EmbeddingSpace] | RemoteError:
        """Loads the model."""
        return catch_expected(lambda: self._load(model).space)()

    def embed(self, model: Model, texts: Sequence[str], role: TextRole) -> Returned[list[EmbeddedText]] | RemoteError:
        return catch_expected(lambda: self._load(model).embed_each(texts, role))()

    def _load(self, model: Model) -> Embedder:
        if self._loaded is None or self._loaded[0] != model:
            self._loaded = model, Embedder.from_settings(model.settings, model.space, offline=model.offline)
        return self._loaded[1]


@dataclass(slots=True, eq=False)
class Piece:
    """Texts of one call to an actor."""

    start: int
    texts: Sequence[str]
    crashes: int = 0


@dataclass(slots=True)
class ClusterEmbedder:
    """A `TextEmbedder` whose model runs on a cluster. Close it. Calls of several threads come one after another."""

    cluster: Cluster
    model: Model
    _actors: list[Any] = field(default_factory=list)
    _waits: dict[Any, tuple[Any, Piece | None]] = field(default_factory=dict)
    """Calls under way: their actor and its piece, or None while it starts or loads the model."""
    _loading: set[Any] = field(default_factory=set)
    """Of those, the calls that load the model."""
    _idle: list[Any] = field(default_factory=list)
    _space: EmbeddingSpace | None = None
    _lock: Lock = field(default_factory=Lock)
    _is_closed: Event = field(default_factory=Event)
    _looked_at: float = 0.0
    _failed_starts: int = 0
    """Actors that died before they had the model, since one last got it."""

    @property
    def space(self) -> EmbeddingSpace:
        """Starts the actors at first use, and waits until one has loaded the model."""
        with self._lock:
            if self._space is None and not self._is_closed.is_set():
                self._start()
            while self._space is None:
                self._wait(deque())
            return self._space

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """Raises `ModelUnavailable` for a text without a vector."""
        import numpy as np

        answers = self.embed_each([text] if isinstance(text, str) else text, role)
        if problem := next((answer.problem for answer in answers if answer.vector is None), None):
            raise ModelUnavailable(f"a text cannot be embedded: {problem}")
        return np.stack([answer.vector for answer in answers if answer.vector is not None])

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        """In pieces, wherever an actor is free. A piece whose node died is embedded elsewhere."""
        space = self.space
        size = max(1, -(-len(texts) // (PIECES_AN_ACTOR * len(self._actors))))
        answers: dict[int, list[EmbeddedText]] = {}
        with self._lock:
            todo = deque(Piece(start, texts[start : start + size]) for start in range(0, len(texts), size))
            try:
                while todo or any(piece for _, piece in self._waits.values()):
                    while todo and self._idle:
                        actor, piece = self._idle.pop(), todo.popleft()
                        self._waits[actor.embed.remote(self.model, piece.texts, role)] = actor, piece
                    for piece, answer in self._wait(todo):
                        answers[piece.start] = answer
                    if progress is not None:
                        progress(sum(map(len, answers.values())), len(texts))
            except BaseException:
                self._abandon()
                raise
        if answers and any(one.vector is not None and one.vector.shape != (space.dimension,) for one in answers[0]):
            raise ModelUnavailable(f"a node of Ray at {self.cluster.address} gave vectors of another model than {space.model_name}")
        return [one for start in sorted(answers) for one in answers[start]]

    def close(self) -> None:
        """Calls under way in other threads end within `LOOK_EVERY_S`, also while the model is loaded; `ClusterError` there."""
        self._is_closed.set()
        with self._lock:
            for actor in self._actors:
                self.cluster.ray.kill(actor)
            for kept in (self._actors, self._waits, self._idle, self._loading):
                kept.clear()
            self._space = None

    def _start(self) -> None:
        settings, gpus = self.cluster.settings, self.cluster.count_gpus()
        kind = self.cluster.ray.remote(EmbeddingActor).options(
            num_cpus=settings.embedder_cpus,
            num_gpus=settings.embedder_gpus or float(gpus > 0),
            max_restarts=-1,
            max_task_retries=0,  # tried again here, where a node that died differs from a text that kills the process
            scheduling_strategy="SPREAD",
        )
        for _ in range(settings.embedders or gpus or self.cluster.count_cpus()):
            actor = kind.remote()
            self._actors.append(actor)
            self._waits[actor.ping.remote()] = actor, None
        self._looked_at = time.monotonic()

    def _wait(self, todo: deque[Piece]) -> list[tuple[Piece, list[EmbeddedText]]]:
        """Wait until a call ends, or for `LOOK_EVERY_S`. Returns what was embedded; pieces that were lost go back to `todo`."""
        if self._is_closed.is_set():
            raise ClusterError(f"the session on Ray at {self.cluster.address} has ended")
        done, _ = self.cluster.ray.wait(list(self._waits), num_returns=1, timeout=LOOK_EVERY_S)
        embedded = []
        for call in done:
            actor, piece = self._waits.pop(call)
            is_loading = call in self._loading
            self._loading.discard(call)
            try:
                answer = self.cluster.ray.get(call)
            except self.cluster.ray.exceptions.RayError as error:
                self._recover(actor, piece, error, todo)
                continue
            self._looked_at = time.monotonic()
            if piece is not None:
                self._idle.append(actor)
                embedded.append((piece, unwrap(answer)))
            elif is_loading:
                self._accept(unwrap(answer))
                self._idle.append(actor)
            else:
                loading = actor.describe.remote(self.model)
                self._waits[loading] = actor, None
                self._loading.add(loading)
        if not done:
            self._check_progress()
        return embedded

    def _accept(self, space: EmbeddingSpace) -> None:
        if self._space is not None and space.id != self._space.id:
            raise ModelUnavailable(
                f"the nodes of Ray at {self.cluster.address} load different models: {self._space.model_name} ({self._space.id}) and "
                f"{space.model_name} ({space.id}); give all the same weights"
            )
        self._space, self._failed_starts = space, 0

    def _recover(self, actor: Any, piece: Piece | None, error: Exception, todo: deque[Piece]) -> None:
        if not (is_lost(self.cluster, error) or is_crash(self.cluster, error)):
            raise error
        self._waits[actor.ping.remote()] = actor, None  # Ray starts it again, where there is room
        if piece is None:
            self._failed_starts += 1
            if self._failed_starts > CRASHES * len(self._actors):
                raise ModelUnavailable(
                    f"the process that loads the embedding model on Ray at {self.cluster.address} dies each time"
                ) from error
            return
        piece.crashes += 1  # an actor's death does not say whether its node died, too
        if piece.crashes > CRASHES:
            raise ModelUnavailable(f"the process of the embedding model on Ray at {self.cluster.address} died {piece.crashes} times")
        todo.appendleft(piece)

    def _check_progress(self) -> None:
        """Raise `ClusterError` if for a long time no actor has run, loaded or embedded anything."""
        if self._loading or self._idle or any(piece for _, piece in self._waits.values()):
            self._looked_at = time.monotonic()
        elif time.monotonic() - self._looked_at > self.cluster.settings.connect_s:
            settings = self.cluster.settings
            room = f"{settings.embedder_cpus:g} CPU and {settings.embedder_gpus or float(self.cluster.count_gpus() > 0):g} GPU"
            raise ClusterError(
                f"no node of Ray at {self.cluster.address} has room for the embedding model, which wants {room} (cluster.embedder_cpus, "
                "cluster.embedder_gpus)"
            )

    def _abandon(self) -> None:
        """Forget the pieces under way: their actors are free when they answer."""
        for call, (actor, piece) in [*self._waits.items()]:
            if piece is not None:
                self.cluster.ray.cancel(call)
                del self._waits[call]
                self._waits[actor.ping.remote()] = actor, None


@asynccontextmanager
async def open_embedder(cluster: Cluster, model: Model) -> AsyncIterator[tuple[ClusterEmbedder | None, str]]:
    """An embedder whose model is loaded on the cluster, or None, and why."""
    embedder = ClusterEmbedder(cluster, model)
    try:
        try:
            await run_in_thread(lambda: embedder.space)
        except (ModelError, MissingExtra) as error:
            yield None, str(error)
        else:
            yield embedder, ""
    finally:
        await finish(asyncio.to_thread(embedder.close))
