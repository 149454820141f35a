"""Servers of one chat model: choice for the next call, and pauses after failures."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace

from outrider.models.chat.client import NO_LIST, ChatClient, list_models
from outrider.models.chat.endpoint_errors import RequestRefused, UnreadableResponse
from outrider.models.chat.provider import Capabilities, Endpoint, get_capabilities
from outrider.models.servers.health import ServerReport, choose_patience_s, smooth
from outrider.state.errors import ChatUnavailable

LEFT_OUT_S = 30.0
"""Pause before a server that cannot be reached, hangs or serves another model is called again."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ChatServer:
    """One server with its own client."""

    endpoint: Endpoint
    client: ChatClient
    capabilities: Capabilities = field(repr=False)
    """Of which `closed_until` and `problem` are this server's own; the model decides the rest."""
    running: int = 0
    usual_s: float = 0.0
    """Smoothed time of a call."""
    rejects_key: bool = False


class ChatServers:
    """All servers of the model of an endpoint. Used on the background loop only."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._model = endpoint.model
        parts = [replace(endpoint, base_url=address, replicas=()) for address in (endpoint.base_url, *endpoint.replicas)]
        self.servers = [ChatServer(one, ChatClient(one, timeout_s), get_capabilities(one.base_url, one.model)) for one in parts]

    async def warm_up(self) -> None:
        """Load all clients, which can take seconds, outside the time limit of any call."""
        for server in self.servers:
            await server.client.warm_up()

    def choose(self) -> ChatServer:
        """One that is open and has the fewest calls; else the one that opens first."""
        now = time.monotonic()
        return min(self.servers, key=lambda one: (max(one.capabilities.closed_until, now), one.running))

    def has_open(self) -> bool:
        return any(one.capabilities.closed_until <= time.monotonic() for one in self.servers)

    def patience_s(self, server: ChatServer, timeout_s: float) -> float:
        """How long to wait for this server, while others are open: a multiple of their usual time, and half of the limit at least, because
        the lengths of answers differ.
        """
        now = time.monotonic()
        others_s = [one.usual_s for one in self.servers if one is not server and one.capabilities.closed_until <= now]
        return choose_patience_s(others_s, timeout_s / 2, timeout_s)

    def leave_out(self, server: ChatServer, problem: str) -> bool:
        """Whether the call may go to another server, if need be after a pause. An only server is not left out."""
        if len(self.servers) == 1:
            return False
        server.capabilities.problem = problem
        server.capabilities.closed_until = max(server.capabilities.closed_until, time.monotonic() + LEFT_OUT_S)
        if is_other := self.has_open() or any(not one.capabilities.problem for one in self.servers):
            log.warning("%s; its calls go to the other servers", problem)
        return is_other

    def reopen(self) -> None:
        """Ask servers again that have all been left out: people may have mended them since the last call."""
        if not self.has_open() and all(one.capabilities.problem for one in self.servers):
            for one in self.servers:
                one.capabilities.closed_until = 0.0

    def record_time(self, server: ChatServer, took_s: float) -> None:
        server.usual_s = smooth(server.usual_s, took_s)
        server.capabilities.problem = ""

    async def report(self, within_s: float) -> tuple[ServerReport, ...]:
        """Whether each server lists the model (`/models`), which costs nothing."""
        return tuple(await asyncio.gather(*(self._report(one, within_s) for one in self.servers)))

    async def _report(self, server: ChatServer, within_s: float) -> ServerReport:
        name, problem = server.endpoint.name, ""
        try:
            if self._model not in await list_models(server.endpoint, within_s):
                problem = f"{name} does not list this model"
        except RequestRefused as refused:
            problem = "" if refused.status in NO_LIST else f"{name} does not list its models ({refused.status})"
        except TimeoutError:
            problem = f"{name} gave no list of its models within {within_s:g} s"
        except UnreadableResponse as error:
            problem = f"{name} answered with {error} instead of a list of its models"
        except (ConnectionError, ChatUnavailable) as error:
            problem = f"{name} cannot be reached ({server.endpoint.redact(error)})"
        return ServerReport(name, problem)

    def explain(self) -> str:
        """Why none answers."""
        problems = [one.capabilities.problem or f"{one.endpoint.name} is busy" for one in self.servers]
        return f"none of the {len(self.servers)} servers of {self._model} can be used: {'; '.join(problems)}"
