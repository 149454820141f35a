"""Addresses that can be requested, and what is shown of a server's message."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.sanitize import is_http_url, redact, without_password, without_password_of

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


@pytest.mark.parametrize("password", ["s3cret", "s3/cr/et", "s3@cr@et", "s3:cr#et", "s3?cr/et", "%zz"])
def test_a_password_that_is_not_encoded_is_hidden_too(password: str) -> None:
    assert without_password(f"at postgresql://me:{password}@host:5432/x now") == "at postgresql://********@host:5432/x now"


@pytest.mark.parametrize("address", ["http://host:80/@me", "http://[::1]:80/@me", "https://host/a:b/@me", "redis://host:6379/0"])
def test_an_address_without_a_password_stays(address: str) -> None:
    assert without_password(address) == address


@pytest.mark.parametrize("password", ["s3cr%zzet", "s3 cret", "s3/cret", "p@s3cret"])
def test_parts_of_a_password_that_a_client_quotes_are_hidden(password: str) -> None:
    address = f"postgresql://me:{password}@[::1/outrider"
    for quoted in (password, password.rpartition("@")[2], password.partition("/")[2] or password):
        text = without_password_of(address, f"threads cannot be saved in {address}: invalid token:\n{quoted!r}")
        assert quoted not in text
    assert "hush" not in without_password_of("postgresql://h/x?password=hush", "postgresql://h/x?password=hush cannot be read")


def test_a_well_formed_password_hides_no_word_of_a_message() -> None:
    text = without_password_of(
        "postgresql://outrider:outrider@db/outrider", 'postgresql://outrider:outrider@db/outrider: no database "outrider"'
    )
    assert text == 'postgresql://********@db/outrider: no database "outrider"'
