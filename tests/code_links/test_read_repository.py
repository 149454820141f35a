"""Which papers a README makes a repository's own, and which it only names."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.code_links.read_record import read_evidence
from outrider.state.code_links import OWN
from outrider.state.records import Identifiers, Repository


def read_own(text: str, name: str = "lab/snowfall", **fields: Any) -> set[str]:
    record = Repository(doc_id=f"github:{name}", title=name, text=text, identifiers=Identifiers(github=name), **fields)
    return {one.work for one in read_evidence(record) if one.kind in OWN}


BADGE = "[![DOI](https://img.shields.io/badge/DOI-10.1000%2Fsnow-blue)](https://doi.org/10.1000/snow)"
BIBTEX = """```bibtex
@article{x, title={Snowfall: weather at scale}, author={Frost, Jack},
  doi = {10.1000/snow}}
```"""


@pytest.mark.parametrize(
    "text",
    [
        "# Snowfall\n\n[![JOSS](https://joss.theoj.org/papers/10.21105/joss.01234/status.svg)](https://doi.org/10.21105/joss.01234)\n",
        f"# Snowfall\n\n## Citation\n\nIf you use Snowfall, please cite:\n\n{BIBTEX}\n",
        "# Snowfall\n\nThis is the official implementation of [Weather at scale](https://arxiv.org/abs/2101.00001).\n",
        "# Snowfall\n\nThe official PyTorch code of the paper *Weather at scale* ([arXiv:2101.00001](https://arxiv.org/abs/2101.00001v3)).\n",
        "# Snowfall\n\nIf you use this, please cite our paper <https://doi.org/10.1000/snow>.\n",
        "Snowfall\n========\n\nPlease cite `Frost et al. <https://doi.org/10.1000/snow>`_ if you use it.\n",
        "# Snowfall\n\n## How to cite\n\nFrost, J. (2021). Snowfall: weather at scale. *J. Weather* 3, 1. https://doi.org/10.1000/snow.\n",
    ],
)
def test_a_request_to_cite_a_badge_or_an_official_implementation_makes_a_paper_own(text: str) -> None:
    assert len(read_own(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# Snowfall\n\nThe algorithm is inspired by [Winter](https://doi.org/10.1000/winter).\n",
        "# Snowfall\n\nAn unofficial implementation of [Winter](https://arxiv.org/abs/2101.00001).\n",
        "# Snowfall\n\nA reimplementation of the paper https://arxiv.org/abs/2101.00001 in Rust.\n",
        "# Snowfall\n\nWe evaluate on the [Winter data set](https://doi.org/10.5061/dryad.abc12).\n",
        "# Snowfall\n\n| model | paper |\n|---|---|\n| BERT | [Devlin](https://arxiv.org/abs/1810.04805) |\n",
        "# Snowfall\n\n## References\n\n[1] Devlin et al. BERT. https://arxiv.org/abs/1810.04805\n[2] Ho et al. https://arxiv.org/abs/2006.11239\n",
        "# Snowfall\n\nLoad a work: `get('10.1000/other')`, or https://doi.org/10.1000/other.\n",
        "# Snowfall\n\n## Citation\n\nIf you use the Winter data set, please also cite the Winter paper (https://doi.org/10.1000/winter).\n",
        "# Snowfall\n\nThis repository reproduces the results of the paper [Snowfall](https://arxiv.org/abs/2101.00001) by Ho et al.\n",
        "# Snowfall\n\n## Acknowledgements\n\nThis code is based on [Winter](https://doi.org/10.1000/winter), thanks to its authors.\n",
    ],
)
def test_a_paper_of_others_stays_one(text: str) -> None:
    assert read_own(text) == set()


def test_of_several_dois_only_the_papers_of_the_repository_are_own() -> None:
    text = f"""# Snowfall

{BADGE}

Snowfall implements the method of [Winter et al.](https://doi.org/10.1000/winter) on top of [Ice](https://doi.org/10.1000/ice).

## Citation

{BIBTEX}

If you use the ice data set, please also cite the Ice paper:

```bibtex
@article{{i, title={{Ice: a corpus}}, author={{Glacier, Ann}}, doi={{10.1000/ice}}}}
```
"""
    assert read_own(text) == {"doi:10.1000/snow"}


def test_a_zenodo_doi_is_an_archive_and_no_paper() -> None:
    text = "# Snowfall\n\n[![DOI](https://zenodo.org/badge/DOI/10.5281/zenodo.1234.svg)](https://doi.org/10.5281/zenodo.1234)\n"
    record = Repository(doc_id="github:lab/snowfall", title="lab/snowfall", text=text, identifiers=Identifiers(github="lab/snowfall"))
    assert {(one.work, one.kind) for one in read_evidence(record)} == {("doi:10.5281/zenodo.1234", "archive")}


def test_a_fork_and_a_mirror_have_no_paper_of_their_own() -> None:
    text = f"# Snowfall\n\n## Citation\n\nPlease cite:\n\n{BIBTEX}\n"
    assert read_own(text) == {"doi:10.1000/snow"}
    assert read_own(text, "someone/snowfall", is_fork=True) == set()
    assert read_own(text, "someone/snowfall", description="Mirror of https://gitlab.com/lab/snowfall") == set()


def test_a_list_of_papers_owns_none_of_them() -> None:
    papers = "\n".join(f"- [Paper {n}](https://arxiv.org/abs/2101.{n:05}) [code](https://github.com/a/b{n})" for n in range(1, 30))
    assert read_own(f"# Awesome snow\n\nA curated list of papers.\n\n{papers}\n", "lab/awesome-snow") == set()


def test_an_entry_without_identifier_is_known_by_its_title() -> None:
    text = "# Snowfall\n\n## Citing\n\n```\n@inproceedings{s, title={Snowfall: Fast {Weather} at {S}cale}, booktitle={ICML}}\n```\n"
    assert read_own(text) == {"title:snowfall fast weather at scale"}


def test_a_citation_of_the_software_itself_is_no_paper() -> None:
    text = "# Snowfall\n\n## Citing\n\n```\n@misc{s, title={Snowfall: fast weather at scale}, author={J. Frost}, howpublished={\\url{https://github.com/lab/snowfall}}}\n```\n"
    assert read_own(text) == set()


def test_a_repository_of_any_host_has_a_name() -> None:
    text = f"# Snowfall\n\n## Citation\n\nPlease cite:\n\n{BIBTEX}\n"
    record = Repository(doc_id="x", title="Snowfall", text=text, url="https://codeberg.org/lab/snowfall")
    assert {(one.work, one.target) for one in read_evidence(record) if one.kind in OWN} == {("doi:10.1000/snow", "codeberg:lab/snowfall")}


def test_evidence_names_line_heading_offsets_and_words() -> None:
    text = "# Snowfall\n\n## Citation\n\nPlease cite our paper https://doi.org/10.1000/snow.\n"
    record = Repository(doc_id="github:lab/snowfall", title="lab/snowfall", text=text, identifiers=Identifiers(github="lab/snowfall"))
    (evidence,) = read_evidence(record)
    assert (evidence.place, evidence.line, evidence.field) == ("README", 5, "Citation")
    assert text[evidence.start : evidence.end].startswith("10.1000/snow")
    assert "Please cite our paper" in evidence.words


def test_hostile_texts_are_read_in_linear_time() -> None:
    for text in (
        "[" * 50_000,
        "@article{" * 10_000,
        "{" * 50_000,
        "10.1000/" * 20_000,
        "a=" * 50_000,
        "| " * 50_000 + "10.1000/x",
        "arxiv:" * 20_000,
    ):
        read_own(f"doi.org {text}")
