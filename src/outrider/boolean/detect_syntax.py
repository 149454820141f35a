"""Detection of the query language from the signs that others lack."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import AMBIGUOUS_CODES, CODES, REFUSED_CODES, is_tag_name, parse_tag
from outrider.boolean.field_values import CURRENT
from outrider.boolean.occurrences import QUOTES
from outrider.boolean.platforms import EBSCOHOST, EMBASE, PLATFORMS, PROQUEST, SCOPUS, SEARCH_SETTINGS, WEB_OF_SCIENCE

_QUOTED = re.compile(f"[{QUOTES}][^{QUOTES}\n]*[{QUOTES}]")
_TAG = re.compile(r"\[([^\[\]\n]*)\]")
_QUOTED_DATE = re.compile(f"[{QUOTES}]\\d{{4}}(?:/\\d{{1,2}}){{0,2}}[{QUOTES}]")
_DESCRIPTOR = re.compile(r"(\bMeSH descriptor\b:?\s*)\[[^\[\]\n]*\]", re.IGNORECASE)
_SINGLE_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)")
_BRACED = re.compile(r"\{(?!\s?(?:and|or)\s+#?\d)[^{}\n]*\}", re.IGNORECASE)
_SPACED_COMMENT = re.compile(r"(?:(?<=\s)|^)\[(?!\s?mh\s)[^\[\]]*\](?!\s?/)", re.MULTILINE)
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b")
_OWN = re.compile(r"\b(?:ADJ\d*|PRE\d+)\b")
"""Our own printed form."""
_LIMIT = re.compile(r"^.*\blimit\s+\d+\s+to\b.*$", re.MULTILINE | re.IGNORECASE)
_LIMIT_LINE = re.compile(r"^[^\S\n]*+(?:#?\d++[.)]?[^\S\n]++)?limit\s+\d+\s+to\b.*$", re.MULTILINE | re.IGNORECASE)
_LABELS = {
    "PubMed": "pubmed", r"MEDLINE(?: ALL)? \(Ovid\)": "ovid", "Ovid(?: MEDLINE)?": "ovid", "Web of Science(?: Core Collection)?": "wos",
    "WoS": "wos", "Scopus": "scopus", r"Embase(?:\.com)?": "embase", "EBSCO(?:host)?": "ebsco", "CINAHL": "ebsco", "ProQuest": "proquest",
    "Cochrane(?: Library)?": "cochrane", "CENTRAL": "cochrane",
}  # fmt: skip
_LABEL = re.compile(rf"\s*(?:{'|'.join(f'({name})' for name in _LABELS)}|Search)\s*:\s*", re.IGNORECASE)
"""The last one is PubMed's label of any query; it has no group, since what follows may be of another platform."""

_HEADING_LINE = (
    r"Databases?(?:\(s\))?:.*|Search (?:Strategy|History)(?: Used)?:?[^\S\n]*|[-=_*]{3,}[^\S\n]*|#?[^\S\n]*Searches(?:\s+Results)?.*|"
    r"(?:Ovid )?(?:MEDLINE|EMBASE|PsycINFO)\b[^\n]*\b(?:19|20)\d\d\b.*|(?:No\.?|#)[^\S\n]+Query[^\S\n]+Results(?:[^\S\n]+Date)?[^\S\n]*|"
    r"ID[^\S\n]+Search(?:[^\S\n]+Hits)?[^\S\n]*"
)
_COCHRANE_EXPORT = re.compile(r"\s*Search Name:(?:.*\n){0,30}?[^\S\n]*ID[^\S\n]+Search[^\S\n]+Hits[^\S\n]*\n(?=\s*#?\d)", re.IGNORECASE)
"""The name, date and comment above the history that the Cochrane Library exports."""
_REST_OF_HEADING = re.compile(
    r"^[^\S\n]*(?:Search Name:|Date Run:|ID[^\S\n]+Search[^\S\n]+Hits[^\S\n]*$|No\.?[^\S\n]+Query[^\S\n]+Results\b)",
    re.MULTILINE | re.IGNORECASE,
)
_LINE_WORD = re.compile(r"\s*(?P<word>Set|Line|Search|Query|Step|String|No\.|Nr\.)[^\S\n]+#?1[^\S\n]*[.:)–-]", re.IGNORECASE)
_VIEW = re.compile(r"\s(?P<view>View (?P<more>Less|More))\s*\Z", re.IGNORECASE)
"""The button behind a long query on Scopus's page."""
_HEADINGS = re.compile(rf"(?:[^\S\n]*+(?:{_HEADING_LINE})?\n)+(?=[^\S\n]*[#S(]?\d)", re.IGNORECASE)
_CODE = "|".join(CODES)
_CLEAR_CODE = "|".join(sorted(CODES.keys() - AMBIGUOUS_CODES))
_CLEAR_OVID = re.compile(rf"\.(?:{_CLEAR_CODE})\.|\.(?:{_CODE})(?:,(?:{_CODE}))+\.|\bexp [A-Z][\w ,-]+/")
_SUFFIX = "|".join(sorted(EMBASE.fields))
_SUFFIXES = rf":\s?(?:{_SUFFIX})(?:\s*,\s*(?:{_SUFFIX}))*(?![\w.])"
"""Fields behind a term, as Embase and the Cochrane Library write them."""
_LANGUAGE = "(?i:english|french|german|spanish|italian|portuguese|chinese|japanese|korean|russian|polish|turkish|dutch|arabic|persian)\\b"
_EBSCO_FIELDS = "(?:TI|AB|TX|SU|MH|MM|MJ|MW|DE|KW|SO|AU|XB|TP|PT|ZT|ZY)"
_PROQUEST_FIELDS = "(?:ti|ab|su|if|noft)"
_COCHRANE_LIMIT = (
    r"(?:#\d{1,4}|[)\]]|:[a-z,]+)[^\S\n]+(?:with[^\S\n]+(?:Publication Year (?:from|between) \d{4}|Cochrane Library publication date)\b"
    r"|(?-i:in (?:Trials|Cochrane Reviews?|Other Reviews)\b)|from \d{4} to \d{4}(?:,? in[^\S\n]|[^\S\n]*$))"
)
"""What the Cochrane Library writes at the end of a line."""
_SIGNS = {
    "ovid": (
        rf"\.(?:{_CODE})(?:,\s*(?:{_CODE}))*(?:\.|(?=[\s)]|$))",
        rf"(?<=\w)\.(?:{'|'.join(REFUSED_CODES)})\.(?=[\s)]|$)",
        r"\badj\d{0,3}\b",
        r"\b(?:or|and)/\d",
        r"(?<![\w/])exp\s+(?!and\b|or\b|not\b)[^\s/]",
        r"[\w)\"”]/(?=[\s)]|$)",
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
        r"(?-i:\bDOI\s*\(\s*[\"“{]?10\.\d)",
        r"(?<=[\s)])W/\d",
    ),
    "embase": (
        r"['’\"”]\s*/\s*(?:exp|de|mj|syn|br|it)\b",
        r"[\w*)]/exp\b",
        r"\]\s*/\s*(?:lim|py|sd)\b",
        rf"['’]\s?{_SUFFIXES}",
        r"\bNEXT/\d",
    ),
    "ebsco": (
        rf"(?-i:(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*{_EBSCO_FIELDS}(?:\s+(?!AND\b|OR\b|NOT\b|[NW]\d)[\w*\"“(]|[(\"“]))",
        r"(?-i:(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*(?!OR\b)[A-Z]{2}\s+[\"“])",
        rf"(?-i:(?:^|[(\n]|\b(?:AND|OR|NOT)\s)[^\S\n]*LA[^\S\n]*[(\s][\"“]?{_LANGUAGE})",
        r"(?-i:(?<=[)\"”*?#])\s+[NW]\d{1,2}\s)",
        r"(?-i:\s[NW]\d{1,2}\s+(?:[(\"“]|\w+[*?#]))",
        r"(?-i:(?:^|[\s(])S\d{1,3}\s+(?:AND|OR|NOT)\s)",
    ),
    "proquest": (
        rf"(?<![\w:-])(?:ti|ab|tiab|noft|mainsubject)(?:\s*,\s*{_PROQUEST_FIELDS})*\s?\(",
        rf"(?-i:(?<![\w-])(?:su|diskw|pub|yr|dtype|au)(?:,{_PROQUEST_FIELDS})*\()",
        r"(?<![\w-])[A-Za-z]+\.EXACT(?:\.EXPLODE)?\s?\(",
        r"(?-i:(?<=[\s)])[NP]/\d)",
        r"(?-i:(?<![\w-])doi\(\s*[\"“]?10\.\d)",
    ),
    "cochrane": (
        r"\bMeSH descriptor\b",
        r"\[\s*mh\s+[\^\"“\w]",
        r"\{\s*(?:and|or)\s+#\d",
        rf"[\"”]\s?{_SUFFIXES}",
        r"\(Word variations have been searched\)",
        _COCHRANE_LIMIT,
        r"^[^\S\n]*ID[^\S\n]+Search(?:[^\S\n]+Hits)?[^\S\n]*$",
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
_SORT_ORDER = re.compile(
    r"\bSort by:\s*(?:Most Recent|Best Match|Publication Date|PubDate|First Author|Author|Journal|Title|Relevance)"
    r"(?=[^\S\n]*(?:\t[^\S\n]*\d[\d,]*|\(\s*\d[\d,]*\s*\)|[^\S\n]\d[\d,]*[^\S\n]+\d{1,2}:\d\d:\d\d)?[^\S\n]*$)",
    re.MULTILINE | re.IGNORECASE,
)
_FILTERS = re.compile(r"(?-i:(?<=[\])\w\"*”])[^\S\n]+Filters:(?=\s))")
"""PubMed's history writes both behind a query: `Filters: Review, English Sort by: Most Recent`."""
_BEHIND = r"(?<=[\w)\"*”])\s+"
NAMES = {"pubmed": "PubMed", "ovid": "Ovid"} | {key: platform.conventions.name for key, platform in PLATFORMS.items()}
_WOS_CODES = {code for code in (*WEB_OF_SCIENCE.fields, *WEB_OF_SCIENCE.refused) if len(code) in (2, 3)} - {"ci", "or"}
"""Without `CI=`, which is also a confidence interval."""
_GAP = r"[^\S\n]"
"""A blank, but no end of a line: the next line is another query."""
_BEFORE = r"(?<![\w./?&,-])"
_BEHIND_TERM = r"(?<=[\w)\]*$\"”'’])"
_OVID_SINGLE = "ti|ab|tw|mp|kw|kf|sh|hw|pt|au|jn|jw|af|tx|nm|fs|xs|xm"
_EMBASE_ENDS = "ti|ab|kw|de|tt|tn|au|jt|ta|it|pt|la|py"
_START = r"(?:^[^\S\n]*+(?:[#S(]?\d{1,3}[.):]?[^\S\n]++)?|\(|\b(?i:AND|OR|NOT)\s)[^\S\n]*+"
"""Where an operand may begin."""
_LUCENE_FIELDS = (
    "title(?:_abs)?|abstract|abs|tiab|tw|mh|mj|db|cat|kw|keywords?|author|au|aut|journal|pub_?year|year(?:_published)?|descriptor|subject|src|"
    "open_access|(?:all)?in(?:title|text|url)|site|acmdl\\w+|contentgrouptitle|full_?text|mesh|ti|ab|all|la|de|yr|pub|doi|submitteddate"
)
_DIMENSIONS = "publications|grants|patents|clinical_trials|policy_documents|datasets|reports|researchers|organizations|source_titles"
_OTHERS = {
    "lucene": "another service (a field before its term, as in Europe PMC, arXiv, BVS, Lucene, ACM or IEEE)",
    "dimensions": "Dimensions",
}
"""Services whose queries are not read."""
_ANY_SUFFIX = rf"[^\S\n]?(?:{_SUFFIX}|kw|ky|ti|ab|so|au|pt)\b"
_OWNED = (
    ("wos", "field",
     rf"{_BEFORE}(?:TS|TI|AB|AU|AK|KP|SO|PY|DO|OG|OO|WC|UT|ALL|(?i:ts|ti|topic|title|abstract)){_GAP}?=(?={_GAP}?[\w(\"“*])"),
    ("wos", "field", r"\b(?:TOPIC|TITLE|LANGUAGE|AUTHOR|DOCUMENT TYPES?|YEAR PUBLISHED):[^\S\n]?\("),
    ("scopus", "field", rf"{_BEFORE}(?i:TITLE-ABS(?:-KEY(?:-AUTH)?)?|ABS-KEY|AUTHKEY|INDEXTERMS|SRCTITLE)[^\S\n]?(?=\()"),
    ("scopus", "field",
     rf"{_BEFORE}(?:(?:ABS|KEY|AUTH|AFFIL|SUBJAREA|DOCTYPE|LIMIT-TO){_GAP}?(?=\()|PUBYEAR{_GAP}?(?=[<>=]|AFT\b|BEF\b|IS\b))"),
    ("scopus proquest", "field", rf"{_BEFORE}(?:TITLE|ALL)[^\S\n]?(?=\()|{_BEFORE}(?:title|abstract)\((?=\S)"),
    ("proquest", "field", rf"(?<!:){_BEFORE}(?:ti|ab|tiab|noft|su|if|mainsubject)(?:,[^\S\n]?{_PROQUEST_FIELDS})*[^\S\n]?(?=\()"),
    ("proquest", "heading", rf"{_BEFORE}[A-Za-z]+\.EXACT(?:\.EXPLODE)?[^\S\n]?(?=\()"),
    ("embase", "heading",
     rf"(?<=['’\"”\w*)]){_GAP}?/{_GAP}?(?:exp|mj)\b(?![\w-])|(?<=['’]){_GAP}?/{_GAP}?de\b|(?<=\]){_GAP}?/{_GAP}?(?:lim|py|sd)\b"),
    ("embase cochrane", "field", rf"{_BEHIND_TERM}:[^\S\n]?(?:{_EMBASE_ENDS})(?:,[^\S\n]?(?:{_EMBASE_ENDS}))+(?![\w.])"),
    ("embase cochrane", "field", rf"{_BEHIND_TERM}:(?:{_EMBASE_ENDS})(?![\w.:])"),
    ("ebsco", "field", rf"{_START}(?P<field>T[IX](?=[^\S\n]+(?!AND\b|OR\b|NOT\b|[NW]\d)[\w*])|(?:TI|AB|TX|SU|MH|MM)(?=[^\S\n]+[\"“(]))"),
    ("ebsco", "field", rf"{_START}(?P<field>(?:{'|'.join(sorted({*EBSCOHOST.fields, *EBSCOHOST.refused}))})(?=\s*[\"“]))"),
    ("ebsco", "field", rf"{_START}(?P<field>(?:DE|MJ|MW|XB|KW|AU|PT|SO|JN)(?=[^\S\n]+\(\s*[\"“\w])|(?:PY|DT|YR)(?=[^\S\n]+\d{{4}}))"),
    ("ebsco", "field", rf"{_START}(?P<field>LA(?=[^\S\n]+\(\s*[\"“]?{_LANGUAGE}))"),
    ("wos", "field", rf"{_START}(?P<field>(?:{'|'.join(code.upper() for code in sorted(_WOS_CODES))})[^\S\n]?=(?=[^\S\n]?[\w(\"“*]))"),
    ("ebsco", "proximity", (r"(?<=[)*?#])\s(?P<operator>[NW]\d{1,2})(?=\s)"  # behind AND, and before a word alone, it is a stage of cancer
      r"|(?<=[\w)\"”*?#])(?<!(?i:\band))(?<!(?i:\bor))(?<!(?i:\bnot))\s(?P<operator_>[NW]\d{1,2})(?=[^\S\n]+[(\"“])")),
    ("cochrane", "heading", r"(?i:\bMeSH descriptor\b:?)|\[[^\S\n]?(?i:mh)[^\S\n]+(?=[\^\"“\w])"),
    ("cochrane", "limit", rf"(?i:{_COCHRANE_LIMIT})"),
    ("cochrane", "lines", r"\{[^\S\n]?(?i:and|or)[^\S\n]+#?\d[^{}\n]*\}"),
    ("ovid", "field", rf"{_BEHIND_TERM}\.(?i:(?:{_OVID_SINGLE})\.(?=[\s)]|$)|(?:{_CODE})(?:,{_GAP}?(?:{_CODE}))+(?:\.(?!\w)|(?=[\s)]|$)))"),
    ("ovid", "field", rf"{_BEHIND_TERM}\.(?i:tiab|title|abstract|mesh|m_titl)\.(?=[\s)]|$)"),
    ("ovid", "heading",
     (r"(?i:(?<![\w/'’])exp(?:lode)?[^\S\n]+\*?)(?!AND\b|OR\b|NOT\b|all\b|trees?\b)"
     r"[\"“\w][^\s/()\[\]=:]*(?:[^\S\n](?!AND\b|OR\b|NOT\b)[^\s/()\[\]=:]+){0,8}/")),
    ("ovid", "heading", r"(?<![\w/])[A-Z][a-z]{2,}/(?=[\s)]|$)"),
    ("ovid", "proximity", r"(?<=[\w)*$\"”])[^\S\n]+(?:adj\d{1,3}|Adj\d{1,3})(?=[^\S\n]+[(\"“\w])"),
    ("ovid", "lines", r"(?i:\blimit\s\d+\sto\b)"),
    ("scopus", "proximity", rf"{_BEHIND}W/\d{{1,3}}(?=[^\S\n]+[(\w\"“])"),
    ("proquest", "proximity", rf"{_BEHIND}[NP]/\d{{1,3}}(?=[^\S\n]+[(\w\"“])"),
    ("scopus proquest", "proximity", rf"{_BEHIND}PRE/\d{{1,3}}(?=[^\S\n]+[(\w\"“])"),
    ("wos embase proquest cochrane", "proximity", rf"{_BEHIND}(?:NEAR|near)/\d{{1,3}}(?=[^\S\n]+[(\w\"“'])"),
    ("embase cochrane", "proximity", rf"{_BEHIND}(?:NEXT|next)/\d{{1,3}}(?=[^\S\n]+[(\w\"“'])"),
    ("lucene", "field", rf"{_START}[+-]?(?P<field>(?i:{_LUCENE_FIELDS}):)(?!{_ANY_SUFFIX})(?=[\w\[\"“]|\()"),
    ("lucene", "field", rf"{_START}(?P<field>(?:ti|ab|tw|kw|au|all|tiab|[Tt]itle|[Aa]bstract):)(?!{_ANY_SUFFIX})(?={_GAP}[\w\"“])"),
    ("lucene", "field", rf"{_START}[+-]?(?P<field>[A-Za-z]+(?:[._][A-Za-z]+)+:)(?!{_ANY_SUFFIX})(?=\S)"),
    ("lucene", "field", rf"(?<=[\"”]):(?!{_ANY_SUFFIX}|[\"“]?\d)(?=[\w\"“(])"),
    ("lucene", "field", r"\[[^\S\n]?\[?[^\S\n]?(?:Title|Abstract|All|Keywords?|Author|Publication (?:Date|Title)):\s"),
    ("dimensions", "field", rf"\A\s*+(?P<field>search[^\S\n]+(?:{_DIMENSIONS})\s)(?=[^\n]*\breturn[^\S\n]+(?:{_DIMENSIONS})\b)"),
    ("cochrane", "proximity", rf"{_BEHIND}NEXT(?=[^\S\n]+(?:[(\"“']|\w*[a-z]))"),
)  # fmt: skip


def _make_call_signs() -> Iterator[tuple[str, str, str]]:
    """Codes before a parenthesis, such as `LA(english)`, by the platforms that have them."""
    owners: dict[str, list[str]] = {}
    for code in sorted({*SCOPUS.fields, *SCOPUS.refused, *PROQUEST.fields, *PROQUEST.refused}):
        for spelling in (code, code.upper()):
            having = [one.key for one in (SCOPUS, EBSCOHOST, PROQUEST) if {spelling, spelling.lower()} & {*one.fields, *one.refused}]
            owners.setdefault(" ".join(having), []).append(re.escape(spelling))
    for keys, spellings in owners.items():
        # one or two characters in parentheses are an index, and so is a Roman numeral: CO(2), AT(III)
        yield keys, "field", rf"{_START}(?P<field>(?:{'|'.join(spellings)})(?=\(\s*(?!(?i:[ivx]+)\s*\))(?:[\"“]|[^\W\d]{{3}}|\d{{4}})))"


_OWNED_SIGNS = tuple(
    (frozenset(keys.split()), kind, re.compile(pattern, re.MULTILINE)) for keys, kind, pattern in (*_OWNED, *_make_call_signs())
)
"""The platforms that have a sign, which is no word of any other platform's query."""
_MAY_BE_WORDS = re.compile(r"(?i:PRE|NEAR|NEXT|N|P)\b|(?!(?:ti|ab|tiab|noft|su|if|mainsubject)\b)[a-z]+\(|[\w.]+:")
_WRITES = {
    "pubmed": {"limit": "2010:2020[dp]", "field": "pain[tiab]", "heading": "Pain[mh]", "proximity": '"back pain"[tiab:~3]'},
    "ovid": {"limit": "limit 1 to yr=2010-2020", "field": "pain.ti,ab.", "heading": "exp Pain/", "proximity": "adj4", "lines": "or/1-3"},
    "wos": {"limit": "PY=2010-2020", "field": "TS=(pain)", "proximity": "NEAR/3"},
    "scopus": {"limit": "PUBYEAR > 2009", "field": "TITLE-ABS-KEY(pain)", "heading": "INDEXTERMS(pain)", "proximity": "W/3"},
    "embase": {"limit": "[2010-2020]/py", "field": "pain:ti,ab", "heading": "'pain'/exp", "proximity": "NEAR/4"},
    "ebsco": {"limit": "DT 2010-2020", "field": "TI pain", "heading": 'MH "Pain+"', "proximity": "N3 (W3 in this order)"},
    "proquest": {"limit": "yr(2010-2020)", "field": "ti,ab(pain)", "heading": 'MAINSUBJECT.EXACT("Pain")', "proximity": "NEAR/3"},
    "cochrane": {"field": "pain:ti,ab,kw", "heading": "[mh pain]", "proximity": "NEAR/4", "lines": "{OR #1-#3}"},
}
"""How each platform writes what another one writes differently."""
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
_MINUS = re.compile(r"(?<=[\s)\"”])(?P<sign>-)(?=[^\W\d]{2}|[\"“(])|\s[+|]\s[^\n]{0,400}\s(?P<sign_>-)\s")
_UNKNOWN_FIELD = re.compile(rf"{_START}(?P<sign>[A-Za-z_]{{2,}}:)(?=[A-Za-z]{{2}})(?![A-Za-z]+\s+ratios?\b)", re.MULTILINE)
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
    counts = {"pubmed": sum(parse_tag(match.group(1)) is not None for match in _TAG.finditer(_DESCRIPTOR.sub(" ", plain)))}
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
    """The query with blanks for the lines that platforms print above a history: a name, a database, a rule, the heads of columns.

    Raises `BooleanSyntaxError` for such a line elsewhere.
    """
    match = _COCHRANE_EXPORT.match(query) or _HEADINGS.match(query)
    text = re.sub(r"[^\n]", " ", match.group()) + query[match.end() :] if match else query
    if rest := _REST_OF_HEADING.search(text):
        raise BooleanSyntaxError("this line of a platform's export is no part of the query; delete it", query, rest.start())
    return text


def blank_line_words(query: str) -> str:
    """A history whose lines are called `Set 1:`, `Set 2:` with blanks for that word, where it stands before a number."""
    match = _LINE_WORD.match(query)
    if match is None:
        return query
    word = re.escape(match["word"])
    if not re.search(rf"^[^\S\n]*{word}[^\S\n]+#?2[^\S\n]*[.:)–-]", query, re.MULTILINE | re.IGNORECASE):
        return query
    before_number = re.compile(rf"{_QUOTED.pattern}|\b{word}s?(?=[^\S\n]+#?\d{{1,3}}(?!\w))", re.IGNORECASE)
    return before_number.sub(lambda one: one.group() if one.group()[0] in QUOTES else " " * len(one.group()), query)


def blank_button(query: str) -> str:
    """A query of Scopus with blanks for `View Less` behind it. Raises `BooleanSyntaxError` for `View More`: the query was cut."""
    match = _VIEW.search(query)
    if match is None:
        return query
    if match["more"].lower() == "more":
        raise BooleanSyntaxError("“View More” shows that Scopus cut the query; copy the whole of it", query, match.start("view"))
    return query[: match.start()] + " " * (len(query) - match.start())


def unquote(query: str) -> str:
    """The query with blanks for quotation marks around the whole of it, if it has a platform's syntax inside them."""
    text = query.strip()
    inside = text[1:-1]
    is_whole = len(text) > 2 and text[0] in QUOTES and text[-1] in QUOTES and not any(char in QUOTES for char in inside)
    if is_whole and any(_SIGN[key].search(inside) for key in PLATFORMS):
        return query.replace(text, f" {inside} ", 1)
    return query


def refuse_mixed_platforms(query: str, syntax: str, *, is_named: bool = True) -> None:
    """Raise `BooleanSyntaxError` for the first piece of another platform's syntax in a query that is read as `syntax`.

    `is_named` says that the caller named the platform: operators that may be words of PubMed then are.
    """
    plain = _blank_phrases(query, syntax)
    signs = [(*_sign_span(match), keys, kind) for keys, kind, match in _find_owned(plain) if syntax not in keys]
    if syntax != "pubmed":
        tags = (tag for tag in _TAG.finditer(plain) if is_tag_name(tag[1].partition(":")[0]))
        signs += [(*tag.span(), frozenset(["pubmed"]), "field") for tag in tags]
    elif is_named:
        signs = [sign for sign in signs if not _MAY_BE_WORDS.match(plain, sign[0])]
    if not signs:
        return
    start, end, keys, kind = min(signs, key=lambda sign: sign[:2])
    *others, last = [name for key, name in (NAMES | _OTHERS).items() if key in keys]
    owners = f"{', '.join(others)} and {last}" if others else last
    fix = f"{NAMES[syntax]} writes {_WRITES[syntax].get(kind) or _WRITES[syntax]['field']}"
    hint = "" if is_named else ", name the platform that is meant (--syntax)"
    problem = (
        f"“{query[start:end].strip()}” is syntax of {owners}, and the rest of the query is read as {NAMES[syntax]}'s: "
        f"use one syntax ({fix}){hint}, or quote the term"
    )
    raise BooleanSyntaxError(problem, query, start)


def _find_owned(plain: str) -> Iterator[tuple[frozenset[str], str, re.Match[str]]]:
    for keys, kind, pattern in _OWNED_SIGNS:
        if match := pattern.search(plain):
            yield keys, kind, match


def _sign_span(match: re.Match[str]) -> tuple[int, int]:
    """The sign without what must stand before it."""
    name = next((name for name, text in match.groupdict().items() if text), 0)
    text = match.group(name)
    return match.start(name) + len(text) - len(text.lstrip()), match.end(name)


def _blank_phrases(query: str, syntax: str) -> str:
    """The query with blanks for what stands inside phrases of the platform, and for Ovid's comments and limits."""
    plain = _QUOTED.sub(
        lambda quoted: quoted.group() if _QUOTED_DATE.fullmatch(quoted.group()) else f'"{" " * (len(quoted.group()) - 2)}"', query
    )
    if syntax == "cochrane":
        plain = _DESCRIPTOR.sub(lambda line: line[1] + " " * (len(line.group()) - len(line[1])), plain)
    if syntax == "embase":
        plain = _SINGLE_QUOTED.sub(lambda quoted: f"'{' ' * (len(quoted.group()) - 2)}'", plain)
    if syntax in ("scopus", "proquest"):
        plain = _BRACED.sub(lambda braced: " " * len(braced.group()), plain)
    if syntax == "pubmed":
        plain = _TAG.sub(lambda tag: " " * len(tag.group()) if parse_tag(tag[1]) is not None else tag.group(), plain)
    if syntax == "ovid":
        plain = _SPACED_COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment.group()), plain)
        plain = _LIMIT_LINE.sub(lambda limit: " " * len(limit.group()), plain)
    return plain


def refuse_foreign_syntax(query: str, *, is_named: bool) -> None:
    """Raise `BooleanSyntaxError` for another platform's syntax in a query that is read as PubMed's, where it would be words.

    `is_named` says that the caller named PubMed: what may be words of PubMed then is.
    """
    plain = _QUOTED.sub(lambda quoted: f'"{" " * (len(quoted.group()) - 2)}"', query)
    plain = _TAG.sub(lambda tag: " " * len(tag.group()), plain)
    if match := _FILTERS.search(plain):
        problem = "filters that PubMed lists behind a query are not read; write them as conditions, such as AND english[la] AND review[pt]"
        raise BooleanSyntaxError(problem, query, match.end() - len("Filters:"))
    if match := SEARCH_SETTINGS.search(plain):
        problem = "limits of the search's page are no terms; leave them out, or write them as conditions, such as AND english[la]"
        raise BooleanSyntaxError(f"“{match.group()}”: {problem}", query, match.start())
    if is_named:
        return
    if _NUMBERS.fullmatch(query) and _OPERATOR.search(query.upper()):
        problem = "nothing but numbers: write the lines that they mean above, or quote them if they are words"
        raise BooleanSyntaxError(problem, query, len(query) - len(query.lstrip()), ["a term"])
    for pattern, problem in _UNREAD:
        if match := pattern.search(plain):
            sign = match.group().strip()
            raise BooleanSyntaxError(f"“{sign}”: {problem}", query, match.end() - len(match.group().lstrip()))
    if _TAG.search(query):
        return
    if match := _MINUS.search(plain):
        problem = (
            "“-” before a term excludes it on Google Scholar and Semantic Scholar; in PubMed it does not: write NOT, or quote the term"
        )
        raise BooleanSyntaxError(problem, query, match.start("sign" if match["sign"] else "sign_"))
    if match := _UNKNOWN_FIELD.search(plain):
        problem = f"“{match['sign']}” may be a field before its term, which is not read; write asthma[ti], or quote the term"
        raise BooleanSyntaxError(problem, query, match.start("sign"))
    if match := _PROXIMITY_OF_EBSCO.search(plain):
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
