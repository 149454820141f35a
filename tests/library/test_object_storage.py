from __future__ import annotations

import asyncio

import pytest

from outrider.library import object_storage
from outrider.library.address_and_locks import Location
from outrider.library.object_storage import FOLDER, CreationClaims
from outrider.state.errors import LibraryError, LibraryReadOnly
from support.http_server import Answer, serving

obstore = pytest.importorskip("obstore", reason="needs obstore: pip install 'outrider[object-storage]'")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> CreationClaims:
    from obstore.store import MemoryStore

    monkeypatch.setattr(object_storage, "POLL_S", 0.005)
    claims = CreationClaims("memory:///", {})
    claims.__dict__["store"] = MemoryStore()
    return claims


async def test_one_claims_a_table_at_a_time(claims: CreationClaims) -> None:
    inside: list[int] = []

    async def create(number: int, table: str) -> int:
        async with claims.claim(table):
            inside.append(number)
            await asyncio.sleep(0.01)
            assert inside == [number]
            inside.remove(number)
        return number

    assert await asyncio.gather(*(create(number, "records") for number in range(8))) == list(range(8))
    assert [one["path"] for batch in claims.store.list() for one in batch] == []


async def test_an_error_gives_the_claim_up(claims: CreationClaims) -> None:
    with pytest.raises(ZeroDivisionError):
        async with claims.claim("records"):
            raise ZeroDivisionError
    async with claims.claim("records"), asyncio.timeout(5), claims.claim("edges"):  # another table waits for nobody
        pass


async def test_the_claim_of_a_dead_process_is_taken_over(claims: CreationClaims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_storage, "ABANDONED_S", 0.05)
    claims.store.put(f"{FOLDER}/records", b"dead")
    async with asyncio.timeout(5), claims.claim("records"):
        holder = await claims._read(f"{FOLDER}/records")
        assert holder != b"dead"
        await claims._release(f"{FOLDER}/records", b"dead")  # it was only slow: what it gives up is no longer its own
        assert await claims._read(f"{FOLDER}/records") == holder


@pytest.mark.parametrize("options", [{"aws_nonsense": "1"}, {"allow_http": "true", "timeout": "often"}])
def test_refused_options_are_named_by_the_error(options: dict[str, str]) -> None:
    with pytest.raises(LibraryError, match="the options of the object store at s3://bucket/x are refused"):
        _ = CreationClaims("s3://bucket/x", options).store


async def test_credentials_that_may_not_write_are_named_by_the_error() -> None:
    with serving(lambda _: Answer(status=403)) as server:
        options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_endpoint": server.base_url, "allow_http": "true"}
        claims, location = CreationClaims("s3://bucket/x", options), Location.parse("s3://bucket/x")
        with pytest.raises(LibraryReadOnly, match="s3://bucket/x cannot be written by this user"), location.translate_errors(writing=True):
            await claims.claim("records").__aenter__()
