"""robots.txt by RFC 9309."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.web.crawl_rules import RobotsRules, parse_robots

EXAMPLE = """# RFC 9309, section 5.1, with us among those named
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
User-agent: Outrider/0.1
Disallow: /
Allow: /example/page.html
Allow: /example/allowed.gif
Crawl-delay: 3.5

User-Agent: otherbot
Disallow: /example/page.html
"""


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/", False), ("/example/page.html", True), ("/example/allowed.gif", True), ("/example/", False), ("/publications/", False)],
)
def test_the_group_that_names_us_counts_alone(path: str, allowed: bool) -> None:
    assert parse_robots(EXAMPLE).allow(f"https://example.com{path}") is allowed
    assert parse_robots(EXAMPLE).delay_s == 3.5


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/a.gif", False), ("/a.gif?x", True), ("/example/page.html", False), ("/publications/x", True), ("/elsewhere", True)],
)
def test_else_the_group_for_everybody(path: str, allowed: bool) -> None:
    assert parse_robots(EXAMPLE, "stranger").allow(f"https://example.com{path}") is allowed


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ("/fish", "/fish.html", True), ("/fish", "/Fish", False), ("/fish", "/catfish", False), ("/fish/", "/fish", False),
        ("/*.php", "/folder/any.php.file", True), ("/*.php", "/windows.PHP", False), ("/*.php$", "/a.php?x", False),
        ("/*.php$", "/a.php", True), ("/fish*.php", "/fishheads/catfish.php?id=1", True), ("/*?", "/list?page=2", True),
        ("/*?", "/list", False), ("/a*b*c$", "/abcbc", True), ("/ab$", "/ab", True), ("/ab*b$", "/ab", False), ("*", "/x", True),
        ("/%7Ejoe", "/~joe/x", True), ("/~joe", "/%7ejoe/x", True), ("/a%3cd", "/a%3Cd", True), ("/ü", "/%C3%BC", True),
        ("/a%2Fb", "/a/b", False), ("/x?q=1", "/x?q=12", True), ("", "/x", False),
    ],
)  # fmt: skip
def test_a_rule_and_a_path(rule: str, path: str, fits: bool) -> None:
    assert parse_robots(f"User-agent: *\nDisallow: {rule}").allow(f"https://example.com{path}") is not fits


def test_the_longest_rule_decides_and_of_two_equal_ones_the_kind_one() -> None:
    rules = parse_robots("user-agent: *\ndisallow: /p\nallow: /page\ndisallow: /page/secret\nallow: /x\ndisallow: /x")
    assert [rules.allow(f"https://e.com{path}") for path in ("/p", "/page", "/page/secret", "/x")] == [False, True, False, True]


def test_groups_for_one_robot_are_one_and_untidy_files_are_read() -> None:
    first = "\ufeffuser-agent:outrider # us\r\ndisallow:/a\nnonsense\nSitemap: https://e.com/s.xml\n"
    rules = parse_robots(first + "USER-AGENT: OUTRIDER\ndisallow: /b\n\ncrawl-delay: soon")
    assert [rules.allow(f"https://e.com{path}") for path in ("/a", "/b", "/c")] == [False, False, True]
    assert rules.delay_s == 0.0


def test_no_file_allows_and_one_that_cannot_be_read_forbids() -> None:
    assert parse_robots("").allow("https://e.com/x")
    assert not RobotsRules(refusing="503").allow("https://e.com/x")


def test_a_spiteful_pattern_takes_no_time() -> None:
    rules = parse_robots("user-agent: *\ndisallow: /" + "a*" * 5_000 + "b$")
    began = time.process_time()
    assert rules.allow("https://e.com/" + "a" * 4_000)
    assert time.process_time() - began < 1.0


@given(st.text(max_size=200), st.text(alphabet="/ab%*$?#ü ", max_size=30))
def test_any_text_is_read(text: str, path: str) -> None:
    parse_robots(f"user-agent: *\n{text}\ndisallow: {path}").allow(f"https://e.com/{path}")
