"""Terms in a form that only one platform has: headings, limits, years, lists of lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import Tag, sort_fields
from outrider.boolean.field_values import OPEN_END, OPEN_START, convert_hyphen_range, date_node, find_qualifier, list_qualifiers
from outrider.boolean.filters_and_limits import GROUPS, PUBLICATION_TYPES, compact
from outrider.boolean.history import History
from outrider.boolean.occurrences import split_term
from outrider.boolean.platforms import ANOTHER_THESAURUS, Platform
from outrider.state.boolean import Field, Heading, Node, Not, Or, Span, Text, Words
from outrider.state.errors import did_you_mean
from outrider.text.languages_and_work_types import normal_language


@dataclass(slots=True)
class Context:
    """What a term is read in: one line of a query, up to `end`."""

    text: str
    findings: Findings
    history: History
    platform: Platform
    end: int

    def refuse(self, problem: str, at: int, expected: tuple[str, ...] = ()) -> BooleanSyntaxError:
        return BooleanSyntaxError(f"{self.platform.conventions.name}: {problem}", self.text, at, expected)

    def approximate(self, note: str, at: Span) -> None:
        self.findings.add("approximated", f"{self.platform.conventions.name}: {note}", at)

    def merge(self, tags: Iterable[Tag]) -> tuple[Tag, ...]:
        """Text fields as one tag, each other tag by itself."""
        unique = list(dict.fromkeys(tags))
        fields = sort_fields(field for tag in unique if tag.kind == "text" for field in tag.fields)
        return (*((Tag("text", fields),) if fields else ()), *(tag for tag in unique if tag.kind != "text"))

    def make_headings(self, name: str, qualifiers: Iterable[str], at: Span, *, explode: bool, major: bool = False) -> Node:
        words = " ".join(split_term(name))
        if not words:
            raise self.refuse("a heading without a letter or digit", at.start)
        nodes = tuple(Heading(words, qualifier, explode, major, at) for qualifier in qualifiers) or (
            Heading(words, "", explode, major, at),
        )
        return nodes[0] if len(nodes) == 1 else Or(nodes, at)

    def make_limit(self, value: str, at: Span) -> Node:
        """The condition of a language, check tag, age group or publication type. Raises `BooleanSyntaxError` for another limit."""
        name = " ".join(value.lower().split())
        if len(name) > 2 and normal_language(name) and (len(name) > 3 or name.isalpha()):
            return Text(Words((name,), at), (Field.LANGUAGE,), at)
        group = GROUPS.get(compact(name))
        kind = _TYPES.get(compact(name))
        if group and not kind:
            placed = tuple(replace(leaf, at=at) for leaf in group)
            return placed[0] if len(placed) == 1 else Or(placed, at)
        if kind:
            return self.make_types(kind, at)
        raise self.refuse(f"the limit “{value}” is not supported; leave it out, or write it as a term", at.start)

    def make_types(self, kind: str, at: Span) -> Node:
        """The publication types, separated by `|`."""
        nodes = tuple(Text(Words(tuple(name.split()), at), (Field.PUBLICATION_TYPE,), at) for name in kind.split("|"))
        return nodes[0] if len(nodes) == 1 else Or(nodes, at)

    def make_years(self, value: str, at: Span) -> Node:
        return date_node(convert_hyphen_range(value), False, self.text, at)


_TYPES = {compact(name): name for name in PUBLICATION_TYPES} | {
    "article": "journal article|article", "articleinpress": "article in press", "conferencepaper": "conference paper",
    "conferenceabstract": "conference abstract|meeting abstract", "conferencereview": "conference review", "note": "note",
    "shortsurvey": "short survey", "erratum": "published erratum|erratum", "book": "book", "chapter": "chapter|book chapter",
    "cochranereview": "systematic review", "metaanalysis": "meta-analysis",
}  # fmt: skip
_DOCUMENT_TYPES = {
    "ar": "article", "re": "review", "cp": "conferencepaper", "cr": "conferencereview", "le": "letter", "ed": "editorial", "no": "note",
    "sh": "shortsurvey", "er": "erratum", "bk": "book", "ch": "chapter",
}  # fmt: skip
_EMTREE_LINKS = {
    "dm_co": "complications", "dm_cn": "congenital", "dm_di": "diagnosis", "dm_dt": "drug therapy", "dm_ep": "epidemiology",
    "dm_et": "etiology", "dm_pc": "prevention & control", "dm_rt": "radiotherapy", "dm_rh": "rehabilitation", "dm_si": "adverse effects",
    "dm_su": "surgery", "dm_th": "therapy", "dd_ae": "adverse effects", "dd_ad": "administration & dosage", "dd_an": "analysis",
    "dd_do": "administration & dosage", "dd_dt": "therapeutic use", "dd_pe": "economics", "dd_pk": "pharmacokinetics",
    "dd_pd": "pharmacology", "dd_to": "toxicity",
}  # fmt: skip
"""Emtree's disease and drug links, and the MeSH qualifiers nearest to them."""
MAPPED = "the term is searched as an Emtree heading only; Embase also maps it and searches it as text"


def _make_emtree(match: re.Match[str], context: Context, at: Span) -> Node:
    name = match["quoted"] or match["double"] or match["word"]
    parts = [part.strip().lower() for part in re.split("[/,]", match["parts"].strip("/ "))]
    if parts in (["it"], ["de", "it"]):
        return context.make_limit(name, at)
    if "lnk" in parts:
        raise context.refuse("links without a heading (/lnk) are not read; write the heading with its link", at.start)
    links = [part for part in parts if "_" in part]
    unknown = [link for link in links if link not in _EMTREE_LINKS]
    if unknown:
        raise context.refuse(f"no MeSH qualifier comes near the Emtree link “{unknown[0]}”; leave it out", at.start)
    context.approximate(ANOTHER_THESAURUS, at)
    if "syn" in parts or "br" in parts:
        context.approximate(MAPPED, at)
    explode = "exp" in parts or "br" in parts
    return context.make_headings(name, [_EMTREE_LINKS[link] for link in links], at, explode=explode, major="mj" in parts)


def _make_embase_limit(match: re.Match[str], context: Context, at: Span) -> Node:
    value, kind = match["value"].strip(), match["kind"].lower()
    if kind in ("py", "yr"):
        return context.make_years(value, at)
    if kind in ("sd", "pd"):
        dates = re.sub(r"\s*-\s*", ":", re.sub(r"(\d{1,2})-(\d{1,2})-(\d{4})", r"\3/\2/\1", value))
        if kind == "sd" and ":" not in dates:  # added since
            dates = f"{dates}:{OPEN_END}"
        return date_node(dates, kind == "sd", context.text, at)
    if compact(value) in ("embase", "medline", "embaseclassic", "conferenceabstracts", "pubmednotmedline"):
        raise context.refuse(f"“[{value}]/lim” limits to a database, which records do not tell; leave it out", at.start)
    context.approximate("limits are compared with a record's language, headings and publication types", at)
    return context.make_limit(value, at)


def _make_year(match: re.Match[str], context: Context, at: Span) -> Node:
    """`PUBYEAR > 2010`, `PUBYEAR AFT 2010`, `PUBYEAR = 2010`."""
    sign, year = match["sign"].upper(), int(match["year"])
    first = {">": year + 1, "AFT": year + 1, ">=": year, "=": year, "IS": year}.get(sign)
    last = {"<": year - 1, "BEF": year - 1, "<=": year, "=": year, "IS": year}.get(sign)
    return date_node(f"{first or OPEN_START}:{last or OPEN_END}" if first != last else str(year), False, context.text, at)


def _make_scopus_limit(match: re.Match[str], context: Context, at: Span) -> Node:
    """`LIMIT-TO ( LANGUAGE , "English" )`, `EXCLUDE ( DOCTYPE , "re" )`."""
    name, value = match["name"].upper(), match["value"].strip('"“” ')
    is_excluded = match["kind"].upper() == "EXCLUDE"
    if is_excluded and match["or"] is not None:
        raise context.refuse("EXCLUDE(...) OR EXCLUDE(...) excludes both; write AND NOT (DOCTYPE(...) OR DOCTYPE(...))", at.start)
    if name == "PUBYEAR":
        node = context.make_years(value, at)
    elif name == "LANGUAGE":
        node = Text(Words(tuple(split_term(value)), at), (Field.LANGUAGE,), at)
    elif name == "DOCTYPE":
        node = _make_document_type(value, context, at)
    else:
        raise context.refuse(f"{match['kind']}({name}, ...) limits by what records do not tell; leave it out", at.start)
    return Not(node, at) if is_excluded else node


def _make_document_type(value: str, context: Context, at: Span) -> Node:
    kind = _TYPES.get(_DOCUMENT_TYPES.get(value.lower(), compact(value)))
    if kind is None:
        raise context.refuse(f"the type of document “{value}” is not known", at.start, ("ar", "re", "cp", "le", "ed", "no"))
    context.approximate("types of documents are compared with a record's publication types", at)
    return context.make_types(kind, at)


def _make_cochrane_heading(match: re.Match[str], context: Context, at: Span) -> Node:
    """`MeSH descriptor: [Asthma] explode all trees and with qualifier(s): [drug therapy - DT]`, `[mh ^Asthma/DT]`."""
    groups = match.groupdict()
    if groups.get("bracketed") is not None or groups.get("plain") is not None:
        name, rest = groups.get("bracketed") or groups["plain"] or "", match["rest"] or ""
        explode = "explode" in rest.lower()
        codes = [code.rpartition(" - ")[2] for code in re.split(r",\s*|\]\s*\[", groups.get("qualifiers") or "") if code.strip()]
        major = False
    else:
        name = groups["quoted"] or groups["bare"] or ""
        explode, major = not groups["only"], bool(groups["major"])
        codes = [code for code in (groups["codes"] or "").split(",") if code.strip()]
    return context.make_headings(name, [_name_qualifier(code.strip(), context, at) for code in codes], at, explode=explode, major=major)


def _name_qualifier(code: str, context: Context, at: Span) -> str:
    name = find_qualifier(code)
    if name is None:
        raise context.refuse(f"“{code}” is no MeSH qualifier{did_you_mean(code.lower(), list_qualifiers())}", at.start)
    return name


def _join_cochrane_lines(match: re.Match[str], context: Context, at: Span) -> Node:
    return context.history.join(match["sets"], match["operator"], at)


def find_cochrane_limit(context: Context, start: int) -> tuple[Node | None, int]:
    """The years at the end of a line, which apply to the whole of it, and the end of the line without its limits."""
    match = _COCHRANE_LIMIT.search(context.text, start, context.end)
    end = match.start() if match else context.end
    if unread := _COCHRANE_UNREAD.search(context.text, start, end):
        raise context.refuse(
            f"the limit “{context.text[unread.start() : end].strip()}” is not read; delete it, or write its years at the end of the line",
            unread.start(),
            ("with Publication Year from 2010 to 2020", "in Trials"),
        )
    if match is None:
        return None, context.end
    at = Span(match.start(), match.end())
    if match["place"]:
        context.approximate("a limit to a database of the Cochrane Library is left out: records do not tell", at)
    if match["first"] is None:
        return None, match.start()
    last = match["last"] if match["last"].isdecimal() else OPEN_END
    return date_node(f"{match['first']}:{last}", False, context.text, at), match.start()


_COCHRANE_PLACE = (
    r"(?:Trials|Cochrane\s+(?:Reviews?|Protocols?|Groups|Clinical\s+Answers|Methodology\s+Register|Central\s+Register\s+of\s+Controlled\s+Trials"
    r"|Database\s+of\s+Systematic\s+Reviews)|Other\s+Reviews|Clinical\s+Answers|Editorials?|Special\s+Collections?|Methods\s+Studies"
    r"|Technology\s+Assessments|Economic\s+Evaluations)(?:\s*\((?:Reviews?|Protocols?|only|and|or|\s)+\))?"
)
_COCHRANE_LIMIT = re.compile(
    r"(?<!\s)\s++(?=with\s|in\s|from\s|between\s|Publication\s|\(Word)"
    r"(?:(?:(?:with\s+)?Publication\s+Year\s+)?(?:from|between)\s+(?P<first>\d{4})\s+(?:to|and)\s+(?P<last>\d{4}|present))?"
    rf"(?P<place>,?\s*in\s+{_COCHRANE_PLACE}(?:(?:\s*+,\s*+|\s+(?:and|or)\s+){_COCHRANE_PLACE})*+)?"
    r"\s*+(?:\(Word\s+variations[^()]*+\))?\s*+$",
    re.IGNORECASE,
)
_COCHRANE_UNREAD = re.compile(
    r"\bwith\s+(?:Cochrane\s+Library\s+publication\s+date|Publication\s+Year|Status)\b|[#\d)\]]\s+in\s+(?:Trials|Cochrane|Other\s+Reviews)\b|"
    r"\bPublication\s+Year\s+(?:from|between|in)\b|\(Word\s+variations\b",
    re.IGNORECASE,
)
_EMBASE_PARTS = r"exp|de|mj|syn|br|it|lnk|d[md]_[a-z]{2}"
_SET = r"#?\d+(?:\s*-\s*#?\d+)?"
Rule = tuple[re.Pattern[str], Callable[[re.Match[str], Context, Span], Node]]
SPECIAL_TERMS: dict[str, tuple[Rule, ...]] = {
    "embase": (
        (
            re.compile(
                r"(?:['‘](?P<quoted>[^'‘’\n]+(?:['’]\w[^'‘’\n]*)*)['’]|\"(?P<double>[^\"\n]+)\"|(?P<word>[^\s()'\"‘“”:/\[\]]+))"
                rf"(?P<parts>(?:\s*/\s*(?:{_EMBASE_PARTS})(?!\w)(?:\s*,\s*(?:{_EMBASE_PARTS})(?!\w))*)+)",
                re.IGNORECASE,
            ),
            _make_emtree,
        ),
        (re.compile(r"\[(?P<value>[^\[\]]+)\]\s*/\s*(?P<kind>lim|py|yr|sd|pd)(?!\w)", re.IGNORECASE), _make_embase_limit),
    ),
    "scopus": (
        (re.compile(r"PUBYEAR\s*(?P<sign>>=|<=|[<>=]|AFT|BEF|IS)\s*(?P<year>\d{4})(?!\w)", re.IGNORECASE), _make_year),
        (
            re.compile(
                r"(?P<kind>LIMIT-TO|EXCLUDE)\s*\(\s*(?P<name>[A-Z-]+)\s*,\s*+(?P<value>\"[^\"]*\"|“[^”]*”|[^()\"]*+)\s*+\)"
                r"(?P<or>(?=\s*OR\s+EXCLUDE))?",
                re.IGNORECASE,
            ),
            _make_scopus_limit,
        ),
        (
            re.compile(r"DOCTYPE\s*\(\s*+\"?(?P<value>[A-Za-z ]++)\"?\s*+\)", re.IGNORECASE),
            lambda match, context, at: _make_document_type(match["value"].strip(), context, at),
        ),
    ),
    "cochrane": (
        (
            re.compile(
                r"MeSH\s+descriptor:?\s*+(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]()\n:]{1,200}?)(?<!\s)(?=\s++(?:explode|this\s+term)))\s*"
                r"(?P<rest>(?:explode\s+(?:all\s+trees|trees?\s+[\d, and]+)|this\s+term\s+only|in\s+all\s+MeSH\s+products)?)"
                r"(?:\s*(?:and\s+)?with\s+qualifiers?(?:\(s\))?:\s*\[(?P<qualifiers>[^\n]*?)\](?!\s*\[))?",
                re.IGNORECASE,
            ),
            _make_cochrane_heading,
        ),
        (
            re.compile(
                r"\[\s*mh\s++(?P<only>\^)?\s*+(?:[\"“](?P<quoted>[^\"“”]+)[\"”]|(?P<bare>[^\"\[\]/\s]++(?:\s++[^\"\[\]/\s]++)*+))(?P<major>\s*\[mj\])?"
                r"\s*(?:/\s*+(?P<codes>[A-Za-z&, ]++)\s*+)?\]",
                re.IGNORECASE,
            ),
            _make_cochrane_heading,
        ),
        (re.compile(rf"\{{\s*(?P<operator>AND|OR)\s+(?P<sets>{_SET}(?:\s*,\s*{_SET})*)\s*\}}", re.IGNORECASE), _join_cochrane_lines),
    ),
}
