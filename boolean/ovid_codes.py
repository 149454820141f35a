"""Ovid MEDLINE's field codes and MeSH qualifiers, by their two letters.

Ovid MEDLINE Database Guide (ospguides.ovid.com/OSPguides/medline.htm), "Fields"; qualifiers: NLM, "MeSH Qualifiers with Scope Notes".
"""

from __future__ import annotations

from outrider.boolean.pubmed_tags import Tag
from outrider.state.boolean import Field

_TITLE_ABSTRACT = (Field.TITLE, Field.ABSTRACT)
MULTI_PURPOSE = Tag("text", (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH))
"""`.mp.`: what of Ovid's list a library has."""
EXPLODED, SUBJECT = Tag("heading"), Tag("heading", explode=False)

CODES: dict[str, Tag] = {
    "ti": Tag("text", (Field.TITLE,)),
    "ab": Tag("text", (Field.ABSTRACT,)),
    "tw": Tag("text", _TITLE_ABSTRACT),
    "kw": Tag("text", (Field.KEYWORDS,)),
    "kf": Tag("text", (Field.KEYWORDS,)),
    "mp": MULTI_PURPOSE,
    "af": Tag("text", (Field.ALL,)),
    "tx": Tag("text", (Field.BODY,)),
    "hw": Tag("text", (Field.MESH,)),
    "sh": SUBJECT,
    "xs": EXPLODED,
    "fs": Tag("qualifier"),
    "xm": EXPLODED,
    "nm": Tag("text", (Field.SUBSTANCE,)),
    "rn": Tag("text", (Field.SUBSTANCE,)),
    "pt": Tag("text", (Field.PUBLICATION_TYPE,)),
    "au": Tag("text", (Field.AUTHOR,)),
    "jn": Tag("text", (Field.JOURNAL,)),
    "jw": Tag("text", (Field.JOURNAL_WORDS,)),
    "ja": Tag("text", (Field.JOURNAL,)),
    "is": Tag("text", (Field.JOURNAL,)),
    "la": Tag("text", (Field.LANGUAGE,)),
    "lg": Tag("text", (Field.LANGUAGE,)),
    "ui": Tag("text", (Field.PMID,)),
    "an": Tag("text", (Field.PMID,)),
    "do": Tag("text", (Field.DOI,)),
    "vo": Tag("text", (Field.VOLUME,)),
    "ip": Tag("text", (Field.ISSUE,)),
    "pg": Tag("text", (Field.PAGES,)),
    "in": Tag("text", (Field.AFFILIATION,)),
    "ot": Tag("text", (Field.ORIGINAL_TITLE,)),
    "sb": Tag("text", (Field.SUBSET,)),
    "no": Tag("text", (Field.GRANT,)),
    "yr": Tag("dates"),
    "dp": Tag("dates"),
    "ed": Tag("entry"),
    "dt": Tag("entry"),
    "da": Tag("entry"),
    "ep": Tag("entry"),
    "ez": Tag("entry"),
}

AMBIGUOUS_CODES = frozenset({"an", "da", "do", "ed", "ep", "in", "ip", "is", "la", "no", "pg", "ui"})
"""Codes that also stand between full stops in plain text, as words, abbreviations or parts of addresses ("cat.no. 5")."""

QUALIFIERS = {
    "ab": "abnormalities", "ad": "administration & dosage", "ae": "adverse effects", "ag": "agonists", "aa": "analogs & derivatives",
    "an": "analysis", "ah": "anatomy & histology", "ai": "antagonists & inhibitors", "bi": "biosynthesis", "bs": "blood supply",
    "bl": "blood", "cf": "cerebrospinal fluid", "cs": "chemical synthesis", "ci": "chemically induced", "ch": "chemistry",
    "cl": "classification", "co": "complications", "cn": "congenital", "cy": "cytology", "df": "deficiency", "dg": "diagnostic imaging",
    "di": "diagnosis", "dh": "diet therapy", "de": "drug effects", "dt": "drug therapy", "ec": "economics", "ed": "education",
    "em": "embryology", "en": "enzymology", "ep": "epidemiology", "es": "ethics", "eh": "ethnology", "et": "etiology", "ge": "genetics",
    "gd": "growth & development", "hi": "history", "im": "immunology", "in": "injuries", "ir": "innervation", "is": "instrumentation",
    "ip": "isolation & purification", "lj": "legislation & jurisprudence", "ma": "manpower", "me": "metabolism", "mt": "methods",
    "mi": "microbiology", "mo": "mortality", "nu": "nursing", "og": "organization & administration", "ps": "parasitology",
    "py": "pathogenicity", "pa": "pathology", "pk": "pharmacokinetics", "pd": "pharmacology", "ph": "physiology", "pp": "physiopathology",
    "po": "poisoning", "pc": "prevention & control", "px": "psychology", "ra": "radiation effects", "re": "radiotherapy",
    "rt": "radiotherapy", "rh": "rehabilitation", "sc": "secondary", "st": "standards", "sn": "statistics & numerical data",
    "sd": "supply & distribution", "su": "surgery", "tu": "therapeutic use", "th": "therapy", "to": "toxicity", "tm": "transmission",
    "tr": "transplantation", "td": "trends", "ul": "ultrastructure", "ur": "urine", "us": "diagnostic imaging", "ut": "utilization",
    "ve": "veterinary", "vi": "virology",
}  # fmt: skip
