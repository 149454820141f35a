"""MeSH qualifiers: NLM's names, two-letter codes, and former qualifiers.

Source: NLM, "MeSH Qualifiers with Scope Notes" and "Qualifiers by Allowable Category" (nlm.nih.gov/mesh/topsubscope.html,
nlm.nih.gov/mesh/2009/introduction/topcat.html). NLM removed eight of them between 2017 and 2019; older strategies and records have them.
"""

from __future__ import annotations

import re

from outrider.boolean.occurrences import WILD

CURRENT = {
    "ab": "abnormalities", "ad": "administration & dosage", "ae": "adverse effects", "ag": "agonists", "aa": "analogs & derivatives",
    "an": "analysis", "ah": "anatomy & histology", "ai": "antagonists & inhibitors", "bi": "biosynthesis", "bl": "blood",
    "bs": "blood supply", "cf": "cerebrospinal fluid", "cs": "chemical synthesis", "ci": "chemically induced", "ch": "chemistry",
    "cl": "classification", "co": "complications", "cn": "congenital", "cy": "cytology", "df": "deficiency", "di": "diagnosis",
    "dg": "diagnostic imaging", "dh": "diet therapy", "de": "drug effects", "dt": "drug therapy", "ec": "economics", "ed": "education",
    "em": "embryology", "en": "enzymology", "ep": "epidemiology", "es": "ethics", "eh": "ethnology", "et": "etiology", "ge": "genetics",
    "gd": "growth & development", "hi": "history", "im": "immunology", "in": "injuries", "ir": "innervation", "is": "instrumentation",
    "ip": "isolation & purification", "lj": "legislation & jurisprudence", "me": "metabolism", "mt": "methods", "mi": "microbiology",
    "mo": "mortality", "nu": "nursing", "og": "organization & administration", "ps": "parasitology", "py": "pathogenicity",
    "pa": "pathology", "pk": "pharmacokinetics", "pd": "pharmacology", "ph": "physiology", "pp": "physiopathology", "po": "poisoning",
    "pc": "prevention & control", "px": "psychology", "re": "radiation effects", "rt": "radiotherapy", "rh": "rehabilitation",
    "sc": "secondary", "st": "standards", "sn": "statistics & numerical data", "sd": "supply & distribution", "su": "surgery",
    "tu": "therapeutic use", "th": "therapy", "to": "toxicity", "tm": "transmission", "tr": "transplantation", "td": "trends",
    "ul": "ultrastructure", "ur": "urine", "ve": "veterinary", "vi": "virology",
}  # fmt: skip
FORMER = {
    "ct": ("contraindications", ""),
    "du": ("diagnostic use", ""),
    "ma": ("manpower", ""),
    "ra": ("radiography", "diagnostic imaging"),
    "ri": ("radionuclide imaging", "diagnostic imaging"),
    "se": ("secretion", "metabolism"),
    "us": ("ultrasonography", "diagnostic imaging"),
    "ut": ("utilization", "statistics & numerical data"),
}
"""Code: the former name, and the qualifier that NLM uses instead."""
QUALIFIERS = CURRENT | {code: name for code, (name, _) in FORMER.items()}
_ENTRY_TERMS = {"pathophysiology": "physiopathology", "aetiology": "etiology", "side effects": "adverse effects"}
_AND = re.compile(r"&|\band\b", re.IGNORECASE)
_SUCCESSORS = dict(FORMER.values())


def _normal(name: str) -> str:
    """In lower case without `and`, which the words of a term do not have as `&`."""
    return " ".join(_AND.sub(" ", name).split()).lower()


_NAMES = {_normal(name): name for name in QUALIFIERS.values()}
AMPERSAND_PAIRS = frozenset((words[0], words[2]) for name in _NAMES.values() if len(words := name.split()) > 2 and words[1] == "&")
"""The words around `&` in names of qualifiers."""


def find_qualifier(text: str) -> str | None:
    """The qualifier's name for a name or a two-letter code; a text with a wildcard stays, if it matches a name. None for any other."""
    name = _normal(text)
    if name in _NAMES:
        return _NAMES[name]
    if name in QUALIFIERS:
        return QUALIFIERS[name]
    if name in _ENTRY_TERMS:
        return _ENTRY_TERMS[name]
    if WILD.search(text):
        pattern = re.compile(".*".join(map(re.escape, WILD.split(name))))
        return text if any(pattern.fullmatch(known) for known in _NAMES) else None
    return None


def find_successor(name: str) -> str | None:
    """For a former qualifier the current one, or an empty text where there is none; None for a current qualifier."""
    return _SUCCESSORS.get(name)


def list_qualifiers() -> list[str]:
    """All names and codes, for suggestions."""
    return sorted({*_NAMES.values(), *QUALIFIERS})
