"""Addresses that can be requested, and what is shown of a server's message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.sanitize import explain_database_error, is_http_url, redact, split_addresses, without_credentials, without_password

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8)


@given(KEYS, st.text(), st.text())
def test_no_key_is_in_a_redacted_text_however_it_is_written(key: str, before: str, after: str) -> None:
    for form in (key, repr(key), repr(f"Bearer {key}".encode()), json.dumps({"key": key}), repr(f"Bearer {key}\n".encode())):
        assert "*" * 8 in redact(f"{form} {after}", key)
        redacted = redact(f"{before} {form} {after}", key)
        assert key not in redacted.replace("*" * 8, "") or key in f"{before} {after}"


@pytest.mark.parametrize("before", range(180, 201))
def test_no_part_of_a_key_remains_where_the_message_is_cut(before: int) -> None:
    assert "sk-" not in redact("x" * before + "sk-a-secret", "sk-a-secret")


def test_without_a_key_only_passwords_are_hidden() -> None:
    assert redact("no answer\nfrom http://me:pass@host/v1", "") == "no answer from http://********@host/v1"


@pytest.mark.parametrize(
    ("address", "whether"),
    [
        ("http://localhost:8080/v1", True),
        ("https://me:pass@host", True),
        ("http://[::1]:8080", True),
        ("http://my_container:80", True),
        ("", False),
        ("http://", False),
        ("localhost:8080", False),
        ("gopher://x", False),
        ("http://[bad", False),
        ("http://host:0", False),
        ("http://host:99999", False),
        ("http://host:port", False),
        ("http://a host", False),
        ("http://host\n", False),
        ("http://\ud800", False),
        ("http://\u2603", False),
    ],
)
def test_addresses(address: str, whether: bool) -> None:
    assert is_http_url(address) is whether


def test_an_error_without_a_message_is_named_by_its_kind_unless_it_is_a_text() -> None:
    assert (redact(TimeoutError(), ""), redact("", ""), redact(" \n", "")) == ("TimeoutError", "", "")


def test_addresses_are_separated_by_commas_but_not_within_a_password() -> None:
    assert split_addresses(" http://a:1,http://b/v1 , HTTPS://c , http://a:1,") == ("http://a:1", "http://b/v1", "HTTPS://c")
    assert split_addresses(["http://a", "", None, "http://b"]) == ("http://a", "http://b")
    assert split_addresses("http://a, gpu:8080") == ("http://a", "gpu:8080")  # a slip, named by its own
    assert split_addresses("http://me:se,cret@h/v1,http://b") == ("http://me:se,cret@h/v1", "http://b")
    assert split_addresses("") == split_addresses(None) == split_addresses(" , ") == ()


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://********@host/db"),
        ("postgresql://me:s3/cret@host/db", "postgresql://********@host/db"),
        ("postgresql://me:12/34@host/db", "postgresql://********@host/db"),
        ("postgresql://me:s3?cret@host/db", "postgresql://********@host/db"),
        ("postgresql://me:s3#cret@host/db", "postgresql://********@host/db"),
        ("redis://:s3?cr/et@host/0", "redis://********@host/0"),
        ("postgresql://me:x@host/db?password=s3@cret", "postgresql://********@host/db?password=********"),
        ("postgresql://host/db?user=me&password=s3cret", "postgresql://host/db?user=me&password=********"),
    ],
)
def test_an_address_of_a_database_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_credentials(address) == shown
    explained = explain_database_error(f"{'x' * 170} {address}", address)  # cut within the address
    assert shown.startswith(explained.split()[1])


def test_an_error_of_a_database_quotes_no_password() -> None:
    address = "postgresql://me:s3%zzcret@host/db"
    assert explain_database_error('invalid percent-encoded token:\n"s3%zzcret"', address) == 'invalid percent-encoded token: "********"'
    kept = 'connection to "host" failed: no database "db", no user "me", no "x"'
    assert explain_database_error(kept, address) == kept


@pytest.mark.parametrize("password", ["s3cret", "s3/cr/et", "s3@cr@et", "s3:cr#et", "s3?cr/et", "%zz"])
def test_a_password_that_is_not_encoded_is_hidden_too(password: str) -> None:
    assert without_password(f"at postgresql://me:{password}@host:5432/x now") == "at postgresql://********@host:5432/x now"


@pytest.mark.parametrize("address", ["http://host:80/@me", "http://[::1]:80/@me", "https://host/a:b/@me", "redis://host:6379/0"])
def test_an_address_without_a_password_stays(address: str) -> None:
    assert without_password(address) == address
