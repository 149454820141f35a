"""Random queries and records: few words in many spellings, every operator and leaf."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from outrider.state.records import Document, Identifiers, Paper, Record
from support.boolean_oracle import MARKED, TAGS, Query

PLAIN_WORDS = [
    "heart", "Heart", "hearts", "heartbeat", "failure", "FAILURE", "the", "of", "and", "not", "naïve", "naive", "Straße",
    "strasse", "co-op",
    "post-mortem", "postmortem", "mortem", "β-lactam", "IL-2", "il2", "h2o", "x²", "2", "covid", "COVID-19", "東京大学", "京大",
    "œdema", "oedema",
    "μm", "vitamin", "A", "a", "tumor", "tumour", "tumours", "ﬁne", "fine", "O'Brien", "don’t", "Ångström", "KCa", "H2O",
]  # fmt: skip
WORDS = [
    *PLAIN_WORDS, "nai\u0308ve", "A\u030angstro\u0308m", "Fai\u00adlure", "heart\u200bbeat", "tumo\u200cur", "\ufeffheart", "mor\u2060tem",
    "H₂O", "K<sub>Ca</sub>",
]  # fmt: skip
"""Also decomposed, with markup, and with characters that nobody sees."""
TEXT_WORDS = [*WORDS, *MARKED]
"""Those of records also come with markup, entities and LaTeX."""
TRUNCATED = [
    "heart*",
    "hea*",
    "tumo{?}r",
    "tumo{?}r*",
    "tumor{#}",
    "wom{#}n",
    "post-mort*",
    "co-o*",
    "h*t",
    "fail{*2}",
    "*ure",
    "IL-*",
    "京*",
    "strass*",
    "a*",
    "nai\u0308v*",
    "K*",
]
GAPS = [" ", " ", " ", "  ", ", ", ". ", "-", "; ", " (", ") ", "/", "\n"]
KEYWORDS = ["heart failure", "Failure, Heart", "tumour", "vitamin A", "naïve", "drug safety"]
HEADINGS = ["Heart Failure", "Neoplasms", "Liver", "Vitamin A", "Heart"]
JOURNALS = ["The Lancet", "Lancet", "Journal of Cardiac Failure", "BMJ"]
KINDS = ["Review", "Randomized Controlled Trial", "Letter", "Systematic Review"]
LANGUAGES = {"en": ["english", "eng", "en"], "de": ["german", "ger"], "fr": ["French", "fre"]}
YEARS = range(1990, 2025)


def make_text(chance: random.Random, most: int, words: Sequence[str] = TEXT_WORDS) -> str:
    picked = [chance.choice(words) for _ in range(chance.randint(0, most))]
    return "".join(word + chance.choice(GAPS) for word in picked).strip()


def make_record(chance: random.Random, number: int, words: Sequence[str] = TEXT_WORDS) -> Record:
    common: dict[str, Any] = {
        "doc_id": f"d{number}",
        "title": make_text(chance, 5, words),
        "abstract": make_text(chance, 9, words) if chance.random() < 0.8 else "",
        "description": make_text(chance, 5, words) if chance.random() < 0.2 else "",
        "text": make_text(chance, 6, words) if chance.random() < 0.3 else "",
        "tags": tuple(chance.sample(KEYWORDS, chance.randint(0, 3))),
        "year": chance.choice(YEARS) if chance.random() < 0.9 else None,
        "venue": chance.choice(JOURNALS) if chance.random() < 0.7 else None,
        "language": chance.choice(list(LANGUAGES)) if chance.random() < 0.8 else None,
        "authors": tuple(chance.sample(["Smith, John A", "Ng, Mei", "O'Brien, Seán"], chance.randint(0, 2))),
        "identifiers": Identifiers(pmid=str(1000 + number), doi=f"10.1000/x{number}"),
        "metadata": {"publication_types": chance.sample(KINDS, chance.randint(0, 2))},
    }
    if chance.random() < 0.7:
        return Paper(**common, mesh=tuple(chance.sample(HEADINGS, chance.randint(0, 3))))
    return Document(**common)


def to_plain(record: Record) -> dict[str, list[str]]:
    """The record as the oracle reads it."""
    kinds = record.metadata["publication_types"]
    assert isinstance(kinds, list)
    return {
        "title": [record.title], "abstract": [record.abstract, record.description], "keywords": list(record.tags), "body": [record.text],
        "mesh": list(getattr(record, "mesh", ())), "author": list(record.authors), "journal": [record.venue or ""],
        "type": [str(kind) for kind in kinds], "language": [record.language or ""], "year": [str(record.year)] if record.year else [],
        "pmid": [record.identifiers.pmid or ""], "doi": [record.identifiers.doi or ""],
    }  # fmt: skip


def make_query(chance: random.Random, depth: int = 5) -> Query:
    """`("chain", ((None, operand), ("OR", operand), ...))`, `("not", operand)` or a leaf."""
    if depth == 0 or chance.random() < 0.55:
        return make_leaf(chance)
    if chance.random() < 0.1:
        return ("not", make_query(chance, depth - 1))
    operators = chance.choice([["AND"], ["OR"], ["OR", "AND", "NOT"], ["AND", "NOT"]])
    operands = tuple((chance.choice(operators), make_query(chance, depth - 1)) for _ in range(chance.choice([2, 2, 3, 4])))
    return ("chain", operands)


def make_leaf(chance: random.Random) -> Query:
    tag = chance.choice(list(TAGS))
    match chance.choices(["term", "phrase", "near", "adj", "years", "whole", "everything"], [40, 20, 10, 12, 8, 10, 1])[0]:
        case "term":
            return ("term", chance.choice(WORDS + TRUNCATED), tag)
        case "phrase":
            return ("term", " ".join(chance.choice(WORDS + TRUNCATED) for _ in range(2)), tag)
        case "near":
            return ("near", tuple(chance.choice(WORDS + TRUNCATED) for _ in range(chance.randint(2, 3))), chance.randint(0, 4), tag)
        case "adj":
            groups = tuple(
                tuple(" ".join(chance.choices(WORDS + TRUNCATED, k=chance.choice([1, 1, 2]))) for _ in range(chance.randint(1, 3)))
                for _ in range(2)
            )
            ordered = chance.random() < 0.3
            return ("adj", groups, 0 if ordered else chance.randint(0, 5), ordered, tag)
        case "years":
            first = chance.choice(YEARS)
            return ("years", first, first + chance.randint(0, 10))
        case "whole":
            field, values = chance.choice([("mesh", HEADINGS), ("journal", JOURNALS), ("type", KINDS)])
            return ("whole", field, chance.choice(values))
    return ("everything",)


WHOLE_TAGS = {"mesh": ["MeSH", "mh", "MeSH Terms", "mh:noexp"], "journal": ["ta", "jour", "Journal"], "type": ["pt", "Publication Type"]}
SPELLINGS = {
    "ti": ["ti", "Title", "TI"], "ab": ["ab", "Abstract"], "tiab": ["tiab", "Title/Abstract"], "tw": ["tw", "Text Word"],
    "ot": ["ot", "Other Term"],
    "body": ["Body"], "all": ["all", "All Fields"], "ti, ab": ["ti,ab", "Title, Abstract"],
}  # fmt: skip


def write_query(query: Query, chance: random.Random) -> str:
    """The query as PubMed's users write it: tags in any spelling, quotes straight or curly or left out,
    needless parentheses."""
    match query:
        case ("chain", operands):
            (_, first), *rest = operands
            text = _operand(first, chance)
            for operator, operand in rest:
                text += f" {chance.choice([operator, operator, operator.lower()])} {_operand(operand, chance)}"
            return text
        case ("not", part):
            return f"NOT {_operand(part, chance)}"
        case ("term", term, tag):
            return f"{_quote(term, chance)}[{chance.choice(SPELLINGS[tag])}]"
        case ("near", terms, between, tag):
            return f'"{" ".join(terms)}"[{chance.choice(SPELLINGS[tag])}:~{between}]'
        case ("adj", groups, between, ordered, tag):
            operator = "ADJ" if ordered else f"ADJ{between + 1}"
            sides = [" OR ".join(f'"{term}"' for term in group) for group in groups]
            return f"(({sides[0]}) {operator} ({sides[1]}))[{chance.choice(SPELLINGS[tag])}]"
        case ("years", first, last):
            return chance.choice([f"{first}:{last}[dp]", f'"{first}/01/01"[Date - Publication] : "{last}/12/31"[Date - Publication]'])
        case ("whole", field, value):
            return f'"{value}"[{chance.choice(WHOLE_TAGS[field])}]'
    return "all[sb]"


def _operand(query: Query, chance: random.Random) -> str:
    text = write_query(query, chance)
    return f"({text})" if query[0] in ("chain", "not") or chance.random() < 0.1 else text


def _quote(term: str, chance: random.Random) -> str:
    if chance.random() < 0.2 and not {"and", "not"} & set(term.lower().split()):
        return term
    opening, closing = chance.choice(['""', "“”", "““", '”"'])
    return f"{opening}{term}{closing}"
