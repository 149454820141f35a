from __future__ import annotations

from outrider.state.duplicate_decisions import Decision, Decisions


def test_a_pair_is_forgotten_alone() -> None:
    log = [Decision(what="split", ids=("a",)), Decision(what="merge", ids=("a", "b", "c")), Decision(what="split", ids=("a", "d"))]
    decisions = Decisions.from_log([*log, Decision(what="forget", ids=("a", "b")), Decision(what="forget", ids=("a", "d"))])
    assert sorted(decisions.same) == [("a", "c"), ("b", "c")]
    assert (list(decisions.different), list(decisions.alone)) == ([], ["a"])
