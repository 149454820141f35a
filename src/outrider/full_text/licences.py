"""Licences of texts: one form for each, and those under which a text is not read"""

from __future__ import annotations

import re
from typing import Literal

LicencePolicy = Literal["open", "stated", "reusable"]

CREATIVE_COMMONS = re.compile(r"creativecommons\.org/licenses/([a-z+-]+)/(\d\.\d)", re.IGNORECASE)
CC_CODE = re.compile(r"\bcc[\s_-]*(by(?:[\s_-]+(?:nc|nd|sa))*)(?:[\s_-]+v?(\d\.\d))?(?![a-z])", re.IGNORECASE)
CC_WORDS = re.compile(
    r"creative commons attribution((?:[\s-]+(?:noncommercial|non-commercial|noderivs|no-?derivatives|share-?alike))*)", re.IGNORECASE
)
WORD_CODES = (("non", "nc"), ("noderiv", "nd"), ("no-deriv", "nd"), ("share", "sa"))
PUBLIC_DOMAIN = re.compile(r"publicdomain/zero|\bcc[\s_-]?0\b|\bcc[\s_-]?zero\b", re.IGNORECASE)
IN_PUBLIC_DOMAIN = re.compile(r"publicdomain/mark|public[\s_-]?domain|\bpd\b", re.IGNORECASE)
ARXIV = re.compile(r"arxiv\.org/licenses/(nonexclusive-distrib|assumed-[\d-]+)", re.IGNORECASE)
FORBIDS = re.compile(
    r"all rights reserved|no (?:text (?:and|&|or) )?data[\s-]mining|tdm[\s-]reserv|\bclosed\b|no[\s-]?re-?use|subscription|paywall"
    r"|text[\s-]and[\s-]data[\s-]mining (?:is |are )?(?:reserved|prohibited|not permitted)|not (?:be )?(?:reused|downloaded|copied)",
    re.IGNORECASE,
)
MAX_CHARS = 120
"""Of a licence that is none of the known ones."""


def normal_licence(text: str) -> str:
    """`cc-by-4.0`, `cc-by-nc-nd`, `cc0`, `public-domain`, `arxiv-nonexclusive-distrib`, or the text itself, shortened, in lower case."""
    text = " ".join(text.split())
    if PUBLIC_DOMAIN.search(text):
        return "cc0"
    if match := CREATIVE_COMMONS.search(text):
        return f"cc-{match[1].lower()}-{match[2]}"
    if match := CC_CODE.search(text):
        code = "-".join(re.split(r"[\s_-]+", match[1].lower()))
        return f"cc-{code}-{match[2]}" if match[2] else f"cc-{code}"
    if match := CC_WORDS.search(text):
        rest = match[1].lower()
        return "-".join(["cc-by", *(code for word, code in WORD_CODES if word in rest.replace("non-commercial", "noncommercial"))])
    if match := ARXIV.search(text):
        return f"arxiv-{match[1].lower()}"
    if IN_PUBLIC_DOMAIN.search(text):
        return "public-domain"
    return text.lower()[:MAX_CHARS]


def is_reusable(licence: str) -> bool:
    """Whether a normalised licence is one of Creative Commons, or the text is in the public domain."""
    return licence.startswith(("cc-by", "cc0", "cc-nc", "cc-sa", "cc-nd")) or licence == "public-domain"


def explain_refusal(text: str, policy: LicencePolicy) -> str:
    """Why a text is not read under what a service or the text itself says of its licence; empty if it may be read."""
    licence = normal_licence(text)
    if not is_reusable(licence) and FORBIDS.search(text):
        return f"its licence forbids it: {licence}"
    if policy == "stated" and not licence:
        return "no licence is stated (enrich.full_text_licence)"
    if policy == "reusable" and not is_reusable(licence):
        return f"its licence is {licence or 'not stated'}, and only reusable texts are read (enrich.full_text_licence)"
    return ""
