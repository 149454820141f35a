"""Records that are often one work or nearly so, and decisions on them, for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from outrider.state.duplicate_decisions import Decision, Decisions
from outrider.state.hits import Candidate
from outrider.state.records import Identifiers, Page, Paper, Record
from support.fakes import candidate, make_found_by, paper

LIVER = "Aspirin and acute liver injury in adults"


def by_ann(doc_id: str, title: str = LIVER, **fields: object) -> Paper:
    defaults = {"authors": ["Smith, Ann", "Bell, J.", "Cole, K."], "year": 2020, "source": "crossref"}
    return paper(doc_id, title, **(defaults | fields))


def make_decisions(*log: tuple[str, ...]) -> Decisions:
    return Decisions.from_log(Decision.model_validate({"what": what, "ids": ids, "by": "ann", "at": "2026-01-02"}) for what, *ids in log)


TITLES = [
    LIVER,
    f"{LIVER}.",
    f"{LIVER}: a cohort study",
    f"Erratum to: {LIVER}",
    "Statins",
    "Editorial",
    "",
    "<i>Aspirin</i> &amp; liver",
    "肝臓",
]
RECORDS: st.SearchStrategy[Record] = st.builds(
    by_ann,
    st.just("x"),
    st.sampled_from(TITLES),
    source=st.sampled_from(["library", "crossref", "openalex"]),
    authors=st.sampled_from([(), ("Smith, Ann",), ("Bell, J.", "Smith A"), ("Roe, R.",)]),
    year=st.none() | st.sampled_from([0, 2019, 2020, 20244]),
    abstract=st.sampled_from(["", "Aspirin harms some livers."]),
    venue=st.none() | st.sampled_from(["J Hepatol", "Gut"]),
    pages=st.none() | st.sampled_from(["1-9", "200-210"]),
    identifiers=st.builds(
        Identifiers,
        doi=st.none() | st.sampled_from(["10.1000/one", "10.2000/two", "10.1101/2020.01.02.123456", "10.1000/ x", "https://x.org"]),
        pmid=st.none() | st.sampled_from(["1", "2"]),
        arxiv=st.none() | st.just("2001.00001"),
    ),
)
PAGES: st.SearchStrategy[Record] = st.builds(
    Page,
    doc_id=st.just("x"),
    title=st.sampled_from([LIVER, "Home"]),
    source=st.just("web"),
    url=st.sampled_from(["https://doi.org/10.1000/one", "https://arxiv.org/abs/2001.00001", "https://x.org/"]),
    identifiers=st.sampled_from([Identifiers(doi="10.1000/one"), Identifiers(arxiv="2001.00001"), Identifiers()]),
)
MANY = st.lists(RECORDS | PAGES, max_size=8).map(lambda many: [one.model_copy(update={"doc_id": f"d{at}"}) for at, one in enumerate(many)])
IDS = st.sampled_from([f"d{at}" for at in range(8)])
LOGS = st.lists(
    st.builds(lambda ids: ("merge", *ids), st.lists(IDS, min_size=2, max_size=3, unique=True))
    | st.builds(lambda ids: ("split", *ids), st.lists(IDS, min_size=1, max_size=2, unique=True)),
    max_size=4,
)


def candidates(records: Sequence[Record]) -> list[Candidate]:
    return [candidate(one, found_by=(make_found_by(at + 1),), scores={"fused": 1 / (at + 1)}) for at, one in enumerate(records)]
