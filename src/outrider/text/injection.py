"""Known ways of hiding instructions for a model in a title, an abstract or a README.

A match puts a mark on the hit. A mark is a warning, not the defence: that is the fence around what comes from outside, and the check of
every answer. What no pattern here describes passes unmarked, and a text about such attacks is marked although it is none.

Each pattern has signs: words or marks without which it cannot match. Few texts hold one, and looking words up takes a fraction of the
time of the patterns. `ANSWER` matches the forms of answers that the prompts request.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import sys
import unicodedata
from collections.abc import Iterator, Set
from functools import cache
from typing import NamedTuple

from outrider.text.content_cache import ContentCache

# All patterns are for plain text (see `injection`): lower case, `_`, `-` and runs of blanks as one space. `\s` is a space or a line end.
# Every repetition is bounded, so that time stays linear in the text.
EARLIER = r"(?:(?:all|any|of|the|every|your|my|these|those|previous|prior|above|earlier|preceding|foregoing|former|other|system)\s){1,6}"
ORDERS = r"(?:instructions?|prompts?|directions|directives?|guidelines|guardrails|rules|orders|rubric|criteria)\b"
OTHERS = r"(?:rest|others|other\s(?:papers|items|works|records|candidates|results|documents|repositories))\b"
BEST = r"(?:10(?:\.0)?|ten|100|1\.0|full\smarks|(?:the\s)?(?:highest|maximum|maximal|max|top|best|perfect)(?:\spossible)?)"
MODEL = r"(?:ai|llm|(?:large\s)?language\smodel|ai\smodel|chatgpt|gpt)s?"
FILLER = r"(?:as\s|at\s|with\s|of\s|a\s|an\s|it\s|to\s|the\s|score\s|relevance\s){0,4}"

OVERRIDE = rf"""
    \b(?:
      (?:ignore|disregard|forget|bypass|override|overrule|discard)\s{EARLIER}{ORDERS}
    | (?:ignore|disregard|forget)\s(?:everything|all|anything|whatever|what)\s(?:that\s)?
      (?:(?:was|is|stands|came)\s)?(?:above|before|you\swere|i\ssaid)
    | (?:ignore|disregard|skip|reject)\s(?:all\s)?(?:of\s)?the\s{OTHERS}
    | (?:new|updated|real|actual)\sinstructions?(?:\s?:|\sfor\s(?:the\s)?(?:{MODEL}|model|assistant|reviewer))
    | ignorier(?:e|en|t)\s(?:sie\s)?(?:bitte\s)?(?:(?:alle|die|deine|ihre|vorherigen|bisherigen|obigen)\s){{1,4}}
      (?:anweisung|instruktion|regel|vorgabe)
    | (?:ignorez|ignore|oubliez|oublie)\s(?:toutes\s)?(?:(?:les|vos|tes|ces)\s)?(?:instructions|consignes|règles)
    | (?:ignora|ignore|ignorad|ignoren|olvida|olvide|esqueça|dimentica)\s(?:(?:todas|tutte)\s)?(?:(?:las|as|le)\s)?
      (?:instrucciones|indicaciones|reglas|instruções|regras|istruzioni)
    | (?:игнорируй|игнорируйте|проигнорируй|забудь|забудьте)\s(?:(?:все|всё|предыдущие|прежние)\s){{0,3}}(?:инструкции|указания|правила)
    )
  | (?:忽略|无视|無視|忘记)[^。.\n]{{0,12}}(?:指令|指示|说明|提示|规则) | (?:指示|命令)[^。.\n]{{0,6}}(?:無視|忘れ)
  | (?:تجاهل|تجاهلوا)\s(?:جميع\s|كل\s)?(?:التعليمات|الأوامر) | (?:이전|위의|모든)\s[^.\n]{{0,10}}(?:지시|명령)[^.\n]{{0,6}}무시
"""
SCORE = rf"""
    \b(?:
      (?:give|award|assign|grant)\s(?:this|it|me|us)\b[^.\n]{{0,40}}?\s{BEST}(?:\s?/\s?10)?\s?(?:score|rating|relevance|points|marks?|out\sof|[.!,]|$)
    | (?:rate|score|rank|grade|mark|judge)\s(?:this|it|me|us)\b(?:\s\w+){{0,3}}\s{FILLER}(?:{BEST}|first|highly\srelevant)\b
    | (?:must|shall|should\s?always|always)\s(?:be\s)?(?:rated?|scored?|rank(?:ed)?|receive|get|graded?|given?)\s{FILLER}(?:{BEST}|first)\b
    | (?:score|rating|relevance)\s?[:=]?\s?(?:10|1\.0|100)\s?[,;.]\s?(?:and\s)?(?:ignore|disregard|skip|reject)\b
    | (?:set|return|output|print|answer|respond)\s(?:with\s)?(?:only\s|its\s|your\s|overall\s)?{FILLER}
      (?:score|rating|relevance)\s?(?:of|to|as|[:=])?\s?{BEST}\b
    | bewerte[tn]?\s(?:dies\w{{0,3}}|es|sie|das)\b[^.\n]{{0,40}}\s(?:10|zehn|höchst|voller)
    )
  | (?:给|打|評価|评)[^。\n]{{0,10}}(?:满分|滿分|最高分|10\s?分|満点)
"""
QUOTE = r"\\{0,2}[\"'“”‘’]"
RATED = rf"{QUOTE}(?:relevance|documentation|ease\sof\suse)(?:\sreason)?{QUOTE}\s?:"
ANSWER = rf"""
    \bpaper\sid(?:{QUOTE})?\s?[:=]\s?(?:{QUOTE})?\s?p\d
  | {RATED}\s?(?:{QUOTE})?\d[\d.]{{0,4}}(?:{QUOTE})?\s?,\s?{RATED}
  | {QUOTE}groups{QUOTE}\s?:\s?\[\s?\[[^\]]{{0,60}}?{QUOTE}r\d
  | {QUOTE}queries{QUOTE}\s?:\s?\[\s?\{{\s?{QUOTE}(?:text|keywords|boolean\squery){QUOTE}\s?:
  | {QUOTE}(?:intent\stype|boolean\squery|expanded\skeywords){QUOTE}\s?:
  | {QUOTE}(?:results|scores){QUOTE}\s?:\s?\[\s?\{{\s?{QUOTE}(?:id|doc\sid|ref){QUOTE}\s?:[^{{}}\[\]]{{0,120}}{QUOTE}(?:score|relevance)
  | \{{\s?{QUOTE}(?:score|relevance|overall){QUOTE}\s?:\s?(?:10|1)(?:\.0)?\s?[,}}]
"""
ROLE = r"""
    <\|?(?:im\sstart|im\send|endoftext|eot\sid|start\sheader\sid|begin\sof\stext|system|developer|assistant)\|> | \[/?inst\] | <</?sys>>
  | <(?:start|end)\sof\sturn> | <\s?/?\s?(?:system|assistant)(?:\s(?:prompt|message|instructions?))?\s?>
  | (?:^|[\n\]>.!?]\s?)(?:\#{1,4}\s?|\[)?(?:system|developer|admin|administrator)(?:\s(?:prompt|message|override|notice|note|update))?
    \]?\s?:\s?(?:you\b|ignore|disregard|forget|from\snow|score|rate|the\s(?:user|model|assistant|following)\b|new\s|all\s|this\s)
  | (?:^|\n)(?:\#{1,4}\s?)?(?:human|user)\s?:[^\n]{0,300}\n(?:\#{1,4}\s?)?assistant\s?:[^\n]{0,60}(?:score|relevan|rate|rank)
  | "role"\s?:\s?"(?:system|developer)"\s?,\s?"content"\s?:\s?"(?:ignore|disregard|forget|score|rate)
"""
FENCE = r"""
    <\s?/?\s?data\s?/?> | \\u003c\s?/\s?data\b
  | (?:^|\n)[\s=\#]{0,8}(?:begin|end)\sof\s(?:the\s)?(?:data|untrusted|user|input|document)\b[^\n]{0,20}(?:\n|$)
"""
ADDRESSED = rf"""
    \b(?:
      (?:note|message|instructions?|attention|important|memo)\s?(?:to|for)?\s(?:all\s|the\s|any\s)?{MODEL}
      (?:\s(?:reviewer|reader|assistant|agent|model|system|grader|judge)s?)?\s?[:,;.–—]
    | (?:if|as|since)\syou(?:['’]re|\sare)\s(?:an?\s|the\s)?(?:{MODEL}|automated\s(?:reviewer|grader|judge))\b
    | (?:reveal|print|repeat|output|show|leak)\s(?:me\s)?(?:your|the)\s(?:hidden\s|full\s|entire\s)?
      (?:system|initial)\s(?:prompt|message|instructions)\b
    | (?:dear|hey|hello|attention,?)\s{MODEL}\b
    | you\sare\snow\s(?:an?|the|in)\s[^.\n]{{0,40}}?\b(?:assistant|model|mode|reviewer|grader|judge|unrestricted)\b
    | do\snot\s(?:mention|reveal|tell|report)\s(?:this|these)\s(?:instruction|message|note|prompt|order)s?\b
    )
"""
FOREIGN = re.compile(r"[\u0400-\u1fff\u3040-\uffef]")
"""Scripts for which there are patterns of orders, but no index words."""
MAX_DECODED = 50
"""Runs of base64 that are looked into: a notebook holds pictures by the hundred."""
DECODED_CHARS = 4_000
"""Of each; a multiple of four, so that what is cut off still decodes."""
AS_BLANK, AS_NOTHING = b"_-\r\t\x0b\x0c\x1c\x1d\x1e\x1f", b"*`"
BLANKED = bytes(32 if byte in AS_BLANK else byte for byte in range(256))
TAGS = re.compile(r"[\U000e0020-\U000e007e]+")
STYLED = re.compile(r"[\uff01-\uff5e\u24b6-\u24e9\U0001d400-\U0001d7ff]+")
"""Letters of full width, in circles, and of mathematics: each stands for one plain letter."""
INVISIBLE = re.compile(r"[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+")
BLANK = re.compile(r"[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""Beyond ASCII."""
UNUSUAL = re.compile("[" + "".join(one.pattern.strip("[]+") for one in (TAGS, STYLED, INVISIBLE, BLANK)) + "]")
"""Any of these, as one class: most texts hold none."""
FLAG = re.compile(r"\U0001f3f4[\U000e0020-\U000e007f]{1,8}")
"""The flags of England, Scotland and Wales are spelt in tags."""
HIDDEN = re.compile(
    r"""[\U000e0020-\U000e007e]{4}                  # tags: ASCII that no screen shows
      | [\u202d\u202e]                              # the writing direction overridden
      | [\u200b-\u200d\u2060-\u2064\ufeff]{6}       # a message in zero-width characters
      | (?:[A-Za-z][\u200b-\u200d\u2060\ufeff]){3}  # words broken up, to pass a filter
      | [\ufe00-\ufe0f\U000e0100-\U000e01ef]{4}     # bytes in variation selectors
    """,
    re.VERBOSE,
)
UNSEEN = re.compile(
    r"""<!--[^<]{1,600} | \[(?://|comment)\]:\s?\#[^\n]{1,600}
      | <[a-z]{1,10}\s[^<>]{0,200}?(?:display\s?:\s?none|font-size\s?:\s?0|visibility\s?:\s?hidden|color\s?:\s?(?:white|\#fff))[^<]{1,600}
    """,
    re.VERBOSE,
)
"""Text that a page hides. It counts only if it contains an order."""
UNSEEN_MARKS = ("<!--", "[//]:", "[comment]:", "display", "font-size", "visibility", "color")
"""One of them stands in whatever it finds."""
ORDER = re.compile(
    rf"\b(?:{MODEL}|models?|assistants?|reviewers?|graders?)\b[^.\n]{{0,80}}\b(?:must|should|please|rate|score|rank|recommend|ignore|say)\b"
    r"|\b(?:rate|score|rank|recommend)\s(?:this|it)\b"
)
BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{32,}={0,2}")
IN_BASE64 = bytes(97 if byte < 128 and (chr(byte).isalnum() or chr(byte) in "+/") else 32 for byte in range(256))
LEAST_RUN = b"a" * 32
""""a" for all that base64 is written in: a search for a run of it takes a tenth of the time of the pattern."""


class Pattern(NamedTuple):
    name: str
    source: str
    signs: tuple[tuple[frozenset[str], ...], ...]
    """Of whatever it finds in a Latin script, one of these is true: a word or mark of each set stands in it."""

    @property
    def regex(self) -> re.Pattern[str]:
        """Compiled when a text first holds one of its signs: the six together take longer than most other modules to import."""
        return _compile(self.source)


@cache
def _compile(source: str) -> re.Pattern[str]:
    return re.compile(source, re.VERBOSE)


def _pattern(name: str, regex: str, *signs: str) -> Pattern:
    """A sign is written as sets with `&` between them, the rarest first."""
    read = tuple(tuple(frozenset(words.split()) for words in sign.split("&")) for sign in signs)
    return Pattern(name, regex, read)


PATTERNS = (
    _pattern(
        "addressed",
        ADDRESSED,
        "ai ais llm llms gpt gpts chatgpt chatgpts",
        "language & model models",
        "you & are re",
        "system initial & prompt message instructions",
        "mention reveal tell report & not & instruction instructions message messages note notes prompt prompts order orders",
    ),
    _pattern(
        "answer",
        ANSWER,
        "paper & id",
        "relevance documentation ease & relevance documentation ease & , & :",
        "[ & groups queries",
        "intent & type & :",
        "boolean & query & :",
        "expanded & keywords & :",
        "{ & [ & results scores",
        "{ & score relevance overall",
    ),
    _pattern("fence", FENCE, "< u003c & data", "begin end & of & data untrusted user input document"),
    _pattern(
        "override",
        OVERRIDE,
        "ignore disregard forget bypass override overrule discard skip reject",
        "new updated real actual & instruction instructions",
        "ignoriere ignorieren ignoriert ignorez oubliez oublie ignora ignorad ignoren olvida olvide esque dimentica",  # esqueça
    ),
    _pattern(
        "role",
        ROLE,
        "< & im endoftext eot header begin system developer assistant sys turn",
        "[ & inst",
        "system developer admin administrator & :",
        "human user & assistant & :",
    ),
    _pattern(
        "score",
        SCORE,
        "give award assign grant & this it me us",
        "rate score rank grade mark judge & this it me us & 10 ten 100 1 full highest maximum maximal max top best perfect first highly",
        "must shall always shouldalways & rate rated score scored rank ranked receive get grade graded give given",
        "ignore disregard skip reject",
        "set return output print answer respond",
        "bewerte bewerten bewertet",
    ),
)
BY_SIGN: dict[str, list[tuple[str, tuple[frozenset[str], ...]]]] = {}
"""Under each word or mark that a sign begins with, whose it is and what else it takes."""
for _one in PATTERNS:
    for _first, *_rest in _one.signs:
        for _sign in _first:
            BY_SIGN.setdefault(_sign, []).append((_one.name, tuple(_rest)))
SIGNS = frozenset(word for one in PATTERNS for sign in one.signs for words in sign for word in words)
MARKS = tuple(sorted(sign for sign in SIGNS if not sign.isalnum()))
PARTED = bytes(byte if byte < 128 and chr(byte).isalnum() else 32 for byte in range(256))
"""For `bytes.translate`: all but the letters and digits of ASCII becomes a space."""


def find_candidates(plain: str) -> Set[str]:
    """The names of the patterns whose signs a plain text holds."""
    words = plain.encode("ascii", "replace").translate(PARTED).decode("ascii").split()
    signs = SIGNS.intersection(words).union(mark for mark in MARKS if mark in plain)
    return {name for sign in signs for name, rest in BY_SIGN.get(sign, ()) if not any(map(signs.isdisjoint, rest))}


def _find_patterns(text: str) -> tuple[str, ...]:
    names = set(_match_patterns(_plain(text)))
    if not text.isascii() and INVISIBLE.search(text) and HIDDEN.search(FLAG.sub("", text)):
        names.add("hidden")
    elif ("<" in text or "[" in text) and any(mark in text for mark in UNSEEN_MARKS):
        unseen = _plain("\n".join(match.group() for match in UNSEEN.finditer(text)))
        if _match_patterns(unseen) or ORDER.search(unseen):  # what a page does not show gives orders
            names.add("hidden")
    if _match_patterns(_plain("\n".join(_iter_decoded(text)))):
        names.add("encoded")
    return tuple(sorted(names))


KEPT_BYTES = 2**20
"""Of results, which are short: thousands of texts."""
_kept = ContentCache(_find_patterns, sys.getsizeof, KEPT_BYTES)


def suspicious(text: str) -> tuple[str, ...]:
    """The names of the patterns found, sorted: addressed, answer, encoded, fence, hidden, override, role, score.

    Time is linear in the length of the text. Results are kept: searches show the same records again.
    """
    return _kept(text)


def _match_patterns(plain: str) -> list[str]:
    """The names of the patterns that plain text holds."""
    foreign = not plain.isascii() and bool(FOREIGN.search(plain))
    names = find_candidates(plain)
    return [one.name for one in PATTERNS if (foreign or one.name in names) and one.regex.search(plain)]


def _plain(text: str) -> str:
    """As a model may read it: entities, tags and styled letters as what they stand for, nothing invisible, no emphasis, blanks as one."""
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii() and UNUSUAL.search(text):
        text = TAGS.sub(lambda match: "".join(chr(ord(char) - 0xE0000) for char in match.group()), text)
        text = STYLED.sub(lambda match: unicodedata.normalize("NFKC", match.group()), INVISIBLE.sub("", text))
        text = BLANK.sub(" ", text)
    text = text.lower().encode("utf-8", "surrogatepass").translate(BLANKED, AS_NOTHING).decode("utf-8", "surrogatepass")
    if "  " in text:
        text = re.sub(r"  +", " ", text)
    return re.sub(r"\n\s+", "\n", text.replace(" \n", "\n")) if "\n" in text else text


def _iter_decoded(text: str) -> Iterator[str]:
    if LEAST_RUN not in text.encode("ascii", "replace").translate(IN_BASE64):
        return
    for _, run in zip(range(MAX_DECODED), BASE64.finditer(text), strict=False):
        whole = run.group().rstrip("=")[:DECODED_CHARS]
        try:
            yield base64.b64decode(whole[: len(whole) // 4 * 4]).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            continue  # no text
