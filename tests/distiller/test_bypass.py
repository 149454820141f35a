from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.bypass import Worth, passed, why_bypass
from outrider.distiller.distiller import Distiller
from outrider.distiller.selection import Keeping
from outrider.distiller.token_budget import token_bound
from outrider.state.distilling import Reading
from support.distiller_fakes import Fixed, texts


def test_short_texts_and_dear_engines_are_bypassed() -> None:
    assert "short already" in why_bypass(100, 5, Worth(short_tokens=100))
    assert why_bypass(101, 5, Worth(short_tokens=100)) == ""
    dear = Worth(0, token_ms=5.0, units_a_second=50.0, left_out=0.3)
    assert why_bypass(1_000, 50, dear) == ""  # 1 s against 1.5 s
    assert "1.6 s" in why_bypass(1_000, 80, dear)
    assert why_bypass(1_000, 80, Worth(0, 0.0, 50.0)) == ""


@given(st.lists(texts, max_size=3), st.integers(0, 200), st.sampled_from([1.0, math.inf]))
def test_what_passes_is_whole_and_fits(said: list[str], most: int, rate: float) -> None:
    readings = [Reading(f"d{at}", text, key=f"[{at + 1}]") for at, text in enumerate(said)]
    found = Distiller(Fixed([0.9]), keeping=Keeping(max_tokens=most), worth=Worth(units_a_second=rate)).distil("q", readings)
    assert token_bound(found.text) == found.tokens <= most
    if found.bypassed:
        assert [unit.text for unit in found.units] == [text.strip() for text in said if text.strip()]
        assert all(unit.text == said[int(unit.doc_id[1:])][unit.start : unit.end] for unit in found.units)
        assert found.removed == 0


def test_a_text_of_blanks_gives_nothing() -> None:
    assert passed([Reading("a", " \n")]) == ()
