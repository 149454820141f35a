"""Whether what came is the work that was asked for, by its title. Pages add the name of their site, engines cut titles off."""

from __future__ import annotations

import re

from outrider.identity.titles import normal_title
from outrider.identity.works import identifiers_contradict, same_work, titles_agree
from outrider.state.records import Record

FEWEST_WORDS = 4
"""Of a title that tells a work though another goes on after it."""
CUT_OFF = ("...", "…")
"""How a title ends that is not whole."""
SITE = re.compile(r"\s+[-|–—·:»]\s+|\s*\|\s*")
"""What stands before the name of a site."""


def agree(work: Record, said: Record) -> bool:
    """Whether what came for an identifier of a work is that work. The title of a page may end early or go on with the site's name."""
    if same_work(work, said):
        return True
    shared = set(work.identifiers.pairs()) & set(said.identifiers.pairs())
    return bool(shared) and work.kind == "page" and not identifiers_contradict(work, said) and title_of_work(work.title, said.title)


def title_of_work(page: str, title: str) -> bool:
    """Whether a page's title is that of the work: alike, or it goes on after it, or the end is cut off."""
    return titles_agree(page, title) or _goes_on(title, page) or (_is_cut(page) and _goes_on(page, title))


def title_of_find(page: str, find: str) -> bool:
    """Whether a page's title is that under which an engine showed it: either may go on after the other, short ones with a site's name."""
    if titles_agree(page, find) or _goes_on(find, page) or _goes_on(page, find):
        return True
    return any(titles_agree(SITE.split(long.strip(), maxsplit=1)[0], short) for short, long in ((page, find), (find, page)))


def _is_cut(title: str) -> bool:
    return title.rstrip().endswith(CUT_OFF)


def _goes_on(short: str, long: str) -> bool:
    said = normal_title(short)
    return len(said.split()) >= FEWEST_WORDS and f"{normal_title(long)} ".startswith(f"{said} ")
