"""`outrider.dedup`."""

from __future__ import annotations

from pathlib import Path

import pytest

import outrider
from outrider.state.errors import BadRequest

TABLE = """id,title,authors,year,doi,journal
1,Aspirin and acute liver injury in adults,"Bell, A.",2020,10.1000/x,BMJ
2,Aspirin and acute liver injury in adults.,"Bell, Ann",2020,https://doi.org/10.1000/X,
3,Rain over Bergen,"Dahl, B.",2019,,Weather
"""


def test_groups_reasons_and_works(tmp_path: Path) -> None:
    (tmp_path / "refs.csv").write_text(TABLE, encoding="utf-8")
    found = outrider.dedup(tmp_path / "refs.csv")
    assert found.groups == (("1", "2"), ("3",))
    assert [bool(lines) for lines in found.reasons] == [True, False]
    assert found.works[0].metadata["merged"] == ["1", "2"]
    assert not found.unsure


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"none\.csv"):
        outrider.dedup(tmp_path / "none.csv")
