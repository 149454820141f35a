from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from outrider.library.address_and_locks import Location
from outrider.library.lease import Lease, LeaseState
from outrider.library.library import Library
from outrider.library.object_storage import ObjectStorage
from outrider.library.store_errors import hide_secrets
from outrider.state.errors import BadRequest, LibraryError
from support.http_server import Answer, serving

CANARY = "C4NARY/secret+key=="
KEYS = {"aws_access_key_id": "AKIACANARY", "aws_secret_access_key": CANARY, "aws_region": "us-east-1", "allow_http": "true"}
ONCE = {"client_max_retries": "0", "client_retry_timeout": "3"}


@pytest.fixture
def answers() -> Iterator[tuple[serving, list[Answer]]]:
    """A store that answers everything with the last of these."""
    given: list[Answer] = []
    with serving(lambda _: given[-1]) as server:
        yield server, given


def as_s3(code: str, status: int) -> Answer:
    """Echoes the credentials, as some gateways do."""
    return Answer(f"<Error><Code>{code}</Code><Message>key {CANARY} of AKIACANARY</Message></Error>".encode(), status)


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("NoSuchBucket", 404, "there is no such bucket; create it"),
        ("InvalidAccessKeyId", 403, "rejects the credentials"),
        ("SignatureDoesNotMatch", 403, "rejects the credentials"),
        ("ExpiredToken", 400, "the credentials have expired"),
        ("PermanentRedirect", 301, "another region.*aws_region"),
        ("AuthorizationHeaderMalformed", 400, "another region"),
        ("RequestTimeTooSkewed", 403, "clock"),
        ("AccessDenied", 403, "may not be read by this user"),
        ("SlowDown", 503, "fewer requests"),
        ("Unknown", 400, "could not be reached or read"),
    ],
)
async def test_answers_of_a_store_say_what_to_do(answers: tuple[serving, list[Answer]], code: str, status: int, words: str) -> None:
    server, given = answers
    given.append(as_s3(code, status))
    with pytest.raises(LibraryError, match=f"library at s3://bucket/lib .*{words}") as caught:
        await Library.open("s3://bucket/lib", storage_options={**KEYS, **ONCE, "aws_endpoint": server.base_url})
    everything = "".join(traceback.format_exception(caught.value))
    assert CANARY not in everything
    assert "AKIACANARY" not in everything


async def test_an_endpoint_that_does_not_answer_is_named_as_such() -> None:
    with pytest.raises(LibraryError, match="the store cannot be reached"):
        await Library.open("s3://bucket/lib", storage_options={**KEYS, **ONCE, "aws_endpoint": "http://127.0.0.1:9"})


@pytest.mark.parametrize("uri", ["s3://ab/lib", "gs://ab", "az://ab/x", "s3:///lib", "s3://[b/lib", "s3://me:secret@ab/lib"])
def test_a_bucket_has_a_name_of_three_characters(uri: str) -> None:
    with pytest.raises(BadRequest, match="the name of a bucket has 3 characters at least"):
        Location.parse(uri)


def test_signatures_of_addresses_and_secret_options_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    message = f"GET http://x/y?sv=1&sig=abc%2B&se=2 with {CANARY} in us-east-1"
    with caplog.at_level(logging.DEBUG):
        assert hide_secrets(message, KEYS) == "GET http://x/y?sv=1&sig=********&se=2 with ******** in us-east-1"


async def test_a_lock_that_cannot_be_released_is_logged_without_credentials(
    answers: tuple[serving, list[Answer]], caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("obstore", reason="needs obstore: pip install 'outrider[object-storage]'")
    server, given = answers
    given.append(as_s3("Unknown", 400))
    location = Location("s3://bucket/lib", None, ObjectStorage("s3://bucket/lib", {**KEYS, "aws_endpoint": server.base_url}))
    assert location.storage is not None
    lease: Lease = await location._lease("writes", location.storage)
    lease._state = LeaseState({"e_tag": "1"}, "me", "here", "1", (), datetime.now(UTC))
    await lease.release()
    assert "could not be released" in caplog.text
    assert "Unknown" in caplog.text
    assert CANARY not in caplog.text
    assert "AKIACANARY" not in caplog.text


def test_refused_options_are_reported_without_the_password_of_the_address() -> None:
    pytest.importorskip("obstore", reason="needs obstore: pip install 'outrider[object-storage]'")
    with pytest.raises(LibraryError, match=r"at s3://\*{8}@bucket/x are refused"):
        _ = ObjectStorage("s3://me:s3cret@bucket/x", {"aws_nonsense": "1"}).store
