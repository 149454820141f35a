"""Devices, memory, and how a failed load is reported. No model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.models.loading import catch_load_errors, choose_device
from outrider.models.weights import SettingNames, Weights
from outrider.state.errors import ModelUnavailable
from support.extras import needs

pytestmark = needs("torch")
RERANKER = SettingNames("reranker.model_name", "reranker.device", "reranker.base_url")


@pytest.mark.parametrize("device", ["cuda:7", "cuda:-1", "cpu:abc", "cpu:3", "tpu", "meta", "nonsense:3", ""])
def test_a_device_that_is_not_here(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with one GPU."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ModelUnavailable, match=f"reranker.device is {device}, which torch does not find here; set auto or cpu"):
        choose_device(device, RERANKER)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_a_device_that_is_here(device: str) -> None:
    assert choose_device(device) == (device, 0)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")]
)
def test_a_load_that_memory_does_not_hold(tmp_path: Path, error: Exception) -> None:
    message = "big does not fit into memory; set reranker.model_name to a smaller model or reranker.device to cpu"
    with pytest.raises(ModelUnavailable, match=message), catch_load_errors(Weights("big", tmp_path, ""), RERANKER):
        raise error


def test_a_path_in_a_message_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "embedding.v2"
    with (
        pytest.raises(ModelUnavailable, match=r"/embedding\.v2 is not a model's folder"),
        catch_load_errors(Weights("m", folder, ""), RERANKER),
    ):
        raise OSError("no config")
