"""Webhooks: signed, tried again, never to a private address, and never with a secret in a message."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from outrider.saved_searches import webhook
from outrider.saved_searches.webhook import check_address, mask, post
from outrider.sources.http.ssrf_guard import Guard
from outrider.state.errors import BadRequest
from outrider.usecases.saved import show_saved
from support.http_server import Answer, serving
from support.saved_searches import SavedWorld, article
from support.systematic_runs import LibraryVersions

SECRET = "a secret of the settings"


def make_world(folder: Path, host: str) -> SavedWorld:
    return SavedWorld(
        folder, LibraryVersions([article(1)]), saved={"webhook_secret": SECRET}, sources={"allowed_hosts": host, "offline": False}
    )


async def run_twice(world: SavedWorld, address: str) -> None:
    """The second run finds a new work."""
    await world.save({"query": "aspirin[ti]", "sources": ["library"]}, webhook_address=address)
    await world.run()
    world.library.records.append(article(2))
    await world.run()


async def test_a_changed_result_is_posted_once_and_signed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: Answer(status=204)) as server:
        world = make_world(tmp_path, server.base_url.removeprefix("http://"))
        await run_twice(world, f"{server.base_url}/hook?token=geheim")
        await world.run()
    (request,) = server.requests
    signed = request.headers["x-outrider-timestamp"].encode() + b"." + request.body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["x-outrider-signature"] == f"sha256={expected}"
    assert (request.method, request.target, request.json["counts"]["new"]) == ("POST", "/hook?token=geheim", 1)
    assert request.json["works"][0]["doc_id"] == "p2"
    info = await show_saved(world.services, "alert")
    assert [run.webhook for run in info.runs] == ["", "delivered", ""]
    assert "geheim" not in info.model_dump_json()
    assert info.webhook.endswith("/...")
    assert "geheim" not in caplog.text


@pytest.mark.parametrize(
    ("statuses", "attempts", "state"),
    [
        ([503, 200], 2, "delivered"),
        ([429, 500, 200], 3, "delivered"),
        ([400], 1, "failed"),
        ([302], 1, "failed"),
        ([500] * 9, 2, "pending"),
    ],
)
async def test_an_error_that_may_pass_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: list[int], attempts: int, state: str
) -> None:
    left = list(statuses)
    headers = {"location": "http://10.0.0.1/"}
    with serving(lambda _: Answer(status=left.pop(0), headers=headers)) as server:
        world = make_world(tmp_path, server.base_url.removeprefix("http://"))
        await run_twice(world, f"{server.base_url}/hook?token=geheim")
        if attempts > len(server.requests):
            await world.run()  # sends what is pending first
        if attempts > len(server.requests):
            await world.run()
    info = await show_saved(world.services, "alert")
    sent = next(run for run in info.runs if run.number == 2)
    assert sent.webhook.partition(":")[0] == state
    deliveries = {request.headers["x-outrider-delivery"] for request in server.requests}
    assert len(deliveries) == 1, "a receiver can drop what it has"
    assert len({request.body for request in server.requests}) == 1
    assert len(server.requests) >= attempts
    assert "geheim" not in sent.model_dump_json()
    assert SECRET not in sent.model_dump_json()


async def test_a_host_that_becomes_private_after_it_was_saved_gets_nothing(tmp_path: Path) -> None:
    with serving(lambda _: Answer(status=204)) as server:
        world = make_world(tmp_path, server.base_url.removeprefix("http://"))
        await world.save({"query": "aspirin[ti]", "sources": ["library"]}, webhook_address=f"{server.base_url}/hook")
        await world.run()
        world.library.records.append(article(2))
        world.sources = {"offline": False}  # the host is no longer allowed
        await world.run()
    assert not server.requests
    sent = (await show_saved(world.services, "alert")).runs[0]
    assert sent.webhook.startswith("failed")
    assert "is refused" in sent.webhook


def resolver(*addresses: str) -> Callable[[str, int], Awaitable[tuple[str, ...]]]:
    async def resolve(_: str, __: int) -> tuple[str, ...]:
        return addresses

    return resolve


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1", "100.64.0.1"])
async def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    guard = Guard(resolve=resolver("93.184.216.34", address))
    with pytest.raises(BadRequest, match="leads to") as refusal:
        await check_address("https://hooks.example.org/very/secret?key=geheim", guard)
    assert "geheim" not in str(refusal.value)
    attempt = await post("https://hooks.example.org/very/secret?key=geheim", b"{}", "1", SECRET, guard, 1.0, "Outrider")
    assert attempt.is_final
    assert "geheim" not in attempt.problem


async def test_a_name_that_cannot_be_resolved_now_is_checked_at_delivery() -> None:
    async def fail(_: str, __: int) -> Any:
        raise OSError("no network")

    await check_address("https://hooks.example.org/", Guard(resolve=fail))
    attempt = await post("https://hooks.example.org/", b"{}", "1", SECRET, Guard(resolve=fail), 1.0, "Outrider")
    assert (attempt.is_final, "could not be reached" in attempt.problem) == (False, True)


def test_an_address_is_shown_by_its_host_alone() -> None:
    assert mask("https://hooks.example.org/services/T000/B000/XXX?key=1") == "https://hooks.example.org/..."
    assert mask("https://[2606:4700::1]:8443/x") == "https://[2606:4700::1]:8443/..."
    assert mask("") == mask("nonsense") == ""
    assert json.loads(webhook.encode({"title": "\ud800"})) == {"title": "\ud800"}
