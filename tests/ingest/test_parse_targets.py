"""Arguments as paths, works and pages, and the refusal of malformed targets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.ingest.targets import FORMS, PAGE, Target, parse_target, split_targets
from outrider.state.errors import BadRequest


@pytest.mark.parametrize(
    ("argument", "scheme", "value"),
    [
        ("doi:10.1000/XYZ", "doi", "10.1000/xyz"),
        ("DOI: 10.1000/xyz", "doi", "10.1000/xyz"),
        ("doi:https://doi.org/10.1000/xyz", "doi", "10.1000/xyz"),
        ("arXiv:2101.00001v3", "arxiv", "2101.00001"),
        ("arxiv:hep-th/9901001", "arxiv", "hep-th/9901001"),
        ("doi:10.48550/arXiv.2101.00001", "arxiv", "2101.00001"),
        ("pmid:0123", "pmid", "123"),
        ("pmcid:PMC12", "pmcid", "PMC12"),
        ("pmcid:12", "pmcid", "PMC12"),
        ("github:PSF/Requests", "github", "psf/requests"),
        ("github:https://github.com/psf/requests", "github", "psf/requests"),
        ("https://www.example.org/doi/full/10.1000/xyz?download=1", "doi", "10.1000/xyz"),
        ("https://doi.org/10.48550/arXiv.2101.00001", "arxiv", "2101.00001"),
        ("https://arxiv.org/pdf/2101.00001v2", "arxiv", "2101.00001"),
        ("https://pubmed.ncbi.nlm.nih.gov/123/", "pmid", "123"),
        ("https://pmc.ncbi.nlm.nih.gov/articles/PMC12/", "pmcid", "PMC12"),
        ("https://github.com/psf/requests", "github", "psf/requests"),
        ("https://example.org/a?b=1#part", PAGE, "https://example.org/a?b=1"),
        ("http://example.org/", PAGE, "http://example.org/"),
        ("ftp://example.org/x", PAGE, "ftp://example.org/x"),
    ],
)
def test_targets(argument: str, scheme: str, value: str) -> None:
    assert parse_target(argument) == Target(scheme, value)


@pytest.mark.parametrize(
    "argument",
    ["doi:foo", "doi:", "doi:10.1000", "doi:10.1000/x y", "arxiv:x", "pmid:PMC1", "pmid:0", "pmcid:x", "github:owner", "github:a/b/c"],
)
def test_what_no_scheme_can_hold_is_refused(argument: str) -> None:
    with pytest.raises(BadRequest, match="write for example"):
        parse_target(argument)


@pytest.mark.parametrize("argument", ["notes.md", r"C:\papers\doi", "isbn:1", "10.1000/x", "doi", "a/doi:10.1000/x", "./doi:foo", ""])
def test_anything_else_is_a_path(argument: str) -> None:
    assert parse_target(argument) is None


def test_a_path_that_exists_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it looks like, also a link that leads nowhere; a path object is always a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doi:10.1000").mkdir()
    (tmp_path / "doi:10.1000" / "x").write_text("# Note")
    (tmp_path / "pmid:1").symlink_to("nowhere")
    (tmp_path / "doi:foo").write_text("# Another")
    arguments = ["doi:10.1000/x", "pmid:1", "doi:foo", "doi:10.1000/y", Path("arxiv:2101.00001")]
    assert split_targets(arguments) == ([Path(arguments[at]) for at in (0, 1, 2, 4)], [Target("doi", "10.1000/y")])


def test_each_is_requested_once_however_it_is_written() -> None:
    arguments = ["https://doi.org/10.1000/X", "doi:10.1000/x", "https://example.org/a#b", "https://example.org/a", "\0"]
    assert split_targets(arguments) == ([Path("\0")], [Target("doi", "10.1000/x"), Target(PAGE, "https://example.org/a")])


@given(st.sampled_from([*FORMS, "http", "C", "x"]), st.sampled_from([":", "://", " : "]), st.text(max_size=30))
def test_a_target_is_normal_or_refused(scheme: str, between: str, rest: str) -> None:
    """Nothing else is raised, and what a target writes as its origin names that target again."""
    try:
        target = parse_target(scheme + between + rest)
    except BadRequest:
        return
    if target and target.scheme != PAGE:
        assert parse_target(str(target)) == target
