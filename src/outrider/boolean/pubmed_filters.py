"""PubMed's filters and subsets, `[Filter]` and `[sb]`, as conditions on records.

Source: PubMed User Guide, "Filters" and "Subsets" (pubmed.ncbi.nlm.nih.gov/help/#help-filters); PubMed shows the expansion of each filter
under "Search details".
"""

from __future__ import annotations

from dataclasses import replace

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
