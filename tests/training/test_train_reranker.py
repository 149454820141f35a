from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import yaml

from outrider.library.library import Library
from outrider.state.errors import BadRequest, ModelUnavailable
from outrider.training import trainable_cross_encoder as model
from outrider.training.model_card import FRONT_MATTER, RECORD, read_licence, read_trained_ids, refuse_foreign, replace_folder
from outrider.training.train_reranker import train_reranker
from outrider.training.training_loop import Recipe

QUICK = Recipe(pairs=150, epochs=1, max_length=48, learning_rate=1e-3)


def list_names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_training_writes_a_folder_that_searches_can_use(shelf: Library, tiny_base: str, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    progress: list[tuple[str, int, int]] = []
    out = tmp_path / "deep" / "mine"
    report = await train_reranker(
        shelf, out, base=tiny_base, recipe=QUICK, device="cpu", progress=lambda doing, done, of, known: progress.append((doing, done, of))
    )
    assert report.saved
    assert not report.interrupted
    assert 0 < report.words_ndcg <= 1
    loaded = CrossEncoder(str(out), device="cpu", local_files_only=True)
    assert loaded.num_labels == 1
    assert loaded.max_seq_length == 48
    assert len(loaded.predict([("zinc and the lung", "Zinc and the lung in adults"), ("a", "b")])) == 2
    assert json.loads((out / RECORD).read_text())["recipe"]["seed"] == 0
    assert (out / "model.safetensors").is_file()
    record = json.loads((out / RECORD).read_text())
    assert (record["out"], record["base"]) == ("mine", "tiny-bert")
    assert not [
        file.name for file in out.iterdir() if tiny_base.encode() in file.read_bytes() or str(tmp_path).encode() in file.read_bytes()
    ]
    trained_ids = read_trained_ids(str(out))
    assert trained_ids == frozenset(json.loads((out / RECORD).read_text())["trained_on"])
    assert 0 < len(trained_ids) < await shelf.count()
    assert {doing for doing, _, _ in progress} == {"loading the base", "making pairs", "training"}
    assert progress[-1][1:] == (report.steps, report.planned)
    assert list_names(out.parent) == ["mine"]


async def test_the_card(shelf: Library, tiny_base: str, tmp_path: Path) -> None:
    report = await train_reranker(shelf, tmp_path / "mine", base=tiny_base, recipe=QUICK, device="cpu")
    text = (tmp_path / "mine" / "README.md").read_text()
    front = FRONT_MATTER.match(text)
    assert front is not None
    fields = yaml.safe_load(front.group(1))
    assert (fields["license"], fields["pipeline_tag"], fields["library_name"]) == ("mit", "text-ranking", "sentence-transformers")
    assert "base_model" not in fields  # a folder here is no name on a hub
    assert str(tmp_path) not in text
    for expected in (report.snapshot, f"{report.words_ndcg:.3f}", f"{report.reranker_ndcg:.3f}", "tiny-bert", "| Seed | 0 |", "## Limits"):
        assert expected in text


async def test_an_earlier_training_is_replaced_and_nothing_else(shelf: Library, tiny_base: str, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / RECORD).write_text("{}")
    (out / "old").write_text("")
    await train_reranker(shelf, out, base=tiny_base, recipe=QUICK, device="cpu")
    assert not (out / "old").exists()
    assert list_names(tmp_path) == ["mine"]


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.doc").write_text("years of work")
    with pytest.raises(BadRequest, match="something other"):
        refuse_foreign(tmp_path)
    with pytest.raises(BadRequest, match="is a file"):
        refuse_foreign(tmp_path / "thesis.doc")
    with pytest.raises(BadRequest, match="cannot be written"):
        refuse_foreign(tmp_path / "thesis.doc" / "below")


def test_other_rerankers_have_no_trained_ids(tmp_path: Path) -> None:
    assert read_trained_ids("BAAI/bge-reranker-v2-m3") == frozenset()
    for text in ("{", "[]", '{"trained_on": 1}', "{}"):
        (tmp_path / RECORD).write_text(text)
        assert read_trained_ids(str(tmp_path)) == frozenset()


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / RECORD).write_text("old")

    def write() -> None:
        with replace_folder(out) as new_folder:
            (new_folder / "model").write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(BadRequest, match="No space left"):
        write()
    assert (out / RECORD).read_text() == "old"
    assert list_names(tmp_path) == ["mine"]


def test_a_failed_replacement_restores_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / RECORD).write_text("old")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target == out and not path.name.endswith(".before"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(BadRequest, match="Input/output error"), replace_folder(out) as new_folder:
        (new_folder / RECORD).write_text("new")
    assert (out / RECORD).read_text() == "old"
    assert list_names(tmp_path) == ["mine"]


@pytest.mark.parametrize(("after", "saved"), [(1, False), (8, True)])
async def test_cancelling_saves_the_best_so_far(shelf: Library, tiny_base: str, tmp_path: Path, after: int, saved: bool) -> None:
    loop = asyncio.get_running_loop()
    recipe = Recipe(pairs=150, epochs=1_000, max_length=48, checks_an_epoch=1, patience=1_000)

    def cancel(doing: str, done: int, of: int, known: str) -> None:
        if doing == "training" and done == after:
            loop.call_soon_threadsafe(work.cancel)

    work = asyncio.create_task(train_reranker(shelf, tmp_path / "mine", base=tiny_base, recipe=recipe, device="cpu", progress=cancel))
    report = await work
    assert report.interrupted
    assert report.steps < report.planned
    if saved:
        assert report.saved
        assert (tmp_path / "mine" / "model.safetensors").is_file()
    else:
        assert report.saved == (tmp_path / "mine").exists()


async def test_a_missing_or_corrupt_base(shelf: Library, tiny_base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    broken = tmp_path / "broken"
    shutil.copytree(tiny_base, broken)
    (broken / "model.safetensors").write_bytes(b"not weights")
    (tmp_path / "empty").mkdir()
    bare = tmp_path / "bare"
    shutil.copytree(tiny_base, bare)
    (bare / "config.json").write_text("{")
    for base in (tmp_path / "none", broken, tmp_path / "empty", bare):
        with pytest.raises(ModelUnavailable, match="give --base"):
            await train_reranker(shelf, tmp_path / "mine", base=str(base), recipe=QUICK, device="cpu")
    assert not (tmp_path / "mine").exists()


def test_errors_name_the_setting_to_change_and_keep_paths(tiny_base: str, tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match=r"reranker\.device is cuda:99, which torch does not find here"):
        model.load(tiny_base, 48, 0, "cuda:99")
    with pytest.raises(ModelUnavailable, match=r"/embedding\.v2: there is no such folder; give --base"):
        model.load(str(tmp_path / "embedding.v2"), 48, 0, "cpu")


def test_a_base_that_does_not_fit_into_memory(tiny_base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def scarce(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("sentence_transformers.CrossEncoder", scarce)
    with pytest.raises(ModelUnavailable, match=r"does not fit into memory; set --base to a smaller model or reranker\.device to cpu"):
        model.load(tiny_base, 48, 0, "cpu")


def test_the_licence_of_a_base(tmp_path: Path, tiny_base: str) -> None:
    assert read_licence(tiny_base) == "mit"
    assert read_licence(str(tmp_path)) is None
    for text in ("no front matter", "---\n: [\n---\n", "---\n- a\n---\n", "---\nlicense: [a]\n---\n"):
        (tmp_path / "README.md").write_text(text)
        assert read_licence(str(tmp_path)) is None


def test_the_length_is_limited_to_that_of_the_base(tiny_base: str) -> None:
    assert model.load(tiny_base, 8_192, 0, "cpu").max_length == 64


def test_the_working_folder_can_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "here"
    out.mkdir()
    monkeypatch.chdir(out)
    refuse_foreign(Path())
    with replace_folder(Path()) as new_folder:
        (new_folder / RECORD).write_text("{}")
    assert list_names(out) == [RECORD]
    assert list_names(tmp_path) == ["here"]
