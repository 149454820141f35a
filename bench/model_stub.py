"""A server of embeddings in a process of its own: OpenAI's protocol, with settable latency, capacity, refusals; or real MiniLM vectors.

It computes one request at a time, as an accelerator does: `request_ms` for each, `text_ms` for each of its texts. `delay_ms` is that of the
network and holds up nobody else. `busy_share` of the requests are refused with 429.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

DIMENSION = 384
WAIT_S = 60


@contextmanager
def serving(**options: float | str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a new server, and its process."""
    process = subprocess.Popen([sys.executable, "-m", "bench.model_stub", json.dumps(options)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process
    finally:
        process.kill()
        process.wait()


def make_vector(text: str) -> np.ndarray:
    """Numbers that depend on the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype("<f4")


def load_vectors(model: str) -> Callable[[list[str]], np.ndarray]:
    if not model:
        return lambda texts: np.stack([make_vector(text) for text in texts])
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(model, device="cpu")
    return lambda texts: np.asarray(loaded.encode(texts, show_progress_bar=False), dtype="<f4")


async def serve(options: dict[str, Any]) -> None:
    accelerator, chance = asyncio.Lock(), random.Random(1)
    vectors = load_vectors(options.get("model", ""))
    refused = 0

    async def answer(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        nonlocal refused
        if path == "/refused":
            return 200, refused
        if path != "/v1/embeddings":
            return 404, {"detail": "Not Found"}
        await asyncio.sleep(options.get("delay_ms", 0) / 1_000)
        texts = body["input"]
        if len(texts) > 1 and chance.random() < options.get("busy_share", 0.0):
            refused += 1
            return 429, {"error": {"message": "Model is overloaded"}}
        async with accelerator:
            await asyncio.sleep((options.get("request_ms", 0) + len(texts) * options.get("text_ms", 0)) / 1_000)
        rows = vectors(texts)
        if body["encoding_format"] == "base64" and not options.get("floats"):
            data: list[Any] = [base64.b64encode(row.tobytes()).decode() for row in rows]
        else:
            data = rows.tolist()
        items = [{"index": at, "embedding": embedding} for at, embedding in enumerate(data)]
        return 200, {"data": items, "model": "stub", "usage": {"prompt_tokens": 8 * len(texts)}}

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length:")[2].partition("\r")[0].strip()
                body = json.loads(await reader.readexactly(int(length))) if length else {}
                status, content = await answer(head.split(" ", 2)[1], body)
                data = json.dumps(content).encode()
                writer.write(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(data)) + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
