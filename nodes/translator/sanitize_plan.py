"""Sanitizing a model's draft of a plan: cut, cleaned and completed."""

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
    """The model's intent, and the rules' where the draft is empty or invalid."""
    topic = _clean(draft.topic, MAX_TEXT_CHARS)
    kind = draft.intent_type.strip().lower()
    return ParsedIntent(
        topic=topic if searchable(topic) else by_rules.topic,
        concepts=clean_terms(draft.concepts, MAX_CONCEPTS) or by_rules.concepts,
        intent_type=kind if kind in get_args(IntentType) else by_rules.intent_type,
        constraints=sanitize_constraints(draft, by_rules.constraints, stars, this_year),
    )


def sanitize_constraints(draft: Draft, by_rules: Constraints, stars: StarsSettings, this_year: int) -> Constraints:
    """The constraints that rules read from the request's words stay; the model adds years or stars only if the words name none."""
    years = by_rules.years if by_rules.years != NumberRange() else sanitize_years(draft.year_from, draft.year_to, this_year)
    low, high = draft.stars_min or None, draft.stars_max or None  # a small model writes 0 for none
    if by_rules.stars_named or (low is None and high is None):
        return by_rules.model_copy(update={"years": years})
    return Constraints(years=years, stars=sanitize_stars(low, high, stars), stars_named=True)


def sanitize_years(low: int | None, high: int | None, this_year: int) -> NumberRange:
    """Swapped if reversed, limited to 1800 and next year; a number without four digits is no year.

    A first year after that, or a last year before it, would leave out every work, and is dropped.
    """
    last_year = this_year + 1
    low, high = _order(*(year if year is not None and 1000 <= year <= 9999 else None for year in (low, high)))
    low = None if low is not None and low > last_year else low
    high = None if high is not None and high < FIRST_YEAR else high
    return NumberRange(min=_limit(low, FIRST_YEAR, last_year), max=_limit(high, FIRST_YEAR, last_year))


def sanitize_stars(low: int | None, high: int | None, stars: StarsSettings) -> NumberRange:
    """At least the default minimum; with an upper bound, as for new or small projects, at least their minimum."""
    low, high = _order(_limit(low, 0, MOST_STARS), _limit(high, 0, MOST_STARS))
    floor = stars.default_min if high is None else min(stars.default_min, stars.emerging_min)
    low = max(low or 0, floor)
    return NumberRange(min=low, max=None if high is None else max(low, high))


def sanitize_repository_wishes(draft: Draft, today: date) -> RepositoryWishes:
    """The creation date is a day, a month or a year between GitHub's first year and today; else none."""
    language = _clean(draft.language, MAX_TERM_CHARS)
    topics = (re.sub(r"[\s_]+", "-", topic.strip().lower()) for topic in draft.topics)
    match = re.fullmatch(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?(?:T.*)?", draft.created_after.strip())
    try:
        day = date(*(int(part or 1) for part in match.groups())) if match else None
    except ValueError:
        day = None
    return RepositoryWishes(
        language=language if searchable(language) else None,
        topics=tuple(dict.fromkeys(topic for topic in topics if TOPIC.fullmatch(topic)))[:MAX_TOPICS],
        created_after=day if day and FIRST_REPOSITORY <= day <= today else None,
    )


def sanitize_queries(draft: Draft) -> tuple[PlannedQuery, ...]:
    """The queries that can be searched, at most four."""
    return tuple(query for drafted in draft.queries if (query := _sanitize_query(drafted)))[:MAX_QUERIES]


def _sanitize_query(draft: DraftQuery) -> PlannedQuery | None:
    keywords = clean_terms(draft.keywords, MAX_KEYWORDS)
    text = _clean(draft.text, MAX_TEXT_CHARS)
    included, excluded = split_negated(text)
    text = included if excluded else text  # an engine that ranks would search for the word after NOT
    text = text if searchable(text) else " ".join(keywords)
    if not text:
        return None
    keywords = keywords or clean_terms(extract_concepts(text), MAX_KEYWORDS) or (text,)
    boolean = _clean(draft.boolean_query, len(draft.boolean_query))
    boolean = boolean if parses(boolean) else conjunction(keywords, excluded)
    return PlannedQuery(text=text, keywords=keywords, boolean_query=boolean, synonyms=clean_terms(draft.synonyms, MAX_KEYWORDS))


def sanitize_expanded_terms(draft: Draft, text: str, most: int) -> tuple[str, ...]:
    """At most `most` of the draft's terms that say something new beside `text`."""
    return select_new_terms(clean_terms(draft.expanded_keywords, len(draft.expanded_keywords)), text)[:most]


def add_terms(terms: tuple[str, ...], least: int, related: Iterable[str], draft: Draft, text: str) -> tuple[str, ...]:
    """The model's terms, and if they are fewer than `least`, the library's `related` ones, then synonyms from the draft's queries.

    Words that the queries exclude are not added.
    """
    excluded = {stem for query in draft.queries for operand in split_negated(query.boolean_query)[1] for stem in stems(operand)}
    synonyms = (synonym for query in draft.queries for synonym in clean_terms(query.synonyms, MAX_KEYWORDS))
    for more, known in ((related, ""), (synonyms, text)):
        allowed = [term for term in more if not excluded & set(stems(term))]
        terms = (*terms, *select_new_terms(allowed, known, *terms))[: max(least, len(terms))]
    return terms


def select_new_terms(terms: Iterable[str], *texts: str) -> tuple[str, ...]:
    """The terms with a word that neither the texts nor the terms before them have."""
    known = {stem for text in texts for stem in stems(text)}
    new: list[str] = []
    for term in terms:
        words = set(stems(term))
        if not words <= known:
            known |= words
            new.append(term)
    return tuple(new)


def clean_terms(terms: Iterable[str], most: int) -> tuple[str, ...]:
    """At most `most` terms that can be searched, cleaned, each once in any case."""
    unique: dict[str, str] = {}
    for term in terms:
        clean = _clean(term.translate(MARKS), MAX_TERM_CHARS)
        if searchable(clean):
            unique.setdefault(clean.casefold(), clean)
    return tuple(unique.values())[:most]


def _clean(text: str, most: int) -> str:
    return " ".join(without_control(text).split())[:most].strip()


def _order(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    return (high, low) if low is not None and high is not None and low > high else (low, high)


def _limit(value: int | None, least: int, most: int) -> int | None:
    return None if value is None else min(max(value, least), most)
