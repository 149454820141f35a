"""The known ways themselves, and for each the signs without which it cannot be there.

Few texts hold one, and to look words up takes a fraction of the time of the patterns. What `ANSWER` knows are the forms of answers that
the prompts ask for.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

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
"""Scripts of which the patterns know orders, without words that could be looked up."""


class Pattern(NamedTuple):
    name: str
    regex: re.Pattern[str]
    signs: tuple[tuple[frozenset[str], ...], ...]
    """Of whatever it finds in a Latin script, one of these is true: a word or mark of each set stands in it."""


def _pattern(name: str, regex: str, *signs: str) -> Pattern:
    """A sign is written as sets with `&` between them, the rarest first."""
    read = tuple(tuple(frozenset(words.split()) for words in sign.split("&")) for sign in signs)
    return Pattern(name, re.compile(regex, re.VERBOSE), read)


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


def possible(plain: str) -> Set[str]:
    """The names of the patterns whose signs a plain text holds."""
    said = plain.encode("ascii", "replace").translate(PARTED).decode("ascii").split()
    held = SIGNS.intersection(said).union(mark for mark in MARKS if mark in plain)
    return {name for sign in held for name, rest in BY_SIGN.get(sign, ()) if not any(map(held.isdisjoint, rest))}
