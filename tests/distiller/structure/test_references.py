from __future__ import annotations

import pytest

from outrider.distiller.structure.read_structure import read_structure

ENTRIES = {
    "notes with a link back": [
        '- ^ "Mozilla rules out Firefox for iPhone". Retrieved 2012-03-01.',
        "- ^ a b Mere notes of a page.",
        "- ^ Payment, S. (2007). The Founders of Netscape.",
    ],
    "author, year, title": [
        "- Alley, Roderic (2008). New Zealand in World Affairs. Victoria University Press.",
        "- Cho, J., Garcia-Molina, H., & Page, L. (1998). Efficient crawling.",
        "- Bateman New Zealand Encyclopedia (6th ed.). ISBN 1-86953-601-0.",
    ],
    "numbers": [
        "[1] Writer B. Things. 2001.",
        "[2] An anonymous report on things, 1999.",
        "[3] Scribe CD, et al. Other things. J Things 2003;4:12-5.",
    ],
}


def answering(text: str) -> list[str]:
    kinds = ("paragraph", "item", "row", "code", "caption")
    return [" ".join(text[block.start : block.end].split()) for block in read_structure(text) if block.kind in kinds]


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
@pytest.mark.parametrize("title", ["## References", "## References[edit]", "## Bibliography", "## Works cited", "## Further reading"])
def test_a_list_of_references_answers_nothing_in_markdown(title: str, entries: list[str]) -> None:
    text = "# A page\n\nIt **works** here.\n\n" + title + "\n\n" + "\n\n".join(entries) + "\n\n## Licence\n\nFree."
    assert answering(text) == ["It **works** here.", "Free."]


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=ENTRIES)
def test_a_list_of_references_answers_nothing_in_html_and_plain_text(entries: list[str]) -> None:
    shown = [entry.removeprefix("- ") for entry in entries]
    page = "<h2>A page</h2><p>It works.</p><h2>References</h2><ul>" + "".join(f"<li>{entry}</li>" for entry in shown) + "</ul>"
    assert answering(page) == ["It works."]
    assert answering("A page\n\nIt works.\n\nReferences\n\n" + "\n\n".join(shown)) == ["It works."]


def test_links_elsewhere_answer_nothing_below_notes_with_links_back() -> None:
    links = "## External links[edit]\n\n- Official website, including the manifesto\n- Mozilla Wiki\n"
    notes = "## Notes[edit]\n\n- ^ About the corporation.\n\n"
    assert answering("# A page\n\nIt works.\n\n" + notes + links) == ["It works."]
    assert answering("# A page\n\nIt works.\n\n" + links)[1:] == ["Official website, including the manifesto", "Mozilla Wiki"]


@pytest.mark.parametrize(
    "section",
    [
        "The algorithm was first described in 2019 by Smith, who also wrote the first implementation of it.",
        "- [Attention is all you need](https://example.org/1706) describes the model that we train (2017).",
        "- The paper that describes this tool is in preparation.",
        "- `Billion Laughs` on the pages of an encyclopedia, which explain the attack.",
    ],
)
@pytest.mark.parametrize("title", ["References", "See also", "Notes"])
def test_prose_and_links_below_a_title_of_references_answer(title: str, section: str) -> None:
    assert answering(f"# Tool\n\nIt works.\n\n## {title}\n\n{section}\n") == ["It works.", section.removeprefix("- ")]


def test_a_request_to_cite_answers() -> None:
    text = "# Tool\n\nIt works.\n\n## Citation\n\nIf you use it, please cite Smith, J. (2020). A tool. Journal of Tools.\n"
    assert len(answering(text)) == 2
