"""Kinds of questions and the marks of sentences that answer them.

Marks are words of a kind of answer; a quantity is a number with the unit that was asked for, or before the thing that was to be counted; a
definition says what the term of the question is.

Types of answers, after Li and Roth 2002, "Learning Question Classifiers". A question about costs need not share a word with "free for
private use", but its answer names a price, a currency or the lack of one.
"""

from __future__ import annotations

import re
from functools import lru_cache

CUES = (
    (
        r"licen[cs]|legal|commercial|free to use|open source|rights|copyright",
        r"licen[cs]|\bMIT\b|\bBSD\b|apache|\bGPL|public domain|copyright|\bCC[- ]",
    ),
    (
        r"\binstall|\bget (?:it|this|started)|set (?:it )?up|\bdownload|\bobtain",
        r"\binstall|\bpip3? |conda|brew |apt(?:-get)? |docker|npm |download|obtain|available (?:from|on|at)",
    ),
    (
        r"\bversions?\b|python|release|platform|operating system|windows|mac ?os|linux|work (?:on|with)|compatible|requires?\b|need",
        r"python ?\d|\bversions?\b|\bv?\d+\.\d+|windows|linux|mac ?os|requires?\b|support|compatib|depend",
    ),
    (
        r"\bcosts?\b|\bpric|\bpay|\bfees?\b|\bcheap|expens|for free|money|charge",
        r"\bcosts?\b|\bpric|\bpay|\bfees?\b|\bfree\b|[$€£]|charge|\bper (?:day|month|year|user)",
    ),
    (
        r"^\s*who\b|\bauthors?\b|maintain|behind|made (?:it|this)|whom",
        r"\bby\b|\bauthors?\b|maintain|creat|develop|team|universit|\bwe\b|contact|@",
    ),
    (
        r"\bfast|\bslow|quick|speed|performan|\btime\b.*\btake",
        r"\bfast|\bslow|quick|speed|performan|\btimes\b|\d ?(?:ms|µs|s|sec|second|minute|hour)s?\b|benchmark|\dx\b",
    ),
    (
        r"^\s*why\b|reason|purpose",
        r"because|\bsince\b|due to|so that|therefore|\bto avoid|reason|in order to|as a result|\bthus\b|otherwise",
    ),
    (
        r"differ|compare|\bthan\b|\bversus\b|\bvs\b|instead|rather|better|unlike|rival|alternativ",
        r"\bthan\b|unlike|whereas|compared|instead|differ|alternativ|in contrast|\bbut\b|while",
    ),
    (
        r"wrong|cannot|can't|\bnot\b|limit|drawback|lack|miss|without|fail|error|problem|happens|complain|refuse|break|trouble",
        r"\bnot\b|n't\b|cannot|only|limit|unsupported|no longer|fail|error|exception|rais|warn|refus|unless|\bno\b|ignor|lack",
    ),
    (r"\bsafe|secur|danger|risk|harm", r"\bsafe|secur|danger|risk|warn|caution|never|harm|vulnerab|trust"),
    (
        r"^\s*(?:when|since when)\b|\bdate\b|\byear\b|how (?:long|old|often)",
        r"\b(?:19|20)\d\d\b|january|february|march|april|\bmay\b|june|july|august|september|october|november|december|until|since|before",
    ),
    (
        r"^\s*where\b|\bfind\b|\breport\b|\bask\b|contact|\bhelp\b|look",
        r"https?://|@|\bat\b|issue|forum|mail|contact|discuss|chat|\bin the\b|\bfile\b|folder|directory|path|docs|documentation",
    ),
    (
        r"^\s*(?:is|are|does|do|can|could|will|may|must|should|has|have|am)\b",
        r"\bnot\b|n't\b|support|\bcan\b|\bmust\b|\bonly\b|allow|\bno\b|\byes\b|also|optional|possible",
    ),
    (
        r"\bhow (?:do|can|to|would|should|could)\b",
        r"`|\buse\b|\busing\b|\brun\b|\bcall\b|\bset\b|\bpass\b|\badd\b|\bcreate\b|\bwith\b|--?\w",
    ),
    (r"\bdefault|\bif i (?:do|set|say) no|leave", r"\bdefault|\bif not\b|unless|otherwise|omitted"),
    (
        r"\bwhat (?:is|are|does) (?:it|this|the (?:package|library|tool)|\w+)(?: for| do)?\s*\??$|purpose|what.* (?:for|about)\b|benefit",
        r"\bis an?\b|provides?|library|package|tool|module|framework|aims?|allows|lets",
    ),
    (
        r"how (?:many|much|large|big|far|high|fast|long)|roughly|percentage|share|number of|\bwhat (?:size|number)",
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million|half|most|all|none)\b",
    ),
    (
        r"\bwhich (?:\w+ ){0,2}(?:are|is|were|can|does|do|languages?|formats?|kinds?)|what (?:kinds?|formats?|types?)|\blist\b",
        r",[^,]{0,80}\b(?:and|or)\b|:|such as|including|e\.g\.|following",
    ),
)
"""Marks of a kind of question, and marks of its answers."""
WHEN = r"^\W*(?:\w+ )?when"
"""It begins the question: within one, as in `who rules when he is ill?`, it asks for no date."""
ASKS_HOW = re.compile(
    r"\bhow (?:do|can|to|would|should|could|does one|is|are)\b|^\s*how\b.*\b(?:i|we|you|one)\b|\bcommand\b|\bexample\b|\bcode\b",
    re.IGNORECASE,
)
ASKS_NUMBER = re.compile(
    rf"{WHEN}\b|\bhow (?:many|much|long|fast|large|big|often|old|well|far|high)\b|\bat (?:what|which)\b|\broughly\b|\bby how\b"
    r"|\bwhat (?:percentage|share|size|number|date|year|time)\b|\bwhich (?:\w+ )?(?:versions?|release|year|date)\b",
    re.IGNORECASE,
)
NUMBER_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty"
    "|forty|fifty|sixty|seventy|eighty|ninety|dozens?|hundreds?|thousands?|millions?|billions?|half"
)
HAS_NUMBER = re.compile(rf"\d|\b(?:{NUMBER_WORDS})\b", re.IGNORECASE)
"""Without `one`, which is a pronoun as well."""
NUMBER = rf"(?:(?<![\d.,])\d[\d.,]*+|\b(?:one|{NUMBER_WORDS})\b)"
NO_YEAR = r"(?!(?:1[89]|20)\d\d\b)"
TIME = r"(?:(?:milli|micro|nano)?seconds?|[mµn]?s|min(?:ute)?s?|h(?:ou)?rs?|days?|nights?|weeks?|months?|years?|decades?|centur(?:y|ies))\b"
LENGTH = r"(?:[kcmµn]?m|(?:kilo|centi|milli)?met(?:er|re)s?|inch(?:es)?|f(?:ee|oo)?t|yards?|miles?)\b"
MONEY = r"(?:dollars?|euros?|pounds?|cents?|USD|EUR)\b"
MONTHS = (
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december)\b|\bmay \d|\d(?:st|nd|rd|th)?(?: of)? may\b"
)
DATE = rf"\b(?:1\d|20)\d\d\b|{MONTHS}|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
QUANTITIES = (
    (
        r"\bhow (?:long|old|often)\b|\bwhat age\b|\bhow much (?:longer|time)\b",
        rf"{NUMBER}\)?[ -]?{TIME}|\b(?:once|twice|daily|weekly|monthly)\b",
    ),
    (rf"{WHEN}\b|\b(?:what|which) (?:year|date|day|month|century)\b", DATE),
    (r"\bhow (?:tall|high|deep|far|wide|thick)\b", rf"{NUMBER}[ -]?{LENGTH}"),
    (r"\bhow (?:hot|cold|warm)\b|\b(?:what|which) temperatures?\b", rf"{NUMBER} ?(?:°|º|degrees?\b|[CFK]\b)"),
    (
        r"\b(?:what|which) (?:percentage|share|proportion|fraction)\b|\bhow many percent\b",
        rf"{NUMBER} ?(?:%|percent|per cent)|\b(?:half|third|quarter)\b",
    ),
    (
        r"\bhow much\b.*\b(?:costs?|pay|paid|money|revenue|price|earn|charge)\b|\bwhat .*\b(?:price|costs?)\b",
        rf"[$€£¥] ?\d|{NUMBER} ?{MONEY}|\bfree\b",
    ),
)
"""What a question asks for, and a number with such a unit."""
ASKS_CONDITION = re.compile(rf"{WHEN} (?!(?:was|were|did|will|had)\b)", re.IGNORECASE)
"""`when is a file skipped?` may ask for a date, or for what makes it so."""
COUNTED = re.compile(r"\b(?:how many|(?:what|which)(?: is| was)? (?:the )?number of)\s+([\w'’-]++(?:\s++[\w'’-]++){0,3})", re.IGNORECASE)
DETERMINERS = re.compile(r"(?:of )?(?:the|these|those|its|different) ", re.IGNORECASE)
NOT_COUNTED = re.compile(
    r"\b(?:of|the|these|those|different|is|are|was|were|do|does|did|can|could|will|would|shall|should|may|must|has|have|had|there|in|on|at|for"
    r"|to|per|with|by|from|i|you|we|he|she|it|they)\b.*",
    re.IGNORECASE,
)
"""Words that end the name of what is counted."""
TERM = r"(?:(?:an?|the)\s+)?([\w.+/#'’-]++(?:\s++[\w.+/#'’-]++){0,3}?)"
DEFINED = re.compile(
    rf"^\W*(?:(?:so|and|but),? )?(?:what(?:['’]s| is| are| was| were)|who(?:['’]s| is| was)|define|explain what)\s+(?:meant by\s+)?{TERM}"
    rf"(?: (?:is|are|mean|means))?\W*$|^\W*what do(?:es)?\s+{TERM} (?:mean|stand for)\W*$",
    re.IGNORECASE,
)
NO_TERM = re.compile(r"\b(?:it|this|that|these|those|they|he|she|there|for|about|of|in|on|to|with|by|at|from|and|or)\b", re.IGNORECASE)
PLURAL = re.compile(r"(?<=\w\w\w)(?:ies|es|s|y|e)$")
Kinds = tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]
MAX_QUESTION_CHARS = 1_000


@lru_cache(maxsize=2)
def _compile(kinds: tuple[tuple[str, str], ...]) -> Kinds:
    return tuple((re.compile(question, re.IGNORECASE), re.compile(answer, re.IGNORECASE)) for question, answer in kinds)


def find_answer_marks(question: str) -> list[re.Pattern[str]]:
    """The marks of an answer to this question, one pattern for each kind of question that it is."""
    return [answer for asked, answer in _compile(CUES) if asked.search(question[:MAX_QUESTION_CHARS])]


def share_of_marks(text: str, marks: list[re.Pattern[str]]) -> float:
    """The share of the patterns that a text matches; 0 without patterns."""
    return sum(mark.search(text) is not None for mark in marks) / len(marks) if marks else 0.0


def find_quantity(question: str) -> re.Pattern[str] | None:
    """The form of the quantity that a question asks for; None where it asks for none."""
    question = question[:MAX_QUESTION_CHARS]
    if counted := COUNTED.search(question):
        words = NOT_COUNTED.sub("", DETERMINERS.sub("", counted[1], count=1)).split()
        if words:
            noun = next((word for word in reversed(words) if word.endswith("s")), words[0])
            return re.compile(rf"{NO_YEAR}{NUMBER}[^.;:!?]{{0,30}}?\b{_stem(noun)}\w{{0,4}}\b", re.IGNORECASE)
    return next((answer for asked, answer in _compile(QUANTITIES) if asked.search(question)), None)


def find_definition(question: str) -> re.Pattern[str] | None:
    """The form of a sentence that says what the term of the question is; None where it asks for none.

    Its group `term` is there where the text is the term alone, as a heading is.
    """
    asked = DEFINED.match(question[:MAX_QUESTION_CHARS])
    term = ((asked[1] or asked[2]) if asked else "").strip(".-'’/ ")
    if not term or NO_TERM.search(term):
        return None
    own = r"[\s-]+".join(rf"{_stem(word)}\w{{0,3}}" for word in re.split(r"[\s-]+", term) if word)
    return re.compile(
        rf"(?P<term>^\W*(?:(?:an?|the)\s+)?{own}\W*$)"
        rf"|\b{own}[\"'”’)*_`]*(?:\s*\([^()]{{0,60}}\)|,[^,.;]{{0,60}},)?\s*"
        r"(?:\b(?:is|are|was|were)\s+(?:an?|the|one|any|our|all|those|used|defined)\b"
        r"|\b(?:means?|refers?\s+to|denotes?|stands?\s+for|describes?|represents?)\b|[:,–—]\s*(?:an?|the|any)\s)"
        rf"|\b(?:called|named|termed|known\s+as)\W{{0,3}}(?:an?\s|the\s)?{own}\b",
        re.IGNORECASE,
    )


def _stem(word: str) -> str:
    """A word without the ending of its plural, as a pattern."""
    return re.escape(PLURAL.sub("", word))
