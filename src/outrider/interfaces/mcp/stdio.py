"""Standard input and output of the MCP server, with errors for lines that are no messages.

The SDK drops such a line, and its client waits without end. It may be a valid call: JSON can hold half a character (a lone surrogate), and
the SDK's parser refuses it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError


async def serve_stdio(server: Server[Any]) -> None:
    """Serve until the client closes standard input."""
    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def pass_on() -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the server has ended
                async with send, incoming:
                    async for item in incoming:
                        if not isinstance(item, Exception):
                            await send.send(item)
                        elif (error := make_error(item)) is not None:
                            await outgoing.send(SessionMessage(error))

        tasks.start_soon(pass_on)
        await server.run(receive, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def make_error(error: Exception) -> JSONRPCError | None:
    """The answer to a line that is no message; None where no client waits for one: a notification, a response, an empty line."""
    detail = error.errors()[0] if isinstance(error, ValidationError) else {"type": "", "input": "", "msg": str(error)}
    code, name, reason = INVALID_REQUEST, None, f"this is no message of JSON-RPC in UTF-8: {detail['msg']}"
    if detail["type"] == "json_invalid":
        code = PARSE_ERROR
        message = None
        with suppress(ValueError, RecursionError):
            message = json.loads(detail["input"])  # Python's parser takes lone surrogates
            reason += "; look for half a character (a lone surrogate)"
        name = message.get("id") if isinstance(message, dict) and "method" in message else None
        if not detail["input"].strip() or (message is not None and type(name) not in (int, str)):
            return None
    return JSONRPCError(jsonrpc="2.0", id=name, error=ErrorData(code=code, message=reason))
