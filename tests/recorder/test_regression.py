"""Recorded runs of our own services still give the response that they gave."""

from __future__ import annotations

from pathlib import Path

import pytest

import outrider
from outrider.recorder.recording import read_recording
from outrider.version import __version__

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.zip"))
RENEW = "if the change is wanted: PYTHONPATH=src:tests python -m support.make_recordings"


def test_there_is_a_recording_of_each_kind() -> None:
    kinds = {read_recording(file).index.kind for file in RECORDINGS}
    assert kinds == {"search", "analyze", "citations", "candidates", "systematic"}


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_recorded_run_gives_the_response_of_then(file: Path) -> None:
    """Another version of Outrider has another provenance hash, and nothing else that differs."""
    result = outrider.replay_recording(file)
    version = read_recording(file).index.outrider
    wanted = ("version", "environment") if version != __version__ else ()
    differences = [one.describe() for one in result.differences if one.part not in wanted and not one.name.endswith("provenance_hash")]
    assert differences == [], f"first at node {result.first_node}; {RENEW}"
    assert result.same or version != __version__
    assert all(same for _, same in result.nodes)
