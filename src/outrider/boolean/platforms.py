"""Query languages of platforms as data: fields, operators and their order, wildcards.

Sources, by platform:

- Web of Science: Clarivate, "Search Operators", "Search Rules", "Search Field Tags" (webofscience.help.clarivate.com). Order: "SAME, NOT,
  AND, OR" (images.webofknowledge.com/WOKRS528R6/help/ISIP/ht_operators.html).
- Scopus: Elsevier, "Scopus Search Guide" (schema.elsevier.com/dtds/document/bkapi/search/SCOPUSSearchTips.htm): "OR, AND, AND NOT".
- Embase: Elsevier, "Can I use Boolean operators, wildcards and proximity operators in Embase?" (elsevier.support/embase): left to right;
  `NEAR/1` is adjacent.
- EBSCOhost: EBSCO Connect, "Searching with Field Codes", "Searching with Wildcards", "Proximity Searches"; "Searching with Boolean
  Operators": "And takes precedence over Or".
- ProQuest: "ProQuest Platform: search tips" (proquest.libguides.com/proquestplatform/tips): `*` stands for at most five characters. Order
  ("Search operators"): PRE, NEAR, AND, OR, NOT.
- Cochrane Library: "Search manager help" (cochranelibrary.com/search-manager-help): NEAR without a number is NEAR/6, NEXT is adjacent.

The fields of Web of Science and EBSCOhost were compared with search-query's tables (github.com/CoLRev-Environment/search-query).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from outrider.boolean.field_tags import MULTI_PURPOSE, Tag
from outrider.boolean.tree_builder import LEFT_TO_RIGHT, Conventions, Tags
from outrider.state.boolean import Field

PlatformKey = Literal["wos", "scopus", "embase", "ebsco", "proquest", "cochrane"]


@dataclass(frozen=True, slots=True)
class FieldCode:
    """What a code searches here, and in what that differs from the platform; no difference worth a remark if `note` is empty."""

    tags: Tags
    note: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    """One query language. `field` finds a code (group `codes`); it stands after its term if `is_suffix`."""

    key: PlatformKey
    conventions: Conventions
    fields: Mapping[str, FieldCode]
    refused: Mapping[str, str]
    """Codes that are not read, and their subject."""
    field: re.Pattern[str]
    proximity: re.Pattern[str]
    """Finds an operator (group `operator`) and its number (group `digits`)."""
    ordered: frozenset[str]
    """Proximity operators, in capitals, whose terms come in the given order."""
    distances: Mapping[str, int]
    """The number of an operator without a number; an operator that is missing here needs one."""
    counts_between: bool
    """Whether `NEAR/3` allows three words between; otherwise two."""
    wildcards: Mapping[str, str]
    reference: re.Pattern[str] = re.compile(r"#(\d{1,4})(?!\w)")
    is_suffix: bool = False
    quotes: str = ""
    """Quotation marks beside the usual ones."""
    wrong: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Syntax that the platform does not have, and what to write instead."""


SEARCH_SETTINGS = re.compile(
    r"(?:Limiters|Expanders|Search modes?|Additional limits|Narrow(?:ed)? by|Source types?)\s+[-–:]|(?:Indexes|Timespan|Editions?)\s*[=:]"
    r"|(?:Databases?|Search language)\s*=|(?:Refined by|Limited to|Limits? applied|Limits activated)\s*:",
    re.IGNORECASE,
)
"""What pages of platforms list beside a query, such as `Limiters - English`, `Timespan=2010-2020` or `Refined by: ...`."""
TOPIC = Tag("text", (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS))
HEADING, EXPLODED = Tag("heading", explode=False), Tag("heading")
AND_NOT_OR = (frozenset(("AND", "NOT")), frozenset(("OR",)))
ANOTHER_THESAURUS = "headings of the platform's own thesaurus are compared with a record's MeSH headings"
TYPES = "types of documents are compared with a record's publication types"
KEYWORDS_PLUS = "Keywords Plus are searched only in records from files that have them; the authors' keywords in all"


def _codes(spellings: str, *fields: Field, note: str = "") -> dict[str, FieldCode]:
    return dict.fromkeys(spellings.split("|"), FieldCode((Tag("text", fields),), note))


def _with_tags(spellings: str, *tags: Tag, note: str = "") -> dict[str, FieldCode]:
    return dict.fromkeys(spellings.split("|"), FieldCode(tags, note))


def _refuse(**subjects: str) -> dict[str, str]:
    return {code: subject.replace("_", " ") for subject, codes in subjects.items() for code in codes.split("|")}


_WOS_FIELDS = {
    **_codes("ts|topic", *TOPIC.fields, note=KEYWORDS_PLUS),
    **_codes("ti|title", Field.TITLE),
    **_codes("ab|abstract", Field.ABSTRACT),
    **_codes("ak|author keywords", Field.KEYWORDS),
    **_codes("kp|keywords plus", Field.KEYWORDS, note=KEYWORDS_PLUS),
    **_codes("all|all fields", Field.ALL),
    **_codes("au|author|gp|group author", Field.AUTHOR),
    **_codes("so|publication name|publication titles", Field.JOURNAL),
    **_codes("is|issn/isbn", Field.JOURNAL),
    **_codes("do|doi", Field.DOI),
    **_codes("pmid|pubmed id", Field.PMID),
    **_codes("la|language", Field.LANGUAGE),
    **_codes("dt|document type|document types", Field.PUBLICATION_TYPE, note=TYPES),
    **_codes("ad|address|og|organization - enhanced|oo|organization|sg|suborganization|sa|street address|ci|city|ps|province/state"
             "|cu|country/region|zp|zip/postal code", Field.AFFILIATION),
    **_codes("fo|funding agency|fg|grant number|ft|funding text", Field.GRANT),
    **_with_tags("py|year published|fpy|dop", Tag("dates")),
    **_with_tags("ld", Tag("entry")),
}  # fmt: skip
WEB_OF_SCIENCE = Platform(
    key="wos",
    conventions=Conventions(
        name="Web of Science",
        untagged=(Tag("text", (Field.ALL,)),),
        untagged_note="a term without a field is searched in all fields",
        words="and",
        levels=AND_NOT_OR,
        order="AND and NOT before OR, as on Web of Science",
        hyphen_ranges=True,
    ),
    fields=_WOS_FIELDS,
    refused={
        **_refuse(editors="ed|editor", conferences="cf|conference", identifiers_of_authors="ai|author identifiers"),
        **_refuse(research_areas="su|research area|wc|web of science category|sdg|tasca|tmac", accession_numbers="ut|accession number"),
        "di": "Web of Science writes DO= for a DOI",
    },
    field=re.compile(
        rf"(?P<codes>{'|'.join(sorted((code for code in _WOS_FIELDS if len(code) > 4), key=len, reverse=True))}|[A-Za-z]{{2,5}})"
        r"\s*(?:=|:\s*(?=\())\s*",
        re.IGNORECASE,
    ),
    proximity=re.compile(r"(?P<operator>NEAR)(?:/(?P<digits>\d{1,4}))?(?![\w/])", re.IGNORECASE),
    ordered=frozenset(),
    distances={"NEAR": 15},
    counts_between=True,
    wildcards={"*": "*", "?": "{#}", "$": "{?}"},
    wrong=(
        (re.compile(r"SAME(?!\w)"), "SAME searches one address of Web of Science; records do not hold addresses apart: use AND"),
        (re.compile(r"\w*!"), "“!” is no wildcard of Web of Science: use *, ? or $"),
        (re.compile(r"[A-Za-z]{6,}=(?=[\w(\"“])"), "is no field of Web of Science; quote it if it is a term"),
    ),
)

_SCOPUS_FIELDS = {
    **_codes("title-abs-key", *TOPIC.fields, note="keywords are the authors' and, where a record has them, index terms"),
    **_codes("title-abs-key-auth", *TOPIC.fields, Field.AUTHOR),
    **_codes("title-abs", Field.TITLE, Field.ABSTRACT),
    **_codes("abs-key", Field.ABSTRACT, Field.KEYWORDS),
    **_codes("title", Field.TITLE),
    **_codes("abs", Field.ABSTRACT),
    **_codes("key|authkey", Field.KEYWORDS),
    **_codes("indexterms", Field.MESH, note="Scopus's index terms are compared with the words of a record's headings"),
    **_codes("auth|author|author-name|authlastname|authcollab", Field.AUTHOR),
    **_codes("srctitle|exactsrctitle|issn|eissn", Field.JOURNAL),
    **_codes("doi", Field.DOI),
    **_codes("pmid", Field.PMID),
    **_codes("language", Field.LANGUAGE),
    **_codes("volume", Field.VOLUME),
    **_codes("issue", Field.ISSUE),
    **_codes("pages", Field.PAGES),
    **_codes("affil|affilcountry|affilcity|affilorg|af-id", Field.AFFILIATION),
    **_codes("fund-all|fund-sponsor|fund-acr|fund-no", Field.GRANT),
    **_codes("chemname|casregnumber|chem", Field.SUBSTANCE),
    **_codes("all", Field.ALL),
}
SCOPUS = Platform(
    key="scopus",
    conventions=Conventions(
        name="Scopus",
        untagged=(Tag("text", (Field.ALL,)),),
        untagged_note="a term without a field is searched in all fields",
        words="and",
        levels=(frozenset(("OR",)), frozenset(("AND",)), frozenset(("NOT",))),
        order="OR first, then AND, then AND NOT, as on Scopus",
        hyphen_ranges=True,
    ),
    fields=_SCOPUS_FIELDS,
    refused={
        **_refuse(subject_areas="subjarea|subjmain|subjterms", references="ref|refauth|reftitle|refsrctitle|refpubyear|refpage"),
        **_refuse(
            identifiers_of_authors="au-id|orcid", conferences="conf|confname|confloc|confsponsors", editors="edit|edfirst|edlastname"
        ),
        **_refuse(accession_numbers="eid", first_authors="firstauth", source_types="srctype|isbn|manufacturer|tradename|website"),
    },
    field=re.compile(r"(?P<codes>[A-Z]+(?:-[A-Z]+){0,3})\s*(?=\()", re.IGNORECASE),
    proximity=re.compile(r"(?P<operator>W|PRE)/(?P<digits>\d{1,4})(?!\w)", re.IGNORECASE),
    ordered=frozenset({"PRE"}),
    distances={},
    counts_between=True,
    wildcards={"*": "*", "?": "{#}"},
    quotes="{}",
)

_EMBASE_FIELDS = {
    **_codes("ti|tt", Field.TITLE),
    **_codes("ab", Field.ABSTRACT),
    **_codes("kw", Field.KEYWORDS),
    **_with_tags("de|exact", HEADING, note=ANOTHER_THESAURUS),
    **_codes("au", Field.AUTHOR),
    **_codes("jt|ta|is|issn", Field.JOURNAL),
    **_codes("la|lg", Field.LANGUAGE),
    **_codes("it|pt", Field.PUBLICATION_TYPE, note=TYPES),
    **_codes("do|doi", Field.DOI),
    **_codes("ui|pmid|pm", Field.PMID),
    **_codes("vi", Field.VOLUME),
    **_codes("ip", Field.ISSUE),
    **_codes("pg", Field.PAGES),
    **_codes("ad|ff|cy|ca", Field.AFFILIATION),
    **_codes("tn|mn|rn|cn|df|dn|mf", Field.SUBSTANCE),
    **_with_tags("py|yr", Tag("dates")),
    **_with_tags("sd", Tag("entry")),
}
EMBASE = Platform(
    key="embase",
    conventions=Conventions(
        name="Embase",
        untagged=(Tag("text", (Field.ALL,)),),
        untagged_note="a term without a field is searched in all fields; Embase also maps it to Emtree",
        words="and",
        levels=LEFT_TO_RIGHT,
        order="from left to right, as in Embase",
        hyphen_ranges=True,
    ),
    fields=_EMBASE_FIELDS,
    refused=_refuse(editors="ed", conferences="nc|dc|lc", clinical_trial_numbers="cd|cl|ct", accession_numbers="an|id|li|oc|pu|ar|ac|ib"),
    field=re.compile(r":\s?(?P<codes>[a-z]{2,5}(?:\s*,\s*[a-z]{2,5})*)(?!\w)", re.IGNORECASE),
    proximity=re.compile(r"(?P<operator>NEAR|NEXT)/(?P<digits>\d{1,4})(?!\w)", re.IGNORECASE),
    ordered=frozenset({"NEXT"}),
    distances={},
    counts_between=False,
    wildcards={"*": "*", "?": "{#}", "$": "{?}"},
    is_suffix=True,
    quotes="'‘’",
)

_CINAHL = "the platform's subject headings are compared with a record's MeSH headings"
_EBSCO_FIELDS = {
    **_codes("TI", Field.TITLE),
    **_codes("AB", Field.ABSTRACT),
    **_codes("XB", Field.TITLE, Field.ABSTRACT),
    **_codes("TP", *TOPIC.fields),
    **_codes("TX", Field.ALL, note="the full text is searched as far as a record has one"),
    **_codes("AU", Field.AUTHOR),
    **_codes("SU|ZU", Field.KEYWORDS, Field.MESH, note=_CINAHL),
    **_codes("KW|ZW", Field.KEYWORDS),
    **_codes("MW", Field.MESH, note=_CINAHL),
    **_with_tags("MH", Tag("heading", explode=False, plus_explodes=True), note=_CINAHL),
    **_with_tags("MM", Tag("heading", explode=False, major=True, plus_explodes=True), note=_CINAHL),
    **_with_tags("MJ", Tag("heading", explode=False, major=True, plus_explodes=True), note=_CINAHL),
    **_with_tags("DE", Tag("heading", explode=False, plus_explodes=True), note=_CINAHL),
    **_codes("SO|JN|JT|IS", Field.JOURNAL),
    **_codes("LA", Field.LANGUAGE),
    **_codes("PT|ZT", Field.PUBLICATION_TYPE, note=TYPES),
    **_codes("DO", Field.DOI),
    **_codes("PM", Field.PMID),
    **_codes("VI", Field.VOLUME),
    **_codes("IP", Field.ISSUE),
    **_codes("AF", Field.AFFILIATION),
    **_codes("RN", Field.SUBSTANCE),
    **_with_tags("DT|PY|YR", Tag("dates")),
    **_with_tags("EM", Tag("entry")),
}
EBSCOHOST = Platform(
    key="ebsco",
    conventions=Conventions(
        name="EBSCOhost",
        untagged=(Tag("text", (*TOPIC.fields, Field.MESH)),),
        untagged_note="a term without a field is searched in title, abstract, keywords and words of headings",
        words="phrase",
        levels=AND_NOT_OR,
        order="AND and NOT before OR, as on EBSCOhost",
        hyphen_ranges=True,
    ),
    fields=_EBSCO_FIELDS,
    refused={
        **_refuse(ISBNs="IB", places="ZY|ZG|GE", accession_numbers="AN|UI", references="RF|CR"),
        **_refuse(limiters="RV|PG|AG|CL|FM|ID|MC|AR|TM|TS|GI|PB|SB|EI|NT|ZE|ZX"),
    },
    field=re.compile(r"(?P<codes>[A-Z]{2})(?:\s+(?=[\w*#?(\"“”])|(?=[(\"“”]))"),
    proximity=re.compile(r"(?P<operator>[NW])(?P<digits>\d{1,3})(?!\w)"),
    ordered=frozenset({"W"}),
    distances={},
    counts_between=True,
    wildcards={"*": "*", "?": "{#}", "#": "{?}"},
    reference=re.compile(r"S(\d{1,4})(?!\w)"),
    wrong=(
        (re.compile(r"(?:NEAR/?|N/)\d+(?!\w)"), "EBSCOhost writes N3 for three words between"),
        (re.compile(r"(?:WITHIN|W|PRE)/\d+(?!\w)"), "EBSCOhost writes W3 for at most three words between, in this order"),
    ),
)

_PROQUEST_SUBJECT = "ProQuest's subjects are compared with keywords and headings of a record"
_PROQUEST_FIELDS = {
    **_codes("ti|title", Field.TITLE),
    **_codes("ab|abstract", Field.ABSTRACT),
    **_codes("tiab", Field.TITLE, Field.ABSTRACT),
    **_codes("if|identifier|kw|keyword", Field.KEYWORDS),
    **_codes("su|subject|mainsubject|diskw", Field.KEYWORDS, Field.MESH, note=_PROQUEST_SUBJECT),
    **_with_tags("su.exact|mainsubject.exact|subject.exact|mesh|mesh.exact|mjmesh|mjmesh.exact|mjmainsubject.exact|mjsub.exact|de",
              HEADING, note=ANOTHER_THESAURUS),
    **_with_tags("su.exact.explode|mainsubject.exact.explode|subject.exact.explode|mesh.exact.explode|mesh.explode|mjmesh.exact.explode|"
              "mjmainsubject.exact.explode|mjsub.exact.explode",
              EXPLODED, note=ANOTHER_THESAURUS),
    **_codes("noft|all", Field.ALL),
    **_codes("ft|fulltext", Field.BODY),
    **_codes("au|author", Field.AUTHOR),
    **_codes("pub|jn|publication|issn|pub.exact", Field.JOURNAL),
    **_codes("la|language|la.exact|language.exact", Field.LANGUAGE),
    **_codes("dtype|rtype|at|stype|dtype.exact|rtype.exact|at.exact|stype.exact", Field.PUBLICATION_TYPE, note=TYPES),
    **_codes("doi|do", Field.DOI),
    **_codes("pmid", Field.PMID),
    **_codes("vo", Field.VOLUME),
    **_codes("iss", Field.ISSUE),
    **_codes("pg", Field.PAGES),
    **_codes("af|oaf", Field.AFFILIATION),
    **_codes("rn|substance|subst", Field.SUBSTANCE),
    **_with_tags("yr|pd|py", Tag("dates")),
}  # fmt: skip
PROQUEST = Platform(
    key="proquest",
    conventions=Conventions(
        name="ProQuest",
        untagged=(Tag("text", (Field.ALL,)),),
        untagged_note="a term without a field is searched in all fields",
        words="and",
        levels=(frozenset(("AND",)), frozenset(("OR",)), frozenset(("NOT",))),
        order="AND first, then OR, then NOT, as on ProQuest",
        hyphen_ranges=True,
    ),
    fields=_PROQUEST_FIELDS,
    refused={
        **_refuse(advisors="adv", dissertations="dg|dep|sch|school|dgn", places="loc|ps|geo|publoc", publishers="pb", ISBNs="isbn"),
        **_refuse(classifications="cc|class|ccexact", tests_and_measures="tm|me", age_groups="age|po|population", accession_numbers="an"),
        **_refuse(references="ref|ci", persons_and_companies="per|org|nm|co|cmp"),
    },
    field=re.compile(r"(?P<codes>[A-Za-z]+(?:\.[A-Za-z]+)*(?:\s*,\s*[A-Za-z]+(?:\.[A-Za-z]+)*)*)\s?(?=\()"),
    proximity=re.compile(r"(?P<operator>NEAR|N|PRE|P)/(?P<digits>\d{1,4})(?!\w)|(?P<bare>NEAR|PRE)(?![\w/.])"),
    ordered=frozenset({"PRE", "P"}),
    distances={"NEAR": 4, "PRE": 4},
    counts_between=True,
    wildcards={"*": "{*5}", "?": "{#}"},
    quotes="{}",
    wrong=((re.compile(r"(?:WITHIN|W)/\d+(?!\w)"), "ProQuest writes NEAR/3 or N/3"),),
)

_COCHRANE_FIELDS = {
    **_codes("ti", Field.TITLE),
    **_codes("ab", Field.ABSTRACT),
    **_codes("kw|ky", Field.KEYWORDS, Field.MESH),
    **_codes("au", Field.AUTHOR),
    **_codes("so|jn", Field.JOURNAL),
    **_codes("pt", Field.PUBLICATION_TYPE),
    **_codes("doi", Field.DOI),
    **_codes("la", Field.LANGUAGE),
    **_codes("tx|all", Field.ALL),
    **_with_tags("yr|py", Tag("dates")),
}
COCHRANE = Platform(
    key="cochrane",
    conventions=Conventions(
        name="Cochrane Library",
        untagged=(MULTI_PURPOSE,),
        untagged_note="a term without a field is searched in title, abstract, keywords and words of headings",
        words="and",
        levels=AND_NOT_OR,
        order="AND and NOT before OR, as in the Cochrane Library",
        hyphen_ranges=True,
    ),
    fields=_COCHRANE_FIELDS,
    refused=_refuse(numbers_of_trials="an|sn|nct", groups_of_Cochrane="gr|crg|to"),
    field=re.compile(r":\s?(?P<codes>[a-z]{2,5}(?:\s*,\s*[a-z]{2,5})*)(?!\w)", re.IGNORECASE),
    proximity=re.compile(r"(?P<operator>NEAR|NEXT)(?:/?(?P<digits>\d{1,4}))?(?!\w)", re.IGNORECASE),
    ordered=frozenset({"NEXT"}),
    distances={"NEAR": 6, "NEXT": 1},
    counts_between=False,
    wildcards={"*": "*", "?": "{#}"},
    is_suffix=True,
)
PLATFORMS: dict[str, Platform] = {platform.key: platform for platform in (WEB_OF_SCIENCE, SCOPUS, EMBASE, EBSCOHOST, PROQUEST, COCHRANE)}
