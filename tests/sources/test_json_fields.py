from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources import json_fields
from outrider.sources.json_fields import first, items, link, mapping, number, plain, text, title, whole, year
from support.patience import BUSY_S


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        ("p < 0.05 and q > 3", "p < 0.05 and q > 3"),
        ("List<String> of vector<int>, a<b and c>d", "List<String> of vector<int>, a<b and c>d"),
        ("<p>One\n   two.</p>\n  <p>Three.</p>", "One two.\nThree."),
        ("H<sub>2</sub>O and E<sup>x</sup>", "H2O and Ex"),
        ("for<i>ab initio</i>methods", "for ab initio methods"),
        ("clams (\n <i>Tridacna maxima</i>\n ) are <b>big</b>, <em>very</em> .", "clams (Tridacna maxima) are big, very."),
        ('a<sup xmlns:xlink="http://www.w3.org/1999/xlink">1</sup>', "a1"),
        ("<mml:math><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>", "x2"),
        ("<alternatives><tex-math>\\alpha</tex-math><mml:mi>α</mml:mi></alternatives>", "α"),
        ("<!-- said --> <![CDATA[kept]]><p>x</p>", "kept\nx"),
        ("AT&T &amp; co., &lt;3, &#8217;s, &bogus;", "AT&T & co., <3, ’s, &bogus;"),
        ("&amp;lt;i&amp;gt;in vitro&amp;lt;/i&amp;gt; R&amp;amp;D", "in vitro R&D"),
        ("half \ud800 a pair, \x00 and \x1b[31m", "half a pair, and [31m"),
        ("first line\nsecond   line", "first line\nsecond line"),
        (None, ""),
        (["<p>x</p>"], ""),
    ],
)
def test_the_words_of_a_text_with_markup(markup: Any, words: str) -> None:
    assert plain(markup) == words
    assert title(markup) == " ".join(words.split())


@pytest.mark.parametrize(
    "piece", ["<", "<a ", '<a x="', ' x=""', "<tex-math>", "<!--", "<p>", "<i>(", "&", "&#", "&amp;", "</", " ", "<a\t"]
)
def test_hostile_markup_takes_time_in_proportion(piece: str) -> None:
    began = time.process_time()
    plain("<a" + piece * (500_000 // len(piece)))
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("junk", [None, True, 2.5, float("nan"), float("inf"), 10**400, "x", b"x", [1], {"a": 1}])
def test_a_value_of_another_type_counts_as_missing(junk: Any) -> None:
    assert mapping(junk) == (junk if isinstance(junk, dict) else {})
    assert items(junk) == (junk if isinstance(junk, list) else [])
    assert text(junk) == first(junk) == ("x" if junk == "x" else "")
    assert whole(junk) is None
    assert year(junk) is None
    assert link(junk) is None
    assert number(junk) == (2.5 if junk == 2.5 else None)


@given(st.text() | st.text(st.sampled_from("a &<>;]#p/\n\t\x00\x1b\x85\xa0\u2028\ud800")))
def test_shorter_ways_for_what_needs_no_mending_change_nothing(value: str) -> None:
    mended = " ".join(json_fields.UNSTORABLE.sub(" ", value).split())
    assert text(value) == mended
    assert plain(value) == "\n".join(filter(None, map(text, json_fields._strip_markup(value).split("\n"))))


def test_numbers_within_bounds() -> None:
    assert [whole(0), whole(-1), whole(3.0), whole(2**53 + 1), year(0), year(2020), number(7)] == [0, None, 3, None, None, 2020, 7.0]


@pytest.mark.parametrize("address", ["http://a.org/x?y=(1)&z", "https://ä.org/", "HTTPS://A.ORG"])
def test_a_web_address_is_unchanged(address: str) -> None:
    assert link(address) == address


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "ftp://a.org", "//a.org", "https://", "https://a.org/x y", "https://a.org/\x00", "https://a/<b>"]
)
def test_an_invalid_web_address_is_dropped(address: str) -> None:
    assert link(address) is None


@pytest.mark.parametrize("read", [text, plain, title])
@pytest.mark.parametrize("sign", ["<b ", "&amp;", "\x01", "<!--", "liver "])
def test_a_text_of_any_length_is_read_in_bounded_time(read: Callable[[str], str], sign: str) -> None:
    """Twenty million characters, as many as a response may hold."""
    began = time.perf_counter()
    assert len(read(sign * (20_000_000 // len(sign)))) <= 250_000
    assert time.perf_counter() - began < 0.5 + BUSY_S
