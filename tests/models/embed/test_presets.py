from __future__ import annotations

import pytest

from outrider.models.embed.presets import LARGE, LARGE_NEEDS, MEDIUM, PRESETS, SMALL, find_preset, list_auto_models


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_a_preset_is_found_by_its_name_in_any_case_and_by_its_last_part(preset: object) -> None:
    name = preset.name  # type: ignore[attr-defined]
    last = name.rpartition("/")[2]
    for written in (name, name.upper(), last, last.lower(), f"/models/{last}", f"/models/{last}/", f"C:\\models\\{last}"):
        assert find_preset(written) is preset


def test_a_model_that_is_no_preset_has_none() -> None:
    assert find_preset("somebody/else") is None
    assert find_preset("") is None


def test_auto_takes_open_models_that_read_32k_tokens_on_an_accelerator_and_small_ones_on_a_cpu() -> None:
    assert list_auto_models("cuda:0", LARGE_NEEDS)[:2] == (LARGE, MEDIUM)
    assert list_auto_models("cuda", LARGE_NEEDS - 1)[0] == list_auto_models("mps", 0)[0] == MEDIUM
    assert list_auto_models("cpu", 0) == SMALL
    for name in list_auto_models("cuda", LARGE_NEEDS):
        preset = find_preset(name)
        assert preset is not None
        assert not preset.needs_own_code
        assert "NC" not in preset.licence
