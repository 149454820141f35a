from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.clustering import Groups

PLACES = st.integers(0, 11)


@given(st.lists(st.tuples(PLACES, PLACES)))
def test_groups_are_what_pairs_connect(pairs: list[tuple[int, int]]) -> None:
    groups = Groups(12)
    for one, other in pairs:
        groups.join(one, other)
    members = groups.members()
    assert sorted(at for group in members for at in group) == list(range(12))
    assert [group[0] for group in members] == sorted(min(group) for group in members)
    assert all(groups.together(one, other) for one, other in pairs)
    for group in members:
        reached = {group[0]}
        for _ in group:
            reached |= {at for pair in pairs if reached & set(pair) for at in pair}
        assert reached == set(group)
        assert {groups.size(at) for at in group} == {len(group)}
        assert {groups.root(at) for at in group} == {group[0]}
