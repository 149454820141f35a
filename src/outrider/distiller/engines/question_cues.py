"""Kinds of questions and the marks of sentences that answer them.

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
MAX_QUESTION_CHARS = 1_000


@lru_cache(maxsize=1)
def _compile() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((re.compile(question, re.IGNORECASE), re.compile(answer, re.IGNORECASE)) for question, answer in CUES)


def find_answer_marks(question: str) -> list[re.Pattern[str]]:
    """The marks of an answer to this question, one pattern for each kind of question that it is."""
    return [answer for asked, answer in _compile() if asked.search(question[:MAX_QUESTION_CHARS])]


def share_of_marks(text: str, marks: list[re.Pattern[str]]) -> float:
    """The share of the patterns that a text matches; 0 without patterns."""
    return sum(mark.search(text) is not None for mark in marks) / len(marks) if marks else 0.0
