r"""LaTeX of bibliographies to text, and text to LaTeX."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.ingest.latex import MAX_BRACES, decode, encode


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r'M{\"u}ller and \c{C}elik', "Müller and Çelik"), (r"{\ss}", "ß"), ("{Deep} learning", "Deep learning"),
        (r"50% of \& & \#1, a\_b", "50% of & & #1, a_b"), ("one--two", "one–two"), ("``quoted''", "“quoted”"), ("a~b", "a b"),
        (r"the $x^2$ of \emph{it}", "the $x^2$ of it"), (r"\url{http://example.org/a_b}", "http://example.org/a_b"),
        (r"p{\textless}0.05, {\textless}i{\textgreater}E. coli{\textless}/i{\textgreater}", "p<0.05, <i>E. coli</i>"),
        (r"\mbox{TNF}-{\textalpha}, IL-1\textbeta, a{\textbar}b", "TNF-α, IL-1β, a|b"),
        (r"5{\textpercent} \texttt{x}{\textperiodcentered}y", "5% x·y"),
        (r"\unknown{kept}", "kept"), ("plain, as it is", "plain, as it is"),
    ],
)  # fmt: skip
def test_what_latex_would_set(source: str, text: str) -> None:
    assert decode(source) == text


def test_what_is_nested_too_deeply_stays() -> None:
    """Decoding recurses."""
    source = "{" * (MAX_BRACES + 1) + "a" + "}" * (MAX_BRACES + 1)
    assert decode(source) == source
    assert decode(source[1:-1]) == "a"


LINES = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)) | st.sampled_from("äßÇ–中"), max_size=20)


@settings(max_examples=150, deadline=None)
@given(LINES)
def test_encoded_text_decodes_to_itself(text: str) -> None:
    """But for white space; and its braces are balanced."""
    source = encode(text)
    assert "".join(decode(source).split()) == "".join(text.split())
    assert source.count("{") == source.count("}")
