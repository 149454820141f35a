from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider.serve.http import application, run_server
from outrider.serve.python import services_for
from outrider.state.errors import BadRequest
from outrider.state.response import SearchResponse

pytest.importorskip("langserve", reason="the extra `serve` is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")


@pytest.fixture(scope="module")
def address(shelved: Path) -> Iterator[str]:
    """A real uvicorn on a free loopback port."""
    server = uvicorn.Server(uvicorn.Config(application(services_for(str(shelved))), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    for _ in range(1_000):
        if server.started:
            break
        assert thread.is_alive(), "uvicorn ended before it started"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/search"
    server.should_exit = True
    thread.join(timeout=10)


def test_remote_runnable_invokes_batches_and_streams(address: str) -> None:
    from langserve import RemoteRunnable

    remote = RemoteRunnable(address)
    answer = SearchResponse.model_validate(remote.invoke({"query": "aspirin liver"}))
    many = remote.batch([{"query": "aspirin"}, {"query": "statins"}])
    nodes = [next(iter(part)) for part in remote.stream({"query": "aspirin"})]
    assert answer.hits[0].doc_id == "a"
    assert [SearchResponse.model_validate(one).hits[0].doc_id for one in many] == ["a", "b"]
    assert nodes[0] == "translator"
    assert nodes[-1] == "distiller"


@pytest.mark.parametrize("page", ["input_schema", "output_schema", "config_schema", "playground/"])
def test_schemas_and_playground(address: str, page: str) -> None:
    assert httpx.get(f"{address}/{page}").status_code == 200


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "query"),
        ({"query": ""}, "no letter or digit"),
        ({"query": "x", "filter": 1}, "filter"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "mode": "systematic"}, "not built yet"),
        ({"query": "x", "filters": {"yeer": 1}}, "yeer"),
    ],
)
def test_a_bad_request_is_422_and_names_the_field(address: str, asked: dict[str, Any], says: str) -> None:
    answer = httpx.post(f"{address}/invoke", json={"input": asked})
    assert answer.status_code == 422
    assert says in answer.text


def test_a_page_that_names_this_server_otherwise_is_refused(address: str) -> None:
    """DNS rebinding: the name in the Host header is not one of loopback."""
    answer = httpx.get(f"{address}/input_schema", headers={"Host": "evil.example"})
    assert answer.status_code == 400


def test_a_port_that_is_taken_is_said(shelved: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BadRequest, match="choose another --port"):
        run_server(services_for(str(shelved)), "127.0.0.1", taken.getsockname()[1])


def test_ctrl_c_ends_the_server_with_130_and_nothing_on_standard_output(shelved: Path) -> None:
    command = [sys.executable, "-m", "outrider", "serve", "--port", "0", "-l", str(shelved)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "startup complete" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_only_loopback_is_served(shelved: Path, host: str) -> None:
    with pytest.raises(BadRequest, match="loopback"):
        run_server(services_for(str(shelved)), host, 0)
