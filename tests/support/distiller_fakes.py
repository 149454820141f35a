"""Texts of every kind that is met, and engines that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.units import SegmentedText

ODD = (
    "",
    " \n\t ",
    "word",
    "no punctuation at all just words one after another",
    "word " * 200_000,
    "x" * 1_000_000,
    "هذا نص عربي. هل يعمل؟ نعم، يعمل.",
    "זה טקסט בעברית. הוא עובד!",
    "😀🎉👩‍👩‍👧 🚀\n😀",
    "| a | b |\n|---|---|\n| 1 | 2.5 mg |\n\na\tb\tc\n1\t2\t3",
    "<h1>Title</h1><p>One. Two &amp; three.</p><br/><script>if (a < b) { x(); }</script>",
    "```py\nx = 1. \ny = 'Not. One.'\n```\nAfter it.",
    "深度学习。很好！真的？" * 50,
    "\ud800 half a pair. And more.",
    "." * 10_000,
    "\n" * 10_000,
)

texts = st.one_of(
    st.sampled_from([one for one in ODD if len(one) < 1_000]),
    st.text(alphabet="Ab. !?\n#-\"'1。é😀|\t`<>/p", max_size=300),
    st.lists(
        st.sampled_from(
            [
                "Aspirin lowers the risk of stroke by 5 mg.",
                "This was not seen in mice.",
                "It failed.",
                "# Results",
                "Methods\n",
                "We studied 20 adults.",
                "- an item of a list",
                "Aspirin lowers risk of a stroke by 5 mg.",
            ]
        ),
        max_size=12,
    ).map("\n".join),
)


@dataclass
class Fixed:
    """Returns its fixed scores, over and over; records the queries."""

    values: Sequence[float]
    name: str = "fixed"
    revision: str = "1"
    queries: list[str] = field(default_factory=list)

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        self.queries.append(query)
        return [[self.values[at % len(self.values)] for at in range(len(its.units))] for its in cuts]
