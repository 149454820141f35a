"""The model's plan: a draft of intent and queries, then cut, cleaned and completed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, get_args

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from outrider.nodes.translator.common_boolean_syntax import conjunction, join_synonyms, split_negated, split_synonym, to_common_syntax
from outrider.nodes.translator.rule_plan import extract_concepts
from outrider.prompts import Prompt, fence, load, load_domain, select_section
from outrider.settings.model import StarsSettings
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.checkpoints import Judgement, Judgements
from outrider.state.intent import Constraints, IntentType, NumberRange, ParsedIntent, PlannedQuery, RepositoryWishes
from outrider.state.model import Model
from outrider.state.request import SearchRequest, searchable
from outrider.text.sanitize import without_control
from outrider.text.words import stems

STARS = ("popular_min", "mature_min", "emerging_min", "emerging_max", "lightweight_max")
MAX_OUTPUT_TOKENS = 1_500
"""About twice the size of four queries with all their words."""
MAX_REQUEST_CHARS = 4_000
"""The model reads only the beginning of a longer request."""
MAX_SHOWN_ROUNDS = 8
MAX_SHOWN_WORKS = 10
"""Works that a person judged, of each kind, in the prompt."""
MAX_SHOWN_CHARS = 300
"""Characters of an earlier query in the prompt."""
MOST_TERMS = 20
MOST_QUERIES = 8
NUMBER = re.compile(r"\d{1,9}")


def to_line(value: object) -> object:
    """Small models write null for what they leave out, and continue where they should stop."""
    return _encodable(str(value)[:500]) if isinstance(value, str | int | float) else ""


def to_terms(value: object) -> object:
    if isinstance(value, str):
        value = re.split(r"[,;\n]", value)
    return [_encodable(term[:100]) for term in value if isinstance(term, str)][:MOST_TERMS] if isinstance(value, list | tuple) else []


def _encodable(text: str) -> str:
    """Drop halves of surrogate pairs, which JSON can hold but no file or terminal."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def to_number(value: object) -> object:
    """A whole number of up to nine digits, also in quotes; else None."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    text = text.strip().replace(",", "")
    return int(text) if NUMBER.fullmatch(text) else None


def to_queries(value: object) -> object:
    """A plain text is a query, too."""
    if not isinstance(value, list | tuple):
        return value
    return [{"text": item} if isinstance(item, str) else item for item in value if isinstance(item, str | Mapping | Model)][:MOST_QUERIES]


Line = Annotated[str, BeforeValidator(to_line), Field(max_length=500)]
Terms = Annotated[tuple[str, ...], BeforeValidator(to_terms), Field(max_length=MOST_TERMS)]
Number = Annotated[int | None, BeforeValidator(to_number)]
Flag = Annotated[bool, BeforeValidator(lambda value: value is True or str(value).lower() == "true")]
CODE_WORDS = re.compile(r"\b(?:code|implement\w*|repositor\w*|repos?|software|open[- ]source)\b", re.IGNORECASE)
"""Without one of these in the request, a model invents its wish of code."""


class DraftQuery(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Line = ""
    keywords: Terms = ()
    synonyms: Terms = ()
    boolean_query: Line = ""


class Draft(Model):
    """The model's answer, with lengths limited but not yet trusted. Further fields, such as sources, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    topic: Line = ""
    concepts: Terms = ()
    intent_type: Line = ""
    queries: Annotated[tuple[DraftQuery, ...], BeforeValidator(to_queries), Field(max_length=MOST_QUERIES)]
    expanded_keywords: Terms = ()
    year_from: Number = None
    year_to: Number = None
    language: Line = ""
    topics: Terms = ()
    created_after: Line = ""
    stars_min: Number = None
    stars_max: Number = None
    has_code: Flag = False
    code_alive: Flag = False


@dataclass(frozen=True, slots=True)
class QueryPrompt:
    """The prompt for one field of knowledge."""

    base: Prompt
    field: Prompt | None = None

    @classmethod
    def load(cls, field: str = "general") -> QueryPrompt:
        """`field` is `llm.domain`; raises `SettingsError` for an unknown one."""
        return cls(load("translate", frozenset({*STARS, "domain"})), load_domain(field))

    @property
    def versions(self) -> Mapping[str, str]:
        """For the provenance hash."""
        return {f"prompt:{prompt.name}": prompt.version for prompt in (self.base, self.field) if prompt}

    def format(self, stars: StarsSettings) -> str:
        bounds = {name: str(getattr(stars, name)) for name in STARS}
        return self.base.fill(domain=select_section(self.field, "planning"), **bounds)


@dataclass(frozen=True, slots=True)
class QueryBuilder:
    """Asks the model for a plan. Raises `ChatError`."""

    chat: Chat
    prompt: QueryPrompt
    stars: StarsSettings

    def question(self, request: SearchRequest, sources: tuple[str, ...], now: float, judged: Judgements | None = None) -> ChatRequest:
        """`now` in seconds since the epoch."""
        fields: dict[str, JsonValue] = {
            "request": _to_plain_line(str(request.query), MAX_REQUEST_CHARS),
            "today": datetime.fromtimestamp(now, UTC).date().isoformat(),
            "search_mode": request.search_mode.value,
            "sources": list(sources),
        }
        rounds: list[JsonValue] = []
        for earlier in request.previous_strategies[-MAX_SHOWN_ROUNDS:]:
            queries: list[JsonValue] = [
                {"text": _to_plain_line(query.text), "boolean_query": _to_plain_line(query.boolean_query)} for query in earlier.queries
            ]
            feedback = {"user_feedback": _to_plain_line(earlier.user_feedback)} if earlier.user_feedback else {}
            rounds.append({"queries": queries, **feedback})
        if rounds:
            fields["earlier_rounds"] = rounds
        if feedback_now := _to_plain_line(request.user_feedback, len(request.user_feedback)):
            fields["user_feedback"] = feedback_now
        kinds: tuple[tuple[str, tuple[Judgement, ...]], ...] = (("wanted_works", ("keep", "more_like")), ("unwanted_works", ("drop",)))
        for name, judgements in kinds:
            # the titles are texts of the sources: none that looks like an instruction is shown
            titles: list[JsonValue] = (
                [_to_plain_line(work.title) for work in judged.select(*judgements) if not work.flags] if judged else []
            )
            if titles:
                fields[name] = titles[-MAX_SHOWN_WORKS:]
        return ChatRequest("translator", self.prompt.format(self.stars), fence(fields), MAX_OUTPUT_TOKENS)

    async def draft(self, question: ChatRequest, budget: Budget) -> Draft:
        return await self.chat.answer(question, Draft, budget)


def _to_plain_line(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    return " ".join(without_control(text[:most]).split())


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


def check_code_wish(draft: Draft, request: str) -> Draft:
    """Without a wish of code that the request does not speak of."""
    return draft if CODE_WORDS.search(request) else draft.model_copy(update={"has_code": False, "code_alive": False})


def sanitize_constraints(draft: Draft, by_rules: Constraints, stars: StarsSettings, this_year: int) -> Constraints:
    """The constraints that rules read from the request's words stay; the model adds years or stars only if the words name none."""
    years = by_rules.years if by_rules.years != NumberRange() else sanitize_years(draft.year_from, draft.year_to, this_year)
    code_alive = by_rules.code_alive or draft.code_alive
    code = {"has_code": by_rules.has_code or draft.has_code or code_alive, "code_alive": code_alive}
    low, high = draft.stars_min or None, draft.stars_max or None  # a small model writes 0 for none
    if by_rules.stars_named or (low is None and high is None):
        return by_rules.model_copy(update={"years": years, **code})
    return Constraints(years=years, stars=sanitize_stars(low, high, stars), stars_named=True, **code)


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
    queries = []
    for drafted in draft.queries:
        keywords = clean_terms(drafted.keywords, MAX_KEYWORDS)
        text = _clean(drafted.text, MAX_TEXT_CHARS)
        included, excluded = split_negated(text)
        text = included if excluded else text  # an engine that ranks would search for the word after NOT
        text = text if searchable(text) else " ".join(keywords)
        if text:
            keywords = keywords or clean_terms(extract_concepts(text), MAX_KEYWORDS) or (text,)
            boolean = _clean(drafted.boolean_query, len(drafted.boolean_query))
            boolean = to_common_syntax(boolean) or conjunction(keywords, excluded)
            synonyms = clean_terms(drafted.synonyms, MAX_KEYWORDS)
            names = tuple(dict.fromkeys(split_synonym(synonym)[1] for synonym in synonyms))
            boolean = join_synonyms(boolean, synonyms)
            queries.append(PlannedQuery(text=text, keywords=keywords, boolean_query=boolean, synonyms=names))
    return tuple(queries[:MAX_QUERIES])


def sanitize_expanded_terms(draft: Draft, text: str, most: int) -> tuple[str, ...]:
    """At most `most` of the draft's terms that say something new beside `text`."""
    return select_new_terms(clean_terms(draft.expanded_keywords, len(draft.expanded_keywords)), text)[:most]


def add_terms(terms: tuple[str, ...], least: int, related: Iterable[str], draft: Draft, text: str) -> tuple[str, ...]:
    """The model's terms, and if they are fewer than `least`, the library's `related` ones, then synonyms from the draft's queries.

    Words that the queries exclude are not added.
    """
    excluded = {stem for query in draft.queries for operand in split_negated(query.boolean_query)[1] for stem in stems(operand)}
    synonyms = (split_synonym(synonym)[1] for query in draft.queries for synonym in clean_terms(query.synonyms, MAX_KEYWORDS))
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
