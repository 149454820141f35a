"""What kind of work a paper is, in one word whoever says it: `article` for Crossref's `journal-article` and PubMed's `Journal Article`.

Words of: Crossref (api.crossref.org/types), OpenAlex ("Work types"), PubMed's publication types (MeSH, category V), Semantic Scholar
(`publicationTypes`), BibTeX, RIS, EndNote and JATS. One that stands in none of the lists below is no type that we know.
"""

from __future__ import annotations

from functools import cache

TYPES = {
    "article": "journalarticle articlejournal researcharticle jour",
    "review": "systematicreview scopingreview reviewarticle metaanalysis networkmetaanalysis",
    "preprint": "postedcontent",
    "conference": "proceedingsarticle conferencepaper conferencepublication conferenceproceedings inproceedings proceedings cpaper conf",
    "book": "monograph editedbook referencebook",
    "chapter": "bookchapter booksection bookpart inbook incollection chap",
    "dissertation": "thesis phdthesis mastersthesis academicdissertation thes",
    "dataset": "data",
    "report": "techreport technicalreport reportcomponent rprt",
    "editorial": "",
    "letter": "lettersandcomments lettertotheeditor comment",
    "news": "newspaperarticle",
    "erratum": "publishederratum correction corrigendum",
    "retraction": "retractionnotice retractionofpublication",
    "peer-review": "",
    "reference-entry": "entrydictionary entryencyclopedia",
    "standard": "",
    "trial": "clinicaltrial randomizedcontrolledtrial controlledclinicaltrial",
    "case-report": "casereports",
    "other": "paratext libguides supplementarymaterials grant component",
}
"""Our words, and what else they go by, without case and signs."""
GENRES = frozenset({"review", "editorial", "letter", "news", "erratum", "retraction", "trial", "case-report"})
"""What an article in a journal may be more closely."""


def normal_type(said: str) -> str | None:
    """Our word for what somebody says; None where it is not known."""
    return _known().get(_bare(said))


@cache
def _known() -> dict[str, str]:
    return {_bare(word): name for name, others in TYPES.items() for word in (name, *others.split())}


def _bare(said: str) -> str:
    return "".join(filter(str.isalnum, said.casefold()))
