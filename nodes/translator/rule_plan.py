"""Plan of a search by rules: intent, years, stars, key phrases, variations of queries.

No model is involved, so the same words always give the same plan. Key phrases by RAKE (Rose, Engel, Cramer and Cowley 2010, "Automatic
keyword extraction from individual documents").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

from outrider.nodes.translator.common_boolean_syntax import OPERATOR, conjunction, list_phrases, list_terms, split_negated, to_common_syntax
from outrider.settings.model import StarsSettings
from outrider.state.checkpoints import Judgements
from outrider.state.earlier_rounds import MAX_EARLIER_CHARS, EarlierStrategy
from outrider.state.errors import NothingSearchable
from outrider.state.intent import Constraints, IntentType, NumberRange, ParsedIntent, PlannedQuery, SearchStrategy
from outrider.state.request import RetrieverType, SearchMode, SearchRequest, searchable
from outrider.text.sanitize import without_control
from outrider.text.words import STOP_WORDS, stems

YEAR = r"((?:19|20)\d{2})"
SINCE = re.compile(rf"\b(?:since|from|starting(?: in)?)\s+{YEAR}\b(?:\s+on(?:wards?)?\b)?", re.IGNORECASE)
AFTER = re.compile(rf"\b(?:after|newer than|later than)\s+{YEAR}\b", re.IGNORECASE)
BEFORE = re.compile(rf"\b(?:before|older than|earlier than|prior to)\s+{YEAR}\b", re.IGNORECASE)
UNTIL = re.compile(rf"\b(?:until|up to|till|by)\s+{YEAR}\b", re.IGNORECASE)
BETWEEN = re.compile(rf"\b(?:(?:between|from)\s+)?{YEAR}\s*(?:-|–|to|and|until|through)\s*{YEAR}\b", re.IGNORECASE)
IN_YEAR = re.compile(rf"\b(?:in|of|published in|during)\s+{YEAR}\b", re.IGNORECASE)
LAST_YEARS = re.compile(
    r"\b(?:in |over |from |of |during )?(?:the )?(?:last|past|recent)\s+(\d{1,2}|two|three|five|ten)\s+years\b", re.IGNORECASE
)
NUMBERS = {"two": 2, "three": 3, "five": 5, "ten": 10}

STAR_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("popular", re.compile(r"\b(?:popular|widely[- ]used|mainstream|famous)\b", re.IGNORECASE)),
    ("mature", re.compile(r"\b(?:mature|stable|established|battle[- ]tested)\b", re.IGNORECASE)),
    ("new", re.compile(r"\b(?:new|recent|fresh|emerging|up-and-coming)\b", re.IGNORECASE)),
    ("lightweight", re.compile(r"\b(?:small|lightweight|minimal|tiny)\b", re.IGNORECASE)),
)
STARS = re.compile(
    r"\b(?:with |having )?(?:(over|more than|at least|under|fewer than|less than|at most)\s+)?(\d[\d,]*)(k)?\+?\s+stars\b", re.IGNORECASE
)
UPPER = frozenset({"under", "fewer than", "less than", "at most"})

CODE_QUALITY = (
    r"(?:open[- ]source|open|public|publicly available|available|released|official|github|source|accompanying|working|usable|their) "
)
CODE_NOUN = r"(?:source code|code|implementations?|repositor(?:y|ies)|repos?|codebases?)"
OF_CODE = rf"(?:{CODE_QUALITY})*{CODE_NOUN}"
ENDS = (
    r"(?=\s*(?:$|[,.;:?!)]|"
    r"(?:and|or|available|released|since|after|before|for|in|on|that|which|published|by|from (?:19|20)\d\d)\b))"
)
"""Only what ends a phrase follows: "with code generation" and "with code of conduct" are not about code that works have."""
ON_HOST = r"(?: on (?:github|gitlab))"
ONLINE = r"(?: (?:is |are )?(?:publicly |openly |freely )?(?:available|released|online))"
ON_PLACE = rf"{ONLINE}?{ON_HOST}?"
HAS = r"\b(?:that|which) (?:has|have|come with|comes with|provides?|releases?|publish(?:es)?|ships? with) (?:an? |some |the )?"
WITH = rf"(?:\b(?:with|having) (?:an? |some |the )?|{HAS})"
ALIVE = r"(?:(?:still |actively |well[- ]?)?maintained|actively developed|alive|living|active|up[- ]to[- ]date)"
MAINTAINED_CODE = re.compile(
    rf"{WITH}(?:still )?{ALIVE},? (?:and )?{OF_CODE}{ON_PLACE}{ENDS}"
    rf"|{WITH}{OF_CODE} (?:that|which) (?:is|are) (?:still )?{ALIVE}{ENDS}"
    rf"|\bwhose (?:code|implementation|repository) is (?:still )?{ALIVE}{ENDS}",
    re.IGNORECASE,
)
HAS_CODE = re.compile(
    rf"{HAS}{OF_CODE}{ON_PLACE}{ENDS}"
    rf"|\b(?:with|having) (?:(?:an? |some ){OF_CODE}|(?:an? |some |the )?(?:{CODE_QUALITY})+{CODE_NOUN}){ON_PLACE}{ENDS}"
    rf"|\b(?:with|having) {CODE_NOUN}(?:{ONLINE}{ON_HOST}?|{ON_HOST}){ENDS}"
    rf"|\bwhose (?:source )?(?:code|implementation) is (?:publicly |openly |freely )?(?:available|public|open|released){ENDS}"
    rf"|\bwhose authors (?:have )?(?:release|publish|share|provide)[sd]? (?:their |the )?(?:source )?code{ENDS}"
    rf"|\b(?:and|with|,) (?:source )?code (?:is )?(?:publicly )?available{ENDS}",
    re.IGNORECASE,
)
BARE_CODE = re.compile(
    r"\b(?P<before>[\w-]+),? (?P<wish>with (?:source )?code)(?:(?P<ends>\s*(?:$|[,.;:?!)]|(?:since|after|before|from (?:19|20)\d\d)\b))"
    r"|(?= (?:for|in|on|that|which|published|by)\b))",
    re.IGNORECASE,
)
""""With code" alone is often no wish: "prompting with code", "children with code for dyslexia"."""
WORK_NOUN = re.compile(
    r"(?:papers?|articles?|publications?|works?|methods?|algorithms?|approach(?:es)?|techniques?|surveys?|studies|research)$", re.IGNORECASE
)
DOES_WITH = re.compile(
    r"(?:^|\b(?:of|by|for|to|and|or|on|in|that|who|which|can|is|are) )\w+ing$"
    r"|\b(?:interact|work|deal|act|cope|help|comply|play|think|reason|do|train|prompt|teach|learn)(?:s|ing|ed)?$",
    re.IGNORECASE,
)

QUOTED = re.compile(r'(?<!\w)["“”„«]([^"“”„«»]{1,200})["“”»](?!\w)')
TOKEN = re.compile(r"(?:(?<![\w.])\.)?[^\W_]+(?:(?:[-.'’/]|[+#]+)[^\W_]+)*[+#]*|[^\s\w]")
"""Words as they are written, including `C++`, `F#` and `.NET`; any other sign by itself."""
BESIDE_NOT = re.compile(r"(?:\b(?!AND\b|OR\b)(\w+)\W+)?\bNOT\s+(\w*)")
EXCLUDED = re.compile(r"\bNOT (?:(?!(?:AND|OR|NOT)\b)[^\s()\"“”„«»]+ ?)+")
FIELDS = re.compile(r"\[|\w/(?:\s|$)|\.\w\w[.,]")
"""Signs of fields: `[tiab]`, `exp Liver/`, `.ti,ab.`"""
REQUEST_WORDS = frozenset(
    "find show give want need look looking search searching please get let use used using like whose upon and/or".split()
)
"""Words of a request that do not belong to its subject; they end a phrase like stop words."""
MAX_CONCEPTS = 8
MAX_WORDS = 4
"""A longer run of content words is cut: it is a sentence without stop words, not a concept."""
EXPANSION = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 3, SearchMode.EXPLORATORY: 8}
"""Most terms that are added to a search."""
LEAST_EXPANSION = {SearchMode.FOCUSED: 0, SearchMode.BALANCED: 2, SearchMode.EXPLORATORY: 5}
TYPE_WORDS: tuple[tuple[IntentType, frozenset[str]], ...] = (
    ("survey", frozenset({"survey", "surveys", "review", "reviews", "overview", "meta-analysis", "tutorial"})),
    ("dataset", frozenset({"dataset", "datasets", "corpus", "corpora", "benchmark", "benchmarks"})),
    ("baseline", frozenset({"baseline", "baselines", "sota", "leaderboard"})),
    (
        "library",
        frozenset({"library", "libraries", "package", "packages", "framework", "frameworks", "repository", "tool", "client", "sdk", "cli"}),
    ),
    ("method", frozenset({"method", "methods", "algorithm", "algorithms", "approach", "approaches", "technique", "techniques"})),
)
MAX_VARIATIONS = 300
MAX_LIKE, MAX_LIKE_WORDS = 2, 4
"""Works whose like one round looks for, and words of each that a service must match."""
"""Variations tried for one query: all subsets of eight concepts, and some more terms."""


def read_constraints(query: str, bounds: StarsSettings, this_year: int) -> tuple[Constraints, str]:
    """The constraints, and the query without its years, numbers of stars and wishes of code. The search mode has no effect on them.

    Words such as "stable" stay: "stable diffusion" is not about stars alone.
    """
    years, rest = _read_years(query, this_year)
    stars = star_range(query, bounds)
    rest = " ".join(STARS.sub(" ", rest).split())
    has_code, code_alive, rest = read_code_wish(rest)
    stars_of = {"stars": stars or NumberRange(min=bounds.default_min), "stars_named": stars is not None}
    return Constraints(years=years, has_code=has_code, code_alive=code_alive, **stars_of), rest


def read_code_wish(query: str) -> tuple[bool, bool, str]:
    """Whether works must have code, whether it must be alive, and the query without these words. Operators and quotes stay as they are."""
    if OPERATOR.search(query) or QUOTED.search(query):
        return False, False, query
    alive = MAINTAINED_CODE.search(query)
    match = alive or HAS_CODE.search(query)
    if match is None and (bare := BARE_CODE.search(query)) and _is_wish(query, bare):
        rest = " ".join((query[: bare.start("wish")] + " " + query[bare.end("wish") :]).split())
    elif match is not None:
        rest = _cut_out(query, match)
    else:
        return False, False, query
    return True, alive is not None, rest if searchable(rest) else query


def _is_wish(query: str, bare: re.Match[str]) -> bool:
    """Whether "with code" is what works have: behind a word for works, or at the end of a phrase and of nothing that is done with code."""
    return bool(WORK_NOUN.match(bare["before"]) or (bare["ends"] is not None and not DOES_WITH.search(query[: bare.end("before")])))


def star_range(query: str, bounds: StarsSettings) -> NumberRange | None:
    """The number of stars in the query, else the range of the first of popular, mature, new, lightweight that it names."""
    if match := STARS.search(query):
        count = int(match.group(2).replace(",", "")) * (1000 if match.group(3) else 1)
        return NumberRange(max=count) if (match.group(1) or "").lower() in UPPER else NumberRange(min=count)
    ranges = {
        "popular": NumberRange(min=bounds.popular_min),
        "mature": NumberRange(min=bounds.mature_min),
        "new": NumberRange(min=bounds.emerging_min, max=bounds.emerging_max),
        "lightweight": NumberRange(min=bounds.emerging_min, max=bounds.lightweight_max),
    }
    return next((ranges[word] for word, pattern in STAR_WORDS if pattern.search(query)), None)


def _read_years(query: str, this_year: int) -> tuple[NumberRange, str]:
    if match := BETWEEN.search(query):
        low, high = sorted((int(match.group(1)), int(match.group(2))))
        return NumberRange(min=low, max=high), _cut_out(query, match)
    if match := LAST_YEARS.search(query):
        count = NUMBERS.get(match.group(1).lower()) or int(match.group(1))
        return NumberRange(min=this_year - count), _cut_out(query, match)
    low_bound: int | None = None
    high_bound: int | None = None
    for pattern, low_offset, high_offset in ((SINCE, 0, None), (AFTER, 1, None), (BEFORE, None, -1), (UNTIL, None, 0), (IN_YEAR, 0, 0)):
        match = pattern.search(query)
        if not match:
            continue
        year = int(match.group(1))
        low_bound = year + low_offset if low_offset is not None else low_bound
        high_bound = year + high_offset if high_offset is not None else high_bound
        query = _cut_out(query, match)
    if low_bound is not None and high_bound is not None and low_bound > high_bound:
        low_bound, high_bound = high_bound, low_bound
    return NumberRange(min=low_bound, max=high_bound), query


def _cut_out(query: str, match: re.Match[str]) -> str:
    return " ".join((query[: match.start()] + " " + query[match.end() :]).split())


def list_concept_phrases(text: str) -> tuple[str, ...]:
    """The phrases that the plan of this text raises in a search by words."""
    return list_phrases(conjunction(extract_concepts(text)))


def extract_concepts(text: str) -> tuple[str, ...]:
    """At most eight phrases, in the order of the text: those in quotation marks, then by RAKE's sum of deg(word) / freq(word).

    A text of stop words only gives its words, so that "to be or not to be" can be searched.
    """
    runs: list[list[str]] = [[]]
    words: set[str] = set()
    quoted: set[str] = set()
    for place, piece in enumerate(QUOTED.split(text)):
        phrase = " ".join(piece.split()).rstrip(".,;:!?")
        if place % 2 and " " in phrase and searchable(phrase):  # between a pair of marks
            quoted.add(phrase)
            runs += [[phrase], []]
            continue
        for token in TOKEN.findall(piece):
            if not searchable(token) or token.lower() in STOP_WORDS | REQUEST_WORDS:
                runs.append([])
            elif token.lower() not in words:
                words.add(token.lower())
                if len(runs[-1]) == MAX_WORDS:
                    runs.append([])
                runs[-1].append(token)
        runs.append([])
    phrases = [run for run in runs if run]
    if not phrases:
        return tuple(dict.fromkeys(filter(searchable, TOKEN.findall(text))))[:MAX_CONCEPTS]
    frequency = Counter(word.lower() for phrase in phrases for word in phrase)
    degree: Counter[str] = Counter()
    for run in phrases:
        degree.update({word.lower(): len(run) for word in run})
    score = {" ".join(run): sum(degree[word.lower()] / frequency[word.lower()] for word in run) for run in phrases}
    best = sorted(score, key=lambda phrase: (phrase not in quoted, -score[phrase], phrase))[:MAX_CONCEPTS]
    return tuple(phrase for phrase in score if phrase in best)


def extract_keywords(phrases: Iterable[str]) -> tuple[str, ...]:
    """The words of phrases as they are written, each once in any case: for services that require every word."""
    words: dict[str, str] = {}
    for word in " ".join(phrases).split():
        words.setdefault(word.casefold(), word)
    return tuple(words.values())


def parse_intent(query: str, stars: StarsSettings, this_year: int) -> tuple[ParsedIntent, str]:
    """The intent, and the words to search with: without control characters and year phrases."""
    clean = " ".join(without_control(query).split())
    constraints, rest = read_constraints(clean, stars, this_year)
    rest = rest if searchable(rest) else clean  # "2022" alone is a search, not a constraint
    words = set(re.findall(r"[\w-]+", rest.lower()))
    intent_type = next((name for name, marks in TYPE_WORDS if words & marks), "general")
    concepts = _list_required(read_operators(rest))[:MAX_CONCEPTS] or extract_concepts(rest)
    return ParsedIntent(topic=rest, concepts=concepts, intent_type=intent_type, constraints=constraints), rest


def read_operators(text: str) -> str:
    """The Boolean query that a text holds as the user wrote it: AND, OR, NOT in capitals, or fields of a platform. Empty without one.

    NOT beside a stop word only stresses a sentence: "should NOT be given to children". What it excludes ends at the next stop word.
    """
    if not OPERATOR.search(text) and not FIELDS.search(text):
        return ""
    from outrider.boolean.parser import uses_boolean_syntax

    text = text.rstrip(" .?!")
    if not uses_boolean_syntax(text) or any(not STOP_WORDS.isdisjoint(word.lower() for word in pair) for pair in BESIDE_NOT.findall(text)):
        return ""
    return to_common_syntax(text if FIELDS.search(text) else EXCLUDED.sub(_end_exclusion, text))


def _end_exclusion(excluded: re.Match[str]) -> str:
    """`NOT ibuprofen in adults` as `NOT ibuprofen AND adults`."""
    first, *rest = excluded[0].split(" ")
    end = next((place for place, word in enumerate(rest) if word.lower() in STOP_WORDS), None)
    after = [] if end is None else [word for word in rest[end:] if word.lower() not in STOP_WORDS]
    return " ".join((first, *rest[:end], *(("AND", *after) if after else ())))


def leave_out_operators(text: str) -> str:
    """The text for an engine that ranks: it would search for the word after NOT, too."""
    return " ".join(_list_required(read_operators(text))) or text


def _list_required(boolean_query: str) -> tuple[str, ...]:
    """The words and phrases that a query requires or allows."""
    included, _ = split_negated(boolean_query)
    return tuple(dict.fromkeys(term.rstrip("*") for term in list_terms(included)))


def plan_by_rules(
    request: SearchRequest, intent: ParsedIntent, text: str, configured: tuple[str, ...], expanded: tuple[str, ...]
) -> SearchStrategy:
    """The deterministic strategy: the text's own operators, else its concepts joined with AND. All configured sources unless the caller
    named some.
    """
    boolean = read_operators(text)
    query = PlannedQuery(
        text=leave_out_operators(text),
        keywords=extract_keywords(intent.concepts),
        boolean_query=boolean or conjunction(intent.concepts),
    )
    return SearchStrategy(
        queries=(query,),
        sources=select_requested_sources(request, configured),
        strategies=request.strategies or tuple(RetrieverType),
        search_mode=request.search_mode,
        expanded_keywords=expanded,
        constraints=intent.constraints,
        user_feedback=request.user_feedback,
        earlier=request.previous_strategies,
    )


def add_queries_like(queries: tuple[PlannedQuery, ...], judged: Judgements) -> tuple[PlannedQuery, ...]:
    """The queries, and after the first of them one for each work whose like is wanted: many services are sent only the first ones.

    Its text describes the work, for engines that compare words or meaning; engines that match need only its first words.
    """
    wanted = [work for work in judged.works if work.doc_id in judged.more_like and searchable(work.like)][:MAX_LIKE]
    like = []
    for work in wanted:
        concepts = extract_concepts(work.like) or (work.like,)
        keywords = extract_keywords(concepts)
        like.append(PlannedQuery(text=work.like, keywords=keywords[:MAX_LIKE_WORDS], boolean_query=conjunction(keywords[:MAX_LIKE_WORDS])))
    return (*queries[:1], *like, *queries[1:])


def select_requested_sources(request: SearchRequest, configured: tuple[str, ...]) -> tuple[str, ...]:
    """The configured sources that the caller did not leave out; raises `NothingSearchable` if none is left."""
    sources = tuple(name for name in configured if request.sources is None or name in request.sources)
    if not sources:
        none = f"{', '.join(map(str, request.sources))} cannot be searched" if request.sources else "no source can be searched"
        raise NothingSearchable(
            f"{none}: with --offline or sources.offline only the library is; else `outrider config show` lists what is switched on"
        )
    return sources


def vary_repeated_queries(
    queries: Iterable[PlannedQuery], earlier: Sequence[EarlierStrategy], terms: Sequence[str] = ()
) -> tuple[PlannedQuery, ...]:
    """The new queries, each once. A query that an earlier round ran is varied, or dropped if every variation was run too."""
    ran = [query for strategy in earlier for query in strategy.queries]
    texts = {make_word_set(query.text) for query in ran}
    booleans = {make_boolean_sets(query.boolean_query) for query in ran if query.boolean_query}
    new: dict[frozenset[str], PlannedQuery] = {}
    for query in queries:
        for variation in (query, *islice(_make_variations(query, terms), MAX_VARIATIONS)) if ran else (query,):
            key = make_word_set(variation.text)
            if key not in texts and make_boolean_sets(variation.boolean_query) not in booleans:
                new.setdefault(key, variation)
                break
    return tuple(new.values())


def make_word_set(text: str) -> frozenset[str]:
    """The stems of a text, by which queries are compared."""
    return frozenset(stems(text[:MAX_EARLIER_CHARS]))


def make_boolean_sets(query: str) -> tuple[frozenset[str], frozenset[str]]:
    """The stems that a Boolean query includes and excludes; AND or OR between the same words makes no difference."""
    included, excluded = split_negated(query[:MAX_EARLIER_CHARS])
    return make_word_set(included), make_word_set(" ".join(excluded))


def _make_variations(query: PlannedQuery, terms: Sequence[str]) -> Iterator[PlannedQuery]:
    """The same text with a new Boolean query; with one more synonym or related term; with fewer and fewer concepts.

    All keep the operands that the query excludes.
    """

    def vary(text: str, units: Sequence[str]) -> PlannedQuery:
        boolean = conjunction(units, split_negated(query.boolean_query)[1])
        return query.model_copy(update={"text": text, "keywords": extract_keywords(units), "boolean_query": boolean})

    concepts = extract_concepts(query.text[:MAX_EARLIER_CHARS])
    yield vary(query.text, concepts)
    words, excluded = make_word_set(query.text), make_boolean_sets(query.boolean_query)[1]
    for term in (*query.synonyms, *terms):
        if not make_word_set(term) <= words and not make_word_set(term) & excluded:
            yield vary(f"{query.text} {term}", (*concepts, term))
    units = concepts if len(concepts) > 1 else extract_keywords(concepts)
    for count in range(len(units) - 1, 0, -1):
        for fewer in combinations(units, count):
            yield vary(" ".join(fewer), fewer)
