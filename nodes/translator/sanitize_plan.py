"""From a model's draft to an intent and queries that can be run: cut, cleaned, filled in, and never against the request's words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import get_args

from outrider.nodes.translator.boolean_syntax import conjunction, parses, split_negated
from outrider.nodes.translator.model_plan import Draft, DraftQuery
from outrider.nodes.translator.rule_plan import extract_concepts
from outrider.settings.model import StarsSettings
from outrider.state.intent import Constraints, IntentType, NumberRange, ParsedIntent, PlannedQuery, RepositoryWishes
from outrider.state.request import searchable
from outrider.text.sanitize import without_control
from outrider.text.words import stems

MAX_QUERIES = 4
MAX_TOPICS = 4
MAX_CONCEPTS = 8
MAX_KEYWORDS = 12
MAX_TERM_CHARS = 60
MAX_TEXT_CHARS = 300
FIRST_YEAR = 1800
MOST_STARS = 10_000_000
FIRST_REPOSITORY = date(2008, 1, 1)
"""GitHub opened in 2008."""
TOPIC = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
MARKS = str.maketrans(dict.fromkeys('"()[]{}', " "))


def sanitize_intent(draft: Draft, by_rules: ParsedIntent, stars: StarsSettings, this_year: int) -> ParsedIntent:
    """The model's intent where it says something, else the rules'."""
    topic = _clean(draft.topic, MAX_TEXT_CHARS)
    kind = draft.intent_type.strip().lower()
    return ParsedIntent(
        topic=topic if searchable(topic) else by_rules.topic,
        concepts=clean_terms(draft.concepts, MAX_CONCEPTS) or by_rules.concepts,
        intent_type=kind if kind in get_args(IntentType) else by_rules.intent_type,
        constraints=sanitize_constraints(draft, by_rules.constraints, stars, this_year),
    )


def sanitize_constraints(draft: Draft, said: Constraints, stars: StarsSettings, this_year: int) -> Constraints:
    """What the words of the request say, by rules, stands as it is; the model adds years or stars only where they say none."""
    years = said.years if said.years != NumberRange() else sanitize_years(draft.year_from, draft.year_to, this_year)
    low, high = draft.stars_min or None, draft.stars_max or None  # a small model writes 0 where it means none
    if said.stars_named or (low is None and high is None):
        return said.model_copy(update={"years": years})
    return Constraints(years=years, stars=sanitize_stars(low, high, stars), stars_named=True)


def sanitize_years(low: int | None, high: int | None, this_year: int) -> NumberRange:
    """Swapped where reversed, kept within 1800 and next year; what has not four digits is no year.

    A first year later than that, or a last one earlier, would leave out every work, and is dropped.
    """
    last_year = this_year + 1
    low, high = _ordered(*(year if year is not None and 1000 <= year <= 9999 else None for year in (low, high)))
    low = None if low is not None and low > last_year else low
    high = None if high is not None and high < FIRST_YEAR else high
    return NumberRange(min=_within(low, FIRST_YEAR, last_year), max=_within(high, FIRST_YEAR, last_year))


def sanitize_stars(low: int | None, high: int | None, stars: StarsSettings) -> NumberRange:
    """Never below the default minimum, or for projects said to be new or small (a most is given) below theirs."""
    low, high = _ordered(_within(low, 0, MOST_STARS), _within(high, 0, MOST_STARS))
    floor = stars.default_min if high is None else min(stars.default_min, stars.emerging_min)
    low = max(low or 0, floor)
    return NumberRange(min=low, max=None if high is None else max(low, high))


def sanitize_repository_wishes(draft: Draft, today: date) -> RepositoryWishes:
    language = _clean(draft.language, MAX_TERM_CHARS)
    topics = (re.sub(r"[\s_]+", "-", topic.strip().lower()) for topic in draft.topics)
    return RepositoryWishes(
        language=language if searchable(language) else None,
        topics=tuple(dict.fromkeys(topic for topic in topics if TOPIC.fullmatch(topic)))[:MAX_TOPICS],
        created_after=_date(draft.created_after, today),
    )


def sanitize_queries(draft: Draft) -> tuple[PlannedQuery, ...]:
    """Those that can be searched, at most four."""
    return tuple(query for one in draft.queries if (query := _query(one)))[:MAX_QUERIES]


def _query(draft: DraftQuery) -> PlannedQuery | None:
    keywords = clean_terms(draft.keywords, MAX_KEYWORDS)
    text = _clean(draft.text, MAX_TEXT_CHARS)
    wanted, left_out = split_negated(text)
    text = wanted if left_out else text  # an engine that ranks would look for the word after NOT
    text = text if searchable(text) else " ".join(keywords)
    if not text:
        return None
    keywords = keywords or clean_terms(extract_concepts(text), MAX_KEYWORDS) or (text,)
    boolean = _clean(draft.boolean_query, len(draft.boolean_query))
    boolean = boolean if parses(boolean) else conjunction(keywords, left_out)
    return PlannedQuery(text=text, keywords=keywords, boolean_query=boolean, synonyms=clean_terms(draft.synonyms, MAX_KEYWORDS))


def sanitize_expanded_terms(draft: Draft, known: str, most: int) -> tuple[str, ...]:
    """At most `most` terms that the words `known` do not hold already."""
    return select_new_terms(clean_terms(draft.expanded_keywords, len(draft.expanded_keywords)), known)[:most]


def add_terms(named: tuple[str, ...], least: int, related: Iterable[str], draft: Draft, known: str) -> tuple[str, ...]:
    """The terms that a model named, and where they are fewer than `least` the library's `related` ones, then its queries' synonyms.

    What the queries leave out widens none.
    """
    left_out = {stem for query in draft.queries for operand in split_negated(query.boolean_query)[1] for stem in stems(operand)}
    synonyms = (synonym for query in draft.queries for synonym in clean_terms(query.synonyms, MAX_KEYWORDS))
    for more, said in ((related, ""), (synonyms, known)):
        kept = [term for term in more if not left_out & set(stems(term))]
        named = (*named, *select_new_terms(kept, said, *named))[: max(least, len(named))]
    return named


def select_new_terms(given: Iterable[str], *known: str) -> tuple[str, ...]:
    """The terms that say something the texts of `known`, and the terms before them, do not."""
    seen = {stem for text in known for stem in stems(text)}
    kept: list[str] = []
    for term in given:
        said = set(stems(term))
        if not said <= seen:
            seen |= said
            kept.append(term)
    return tuple(kept)


def clean_terms(given: Iterable[str], most: int) -> tuple[str, ...]:
    """Cleaned, those that can be searched, each once in any case of letters, at most `most`."""
    kept: dict[str, str] = {}
    for term in given:
        clean = _clean(term.translate(MARKS), MAX_TERM_CHARS)
        if searchable(clean):
            kept.setdefault(clean.casefold(), clean)
    return tuple(kept.values())[:most]


def _clean(text: str, most: int) -> str:
    return " ".join(without_control(text).split())[:most].strip()


def _ordered(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    return (high, low) if low is not None and high is not None and low > high else (low, high)


def _within(value: int | None, least: int, most: int) -> int | None:
    return None if value is None else min(max(value, least), most)


def _date(text: str, today: date) -> date | None:
    """A day, a month or a year that lies between GitHub's first year and today; else none."""
    found = re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?(?:T.*)?", text.strip())
    try:
        day = date(*(int(part or 1) for part in found.groups())) if found else None
    except ValueError:
        return None
    return day if day and FIRST_REPOSITORY <= day <= today else None
