"""Detection of the query language from the signs that others lack."""

from __future__ import annotations

import re

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import AMBIGUOUS_CODES, CODES, REFUSED_CODES, is_tag_name, parse_tag
from outrider.boolean.mesh_qualifiers import CURRENT
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.platforms import EMBASE, PLATFORMS

_QUOTED = re.compile(f"[{QUOTES}][^{QUOTES}\n]*[{QUOTES}]")
_TAG = re.compile(r"\[([^\[\]\n]*)\]")
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
_OWN = re.compile(r"\b(?:ADJ\d*|PRE\d+)\b")
"""Our own printed form."""
_LIMIT = re.compile(r"^.*\blimit\s+\d+\s+to\b.*$", re.MULTILINE | re.IGNORECASE)
_LABELS = {
    "PubMed": "pubmed", r"MEDLINE(?: ALL)? \(Ovid\)": "ovid", "Ovid(?: MEDLINE)?": "ovid", "Web of Science(?: Core Collection)?": "wos",
    "WoS": "wos", "Scopus": "scopus", r"Embase(?:\.com)?": "embase", "EBSCO(?:host)?": "ebsco", "CINAHL": "ebsco", "ProQuest": "proquest",
    "Cochrane(?: Library)?": "cochrane", "CENTRAL": "cochrane",
}  # fmt: skip
_LABEL = re.compile(rf"\s*(?:{'|'.join(f'({name})' for name in _LABELS)}|Search)\s*:\s*", re.IGNORECASE)
"""The last one is PubMed's label of any query; it has no group, since what follows may be of another platform."""

_HEADING_LINE = (
    r"Databases?(?:\(s\))?:.*|Search (?:Strategy|History)(?: Used)?:?[^\S\n]*|[-=_*]{3,}[^\S\n]*|#?[^\S\n]*Searches(?:\s+Results)?.*|"
    r"(?:Ovid )?(?:MEDLINE|EMBASE|PsycINFO)\b[^\n]*\b(?:19|20)\d\d\b.*"
)
_HEADINGS = re.compile(rf"(?:[^\S\n]*+(?:{_HEADING_LINE})?\n)+(?=[^\S\n]*[#(]?1\b)", re.IGNORECASE)
_CODE = "|".join(CODES)
_CLEAR_CODE = "|".join(sorted(CODES.keys() - AMBIGUOUS_CODES))
_CLEAR_OVID = re.compile(rf"\.(?:{_CLEAR_CODE})\.|\.(?:{_CODE})(?:,(?:{_CODE}))+\.|\bexp [A-Z][\w ,-]+/")
_SUFFIX = "|".join(sorted(EMBASE.fields))
_SUFFIXES = rf":\s?(?:{_SUFFIX})(?:\s*,\s*(?:{_SUFFIX}))*(?![\w.])"
"""Fields behind a term, as Embase and the Cochrane Library write them."""
_EBSCO_FIELDS = "(?:TI|AB|TX|SU|MH|MM|MJ|MW|DE|KW|SO|AU|XB|TP|PT|ZT|LA|ZY)"
_PROQUEST_FIELDS = "(?:ti|ab|su|if|noft)"
_SIGNS = {
    "ovid": (
        rf"\.(?:{_CODE})(?:,\s*(?:{_CODE}))*(?:\.|(?=[\s)]|$))",
        rf"(?<=\w)\.(?:{'|'.join(REFUSED_CODES)})\.(?=[\s)]|$)",
        r"\badj\d{0,3}\b",
        r"\b(?:or|and)/\d",
        r"\bexp\s+[^\s/]",
        r"[\w)]/(?=[\s)]|$)",
        rf"(?-i:\b[A-Z][a-z]{{2,}}[\w,-]*)/(?:{'|'.join(CURRENT)})(?:,\s?[a-z]{{2}})*(?=[\s)]|$)",
        r"\blimit\s\d+\sto\b",
    ),
    "wos": (
        r"(?<![\w./?&-])(?:TS|TI|AB|AU|AK|KP|SO|PY|DO|DI|IS|LA|DT|ALL|AD|OG|OO|CU|WC|SU|UT|PMID|FO|FPY|IY)\s?=",
        r"(?<![\w./?&-])(?:topic|title|abstract|all fields)\s?=",
        r"(?-i:\b(?:TOPIC|TITLE|LANGUAGE|AUTHOR|DOCUMENT TYPES?|YEAR PUBLISHED|PUBLICATION NAME):\s*\()",
    ),
    "scopus": (
        r"\b(?:TITLE-ABS-KEY(?:-AUTH)?|TITLE-ABS|ABS-KEY|AUTHKEY|INDEXTERMS|SRCTITLE|LIMIT-TO|DOCTYPE|SUBJAREA)\s*\(",
        r"\bAFFIL(?:ORG|COUNTRY|CITY)?\s*\(",
        r"\bPUBYEAR\s*(?:[<>=]|AFT\b|BEF\b|IS\b)",
        r"(?-i:\b(?:TITLE|ABS|KEY|AUTH)\s*\()",
        r"(?-i:\bALL\()",
        r"(?<=[\s)])W/\d",
    ),
    "embase": (
        r"['’\"”]\s*/\s*(?:exp|de|mj|syn|br|it)\b",
        r"[\w*]/exp\b",
        r"\]\s*/\s*(?:lim|py|sd)\b",
        rf"['’]\s?{_SUFFIXES}",
        r"\bNEXT/\d",
    ),
    "ebsco": (
        rf"(?-i:(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*{_EBSCO_FIELDS}(?:\s+(?!AND\b|OR\b|NOT\b|[NW]\d)[\w*\"“(]|[(\"“]))",
        r"(?-i:(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*(?!OR\b)[A-Z]{2}\s+[\"“])",
        r"(?-i:(?<=[)\"”*?#])\s+[NW]\d{1,2}\s)",
        r"(?-i:\s[NW]\d{1,2}\s+(?:[(\"“]|\w+[*?#]))",
        r"(?-i:(?:^|[\s(])S\d{1,3}\s+(?:AND|OR|NOT)\s)",
    ),
    "proquest": (
        rf"(?<![\w-])(?:ti|ab|tiab|noft|mainsubject)(?:\s*,\s*{_PROQUEST_FIELDS})*\s?\(",
        rf"(?-i:(?<![\w-])(?:su|diskw|pub|yr|dtype|au)(?:,{_PROQUEST_FIELDS})*\()",
        r"(?<![\w-])[A-Za-z]+\.EXACT(?:\.EXPLODE)?\s?\(",
        r"(?-i:(?<=[\s)])[NP]/\d)",
    ),
    "cochrane": (
        r"\bMeSH descriptor\b",
        r"\[\s*mh\s+[\^\"“\w]",
        r"\{\s*(?:and|or)\s+#\d",
        rf"[\"”]\s?{_SUFFIXES}",
        r"\(Word variations have been searched\)",
    ),
}
_SIGN = {key: re.compile("|".join(signs), re.MULTILINE | re.IGNORECASE) for key, signs in _SIGNS.items()}
_SHARED_SUFFIX = re.compile(rf"(?<=[\w*)]){_SUFFIXES}", re.IGNORECASE)
_COCHRANE_PROXIMITY = re.compile(r"\b(?:near|next)\b|\b(?:NEAR|NEXT)\b(?!/)")
_CLEAR = {
    "wos": re.compile(r"(?<![\w./?&-])(?:TS|TI|AB|AU|AK|SO|PY|ALL)=\s?[\w(\"“]|\b(?:TOPIC|TITLE|LANGUAGE|DOCUMENT TYPES?):\s*\("),
    "scopus": re.compile(r"\b(?:TITLE-ABS-KEY(?:-AUTH)?|TITLE-ABS|ABS-KEY|LIMIT-TO)\s*\(|\bPUBYEAR\s*[<>=]|(?<=[\s)])W/\d", re.IGNORECASE),
    "embase": re.compile(r"['’]\s*/\s*(?:exp|de|mj)\b|\w/exp\b|\]\s*/\s*lim\b|:(?:ti,ab|ab,ti)\b|\bNEXT/\d", re.IGNORECASE),
    "ebsco": re.compile(r"(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*(?:TI|AB|TX|SU|MH|MM)\s+[\"“(]"),
    "cochrane": re.compile(r"\bMeSH descriptor:?\s"),
    "proquest": re.compile(r"(?<![\w-])(?:noft|[A-Za-z]+\.EXACT(?:\.EXPLODE)?)\s?\(", re.IGNORECASE),
    "ovid": re.compile(
        rf"\.(?:ti,ab|ab,ti|tw|mp|(?:{_CLEAR_CODE})(?:,(?:{_CLEAR_CODE}))+)\.(?=[\s)]|$)|\badj\d\b|\bexp [A-Z][\w ,-]+/", re.MULTILINE
    ),
}
"""Signs that are no words of a PubMed query."""
_OWN_SIGNS = {
    "wos": re.compile(r"(?<![\w./?&-])TS=(?=\s?[\w(\"“])"),
    "scopus": re.compile(r"\bTITLE-ABS-KEY(?:-AUTH)?(?=\s*\()", re.IGNORECASE),
    "embase": re.compile(r"(?<=['’])\s*/(?:exp|de|mj)\b", re.IGNORECASE),
}
"""Signs that are no words of any other platform's query."""
_SORT_ORDER = re.compile(
    r"\bSort by:\s*(?:Most Recent|Best Match|Publication Date|PubDate|First Author|Author|Journal|Title|Relevance)"
    r"(?=[^\S\n]*(?:\t[^\S\n]*\d[\d,]*|\(\s*\d[\d,]*\s*\))?[^\S\n]*$)",
    re.MULTILINE | re.IGNORECASE,
)
_FILTERS = re.compile(r"(?-i:(?<=[\])\w\"*”])[^\S\n]+Filters:(?=\s))")
"""PubMed's history writes both behind a query: `Filters: Review, English Sort by: Most Recent`."""
_BEHIND = r"(?<=[\w)\"*”])\s+"
_FIELD_NAMES = (
    "title|abstract|title_abs|tiab|ti|ab|kw|keywords?|subject|mesh|authors?|au|auth|journal|pub_year|full_?text|site|"
    "(?:all)?in(?:title|text)"
)
_UNREAD = (
    (
        re.compile(rf"\b(?:NEAR|WITHIN|PRE)/\d+\b|{_BEHIND}[NPnp]/\d{{1,2}}(?=\s+[(\w\"“])|{_BEHIND}NEAR(?=\s+[\w(\"“])"),
        "platforms count its words differently; name the one that is meant (--syntax), or write its fields",
    ),
    (
        re.compile(rf"{_BEHIND}(?:NEXT|SAME|XOR|ANDNOT|AND-NOT|BUT\s+NOT)(?=\s+[(\"“*]*\w*[a-z])"),
        "no operator of PubMed; write AND, OR or NOT, name the platform that is meant (--syntax), or quote the phrase",
    ),
    (
        re.compile(rf"(?<![\w./:-])(?:{_FIELD_NAMES}):(?:(?=\w)|\s?(?=[(\"“]))|(?<![\w./:-])(?:{_FIELD_NAMES}|all)\((?=\S)", re.IGNORECASE),
        "a field before its term, as in Europe PMC or Lucene, is not read; write it behind the term, such as asthma[ti]",
    ),
    (
        re.compile(r"(?<![\w./?&-])(?:FT|KW|MH|subject|keywords?|mesh|fulltext)=\s?(?=[\w(\"“])", re.IGNORECASE),
        "a field before its term is not read here; write it behind the term, such as asthma[ti]",
    ),
    (re.compile(r"(?<=[\"”])~\d+"), "Lucene's proximity is not read; write it as [tiab:~3]"),
    (re.compile(r"\{[^\W\d_][^{}\n]*\}"), "an exact phrase of Scopus; write it in quotation marks, or name the platform (--syntax)"),
)
"""What is syntax on other platforms, but on several, or on none that is read; it might be words."""
_NUMBERS = re.compile(r"(?:[\s()]|\d{1,3}(?!\w)|\b(?:and|or|not)\b)+", re.IGNORECASE)
_PROXIMITY_OF_EBSCO = re.compile(r"(?<=\w)\s+(?P<operator>[NW]\d)\s+(?=\w)")


def detect_syntax(query: str) -> str:
    """The language of which a query has more of the signs that others lack; PubMed if none has any."""
    counts = count_signs(query)
    best = max(counts, key=lambda key: counts[key])
    return best if counts[best] > 0 else "pubmed"


def count_signs(query: str) -> dict[str, int]:
    """Signs by language; of equal counts the first one decides."""
    label = _LABEL.match(query)
    if label and label.lastindex:
        return {list(_LABELS.values())[label.lastindex - 1]: 1}
    plain = _QUOTED.sub('""', unquote(query))
    counts = {"pubmed": sum(parse_tag(match.group(1)) is not None for match in _TAG.finditer(plain))}
    unlimited = _LIMIT.sub(" ", plain)
    for key, pattern in _SIGN.items():
        counts[key] = sum(1 for _ in pattern.finditer(_TAG.sub(" ", plain) if key == "ovid" else unlimited))
    counts["ovid"] -= sum(1 for _ in _OWN.finditer(plain))
    # Embase and the Cochrane Library share these; their other signs decide
    shared = sum(1 for _ in _SHARED_SUFFIX.finditer(unlimited))
    counts["embase"] += shared
    counts["cochrane"] += shared + (1 if shared and _COCHRANE_PROXIMITY.search(unlimited) else 0)
    return counts


def blank_label(query: str) -> str:
    """The query with blanks for a label in front of it, such as `Web of Science:`."""
    label = _LABEL.match(query)
    return re.sub(r"[^\n]", " ", label.group()) + query[label.end() :] if label else query


def blank_sort_order(query: str) -> str:
    """A query of PubMed with blanks for the order of its results, which PubMed's history writes at the end of a line."""
    return _SORT_ORDER.sub(lambda match: " " * len(match.group()), query)


def blank_heading(query: str) -> str:
    """The query with blanks for the lines that Ovid prints above a history: its database, a rule, the heads of columns."""
    match = _HEADINGS.match(query)
    return re.sub(r"[^\n]", " ", match.group()) + query[match.end() :] if match else query


def unquote(query: str) -> str:
    """The query with blanks for quotation marks around the whole of it, if it has a platform's syntax inside them."""
    text = query.strip()
    inside = text[1:-1]
    is_whole = len(text) > 2 and text[0] in QUOTES and text[-1] in QUOTES and not any(char in QUOTES for char in inside)
    if is_whole and any(_SIGN[key].search(inside) for key in PLATFORMS):
        return query.replace(text, f" {inside} ", 1)
    return query


def refuse_mixed_platforms(query: str, syntax: str) -> None:
    """Raise `BooleanSyntaxError` for one platform's syntax in a query that is read as another's (not PubMed's)."""
    plain = _QUOTED.sub(lambda quoted: f'"{" " * (len(quoted.group()) - 2)}"', query)
    for key, pattern in _OWN_SIGNS.items():
        if key != syntax and (match := pattern.search(plain)):
            name = PLATFORMS[key].conventions.name
            other = PLATFORMS[syntax].conventions.name if syntax in PLATFORMS else "Ovid"
            sign = match.group().strip()
            problem = f"“{sign}” is syntax of {name}, and the rest of the query is read as {other}'s: use one syntax, or quote the term"
            raise BooleanSyntaxError(problem, query, match.end() - len(sign))


def refuse_foreign_syntax(query: str, *, is_named: bool) -> None:
    """Raise `BooleanSyntaxError` for another platform's syntax in a query that is read as PubMed's, where it would be words.

    `is_named` says that the caller named PubMed: what may be words of PubMed then is.
    """
    plain = _QUOTED.sub(lambda quoted: f'"{" " * (len(quoted.group()) - 2)}"', query)
    plain = _TAG.sub(lambda tag: " " * len(tag.group()), plain)
    for key, pattern in _CLEAR.items():
        if match := pattern.search(plain):
            sign, at = match.group().strip(), match.start() + len(match.group()) - len(match.group().lstrip())
            name = PLATFORMS[key].conventions.name if key in PLATFORMS else "Ovid"
            problem = f"“{sign}” is syntax of {name}, and the rest of the query is read as PubMed's: use one syntax, or quote the term"
            raise BooleanSyntaxError(problem, query, at)
    if match := _FILTERS.search(plain):
        problem = "filters that PubMed lists behind a query are not read; write them as conditions, such as AND english[la] AND review[pt]"
        raise BooleanSyntaxError(problem, query, match.end() - len("Filters:"))
    if is_named:
        return
    if _NUMBERS.fullmatch(query) and _OPERATOR.search(query.upper()):
        problem = "nothing but numbers: write the lines that they mean above, or quote them if they are words"
        raise BooleanSyntaxError(problem, query, len(query) - len(query.lstrip()), ["a term"])
    for pattern, problem in _UNREAD:
        if match := pattern.search(plain):
            sign = match.group().strip()
            raise BooleanSyntaxError(f"“{sign}”: {problem}", query, match.end() - len(match.group().lstrip()))
    if (match := _PROXIMITY_OF_EBSCO.search(plain)) and not _TAG.search(query):
        problem = (
            f"“{match['operator']}” between two words is EBSCOhost's proximity operator; name the syntax (--syntax), or quote the phrase"
        )
        raise BooleanSyntaxError(problem, query, match.start("operator"))


def uses_boolean_syntax(query: str) -> bool:
    """Whether a search by words alone would misread the query: it has operators, PubMed's field tags, or another platform's fields.

    Parentheses, quotes, `*` and `?` are no sign of it, since plain text contains them, too.
    """
    if _OPERATOR.search(query) or _CLEAR_OVID.search(query):
        return True
    if any(_CLEAR[key].search(query) for key in PLATFORMS):
        return True
    return any(is_tag_name(match[1].partition(":")[0]) for match in _TAG.finditer(query))
