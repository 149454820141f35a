"""PubMed's filters and subsets, and Ovid's `limit N to ...`, as conditions on records.

Sources: PubMed User Guide, "Filters" and "Subsets" (pubmed.ncbi.nlm.nih.gov/help/#help-filters), whose expansion PubMed shows under "Search
details"; Ovid MEDLINE Database Guide (ospguides.ovid.com/OSPguides/medline.htm), "Limits": years, languages, check tags, age groups,
publication types. What only the platform can answer (clinical queries, full text) is refused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate

from outrider.boolean.diagnostics import BooleanSyntaxError, Findings
from outrider.boolean.field_tags import CODES
from outrider.boolean.field_values import date_node
from outrider.boolean.line_ends import DASHES
from outrider.state.boolean import And, Everything, Field, Heading, Leaf, Node, Not, Or, Span, Text, Words
from outrider.text.languages_and_work_types import normal_language


def _types(*names: str) -> tuple[Leaf, ...]:
    return tuple(Text(Words(tuple(name.split())), (Field.PUBLICATION_TYPE,)) for name in names)


def _headings(*names: str) -> tuple[Leaf, ...]:
    return tuple(Heading(name) for name in names)


TRIALS = (
    "Clinical Trial", "Clinical Trial, Phase I", "Clinical Trial, Phase II", "Clinical Trial, Phase III", "Clinical Trial, Phase IV",
    "Controlled Clinical Trial", "Randomized Controlled Trial", "Pragmatic Clinical Trial", "Equivalence Trial", "Adaptive Clinical Trial",
)  # fmt: skip
"""`Clinical Trial` and the publication types below it."""
PUBLICATION_TYPES = frozenset(
    """adaptive clinical trial|address|autobiography|bibliography|biography|case reports|classical article|clinical conference
|clinical study|clinical trial protocol|clinical trial veterinary|clinical trial, phase i|clinical trial, phase ii|clinical trial, phase iii
|clinical trial, phase iv|collected work|comment|comparative study|congress|consensus development conference|controlled clinical trial
|corrected and republished article|dataset|dictionary|directory|duplicate publication|editorial|equivalence trial|evaluation study
|evaluation studies|expression of concern|festschrift|guideline|historical article|interactive tutorial|interview
|introductory journal article|journal article|lecture|legal case|legislation|letter|meta-analysis
|multicenter study|news|newspaper article|observational study|overall
|patient education handout|periodical index|personal narrative|portrait|practice guideline|pragmatic clinical trial|preprint
|published erratum|randomized controlled trial|retracted publication|retraction of publication|review|scientific integrity review
|scoping review|systematic review|technical report|twin study|validation study|validation studies|video-audio media|webcast""".replace(
        "\n", ""
    ).split("|")
)
"""NLM, "Publication Characteristics (Publication Types) with Scope Notes"; types with narrower ones are in `GROUPS`."""
GROUPS: dict[str, tuple[Leaf, ...]] = {
    "humans": (Heading("Humans"),), "human": (Heading("Humans"),), "animals": (Heading("Animals"),), "male": (Heading("Male"),),
    "female": (Heading("Female"),),
    "newborn": _headings("Infant, Newborn"), "infant": (Heading("Infant", explode=False),),
    "allinfant": _headings("Infant"), "preschoolchild": _headings("Child, Preschool"), "child": (Heading("Child", explode=False),),
    "allchild": (*_headings("Infant"), *_headings("Child", "Adolescent")), "adolescent": _headings("Adolescent"),
    "alladult": _headings("Adult"), "adult": (Heading("Adult", explode=False),), "youngadult": _headings("Young Adult"),
    "middleaged": _headings("Middle Aged"), "middleagedaged": _headings("Middle Aged", "Aged"), "aged": _headings("Aged"),
    "80andover": _headings("Aged, 80 and over"), "clinicaltrial": _types(*TRIALS),
    "systematicreview": _types("Systematic Review"), "systematicreviews": _types("Systematic Review"),
    "systematic": _types("Systematic Review"), "metaanalysis": _types("Meta-Analysis"), "reviewarticles": _types("Review"),
    "casereports": _types("Case Reports"), "guideline": _types("Guideline", "Practice Guideline"),
}  # fmt: skip
"""Names without blanks and hyphens, in lower case."""
SUBSETS = frozenset(
    """medline|in process|inprocess|publisher|pubmednotmedline|oldmedline|indatareview|pubmed pmc|pmc all|pubmed pmc local
|pubmed books|pubstatusaheadofprint|pubstatusnihms|pubstatuspmcsd|retracted|preprints|aids|bioethics|cam|cancer|dietsuppl|history
|space|tox|toxicology|veterinary|jsubsetaim|jsubsetim|jsubsetn|jsubsetd|jsubsete|jsubsetk|jsubsets|jsubsetx|fha|aheadofprint""".replace(
        "\n", ""
    ).split("|")
)
"""Status and subject subsets of PubMed. A library does not know them; PubMed gets them as written."""
REFUSED = {
    "hasabstract": "a library cannot tell a record without an abstract from one whose file left it out",
    "fft": "it depends on links to full texts, which a library does not have",
    "freefulltext": "it depends on links to full texts, which a library does not have",
    "fulltext": "it depends on links to full texts, which a library does not have",
    "loattrfulltext": "it depends on links to full texts, which a library does not have",
    "loattrfreefulltext": "it depends on links to full texts, which a library does not have",
    "booksdocs": "a library does not hold PubMed's books",
    "associateddata": "records do not say whether data are associated",
    "excludepreprints": "write NOT preprint[pt] instead",
}


def find_filter(text: str, at: Span) -> Node | None:
    """The condition of a filter; None for one that is unknown, refused, or a subset."""
    if text.lower() == "all":
        return Everything(at)
    name = compact(text)
    leaves = GROUPS.get(name)
    if leaves is None and any(compact(kind) == name for kind in PUBLICATION_TYPES):
        leaves = _types(next(kind for kind in sorted(PUBLICATION_TYPES) if compact(kind) == name))
    if leaves is None and len(text) > 3 and normal_language(text) and text.lower() not in SUBSETS:
        leaves = (Text(Words((text,)), (Field.LANGUAGE,)),)
    if name == "otheranimals":
        return And((Heading("Animals", at=at), Not(Heading("Humans", at=at), at)), at)
    if leaves is None:
        return None
    placed = tuple(replace(leaf, at=at) for leaf in leaves)
    return placed[0] if len(placed) == 1 else Or(placed, at)


def compact(text: str) -> str:
    """The letters and digits of a filter's name, in lower case."""
    return "".join(filter(str.isalnum, text.lower()))


def list_filters() -> list[str]:
    """Every name, for suggestions."""
    return sorted({*GROUPS, *SUBSETS, *PUBLICATION_TYPES, *REFUSED, "english"})


_DATE_CODES = "|".join(code for code, tag in CODES.items() if tag.kind in ("dates", "entry"))
_DATES = re.compile(
    rf"(?P<code>{_DATE_CODES})\s*=\s*+[\"“”]?\s*+(?P<start>\d{{0,8}})\s*+(?P<dash>[{DASHES}])?\s*+(?P<end>\d{{0,8}}|current)\s*+[\"“”]?",
    re.IGNORECASE,
)
_TOKENS = re.compile(r"\"[^\"]*\"|“[^”]*”|[()]|\b(?:and|or)\b", re.IGNORECASE)
_CHECK_TAGS = {"human": "humans", "humans": "humans", "animal": "animals", "animals": "animals", "male": "male", "female": "female"}
_AGES: dict[str, tuple[Heading, ...]] = {
    "all infant": (Heading("Infant"),), "newborn infant": (Heading("Infant, Newborn"),), "infant": (Heading("Infant", explode=False),),
    "all child": (Heading("Infant"), Heading("Child"), Heading("Adolescent")), "preschool child": (Heading("Child, Preschool"),),
    "child": (Heading("Child", explode=False),), "adolescent": (Heading("Adolescent"),), "all adult": (Heading("Adult"),),
    "adult": (Heading("Adult", explode=False),), "young adult": (Heading("Young Adult"),), "middle age": (Heading("Middle Aged"),),
    "middle aged": (Heading("Middle Aged"), Heading("Aged")), "all aged": (Heading("Aged"),), "aged": (Heading("Aged, 80 and over"),),
}  # fmt: skip
_TYPES = {compact(name): name for name in PUBLICATION_TYPES} | {
    "reviewarticles": "review", "reviews": "review", "systematicreviews": "systematic review", "casereport": "case reports",
    "article": "article", "conferenceabstract": "conference abstract",
    "conferencepaper": "conference paper", "conferencereview": "conference review",
}  # fmt: skip
_CLINICAL_QUERY = re.compile(r"\((?:maximizes|best balance|optimized|sensitivity|specificity)")
_EXPECTED = ["yr=", "ed=", "a language", "humans", "an age group", "a publication type"]


def parse_limits(limits: str, at: int, text: str, findings: Findings) -> Node:
    """The condition of everything behind `to`. `at` is its offset in `text`. An unknown limit is an error: without it the search widens."""
    limits, at = limits.strip(), at + len(limits) - len(limits.lstrip())
    for operator, joint in (("or", Or), ("and", And)):
        parts = _split(limits, operator)
        if len(parts) > 1:
            nodes = tuple(parse_limits(part, at + start, text, findings) for start, part in parts)
            return joint(nodes, Span(at, at + len(limits)))
    depths = list(accumulate({"(": 1, ")": -1}.get(char, 0) for char in limits))
    if limits.startswith("(") and depths[-1] == 0 and all(depths[:-1]):  # the first parenthesis closes with the last character
        return parse_limits(limits[1:-1], at + 1, text, findings)
    return _parse_limit(limits, Span(at, at + len(limits)), text, findings)


def _parse_limit(limit: str, at: Span, text: str, findings: Findings) -> Node:
    if match := _DATES.fullmatch(limit):
        start, end = match["start"], "" if match["end"].lower() == "current" else match["end"]
        dates = f"{start or '1000'}:{end or '3000'}" if match["dash"] else start
        return date_node(dates, CODES[match["code"].lower()].kind == "entry", text, at)
    name = " ".join(limit.strip('"“”').lower().split())
    if name in _CHECK_TAGS:
        return Heading(_CHECK_TAGS[name], explode=False, at=at)
    language = name.removesuffix(" language")
    if language != name or (len(language) > 3 and normal_language(language)):
        return Text(Words((language,), at), (Field.LANGUAGE,), at)
    leaves: tuple[Leaf, ...] = _AGES.get(re.sub(r"\s*[(<].*", "", name), ()) if re.search(r"\d|^all |birth", name) else ()
    kind = compact(name).removesuffix("all").removeprefix("all")
    if kind in ("clinicaltrial", "clinicaltrials"):
        leaves = _types(*(TRIALS if "all" in name.replace("clinical", "") else TRIALS[:1]))
    elif not leaves and (known := _TYPES.get(kind) or _TYPES.get(kind.removesuffix("s"))):
        leaves = _types(known)
        if known == "systematic review":
            findings.add("approximated", "Ovid's limit to systematic reviews is a filter of words; the publication type is compared", at)
    if _CLINICAL_QUERY.search(name):
        problem = (
            f"“{name}” is not supported: it is one of Ovid's clinical queries, a filter of words that only Ovid keeps; write the terms of"
            " the filter as a line and join it with AND, or delete the limit"
        )
        raise BooleanSyntaxError(problem, text, at.start, _EXPECTED)
    if not leaves:
        raise BooleanSyntaxError(f"the limit “{limit}” is not supported; write it as terms", text, at.start, _EXPECTED)
    placed = tuple(replace(leaf, at=at) for leaf in leaves)
    return placed[0] if len(placed) == 1 else Or(placed, at)


def _split(limits: str, operator: str) -> list[tuple[int, str]]:
    """The parts between this operator, outside quotation marks and parentheses, with their offsets."""
    parts, start, depth = [], 0, 0
    for token in _TOKENS.finditer(limits):
        depth += {"(": 1, ")": -1}.get(token.group(), 0)
        if depth == 0 and token.group().lower() == operator:
            parts.append((start, limits[start : token.start()]))
            start = token.end()
    return [*parts, (start, limits[start:])]
