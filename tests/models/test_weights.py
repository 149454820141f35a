"""Where weights are found; the hub is played by a server on loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from outrider.models import weights
from outrider.models.weights import SettingNames, find_weights, fingerprint, is_cached, is_same_model, refuse_own_code
from outrider.state.errors import ModelUnavailable

huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs outrider[models]")
constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "a" * 40


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """A hub that answers every request with the last status and `x-error-code` put into the list."""
    answers: list[tuple[int, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answers[-1][0])
            self.send_header("x-error-code", answers[-1][1])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield answers
    server.shutdown()
    server.server_close()


def put(cache: Path, name: str, commit: str = COMMIT) -> Path:
    """A model as the hub's client keeps it."""
    repository = cache / f"models--{name.replace('/', '--')}"
    folder = repository / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    return folder


def test_a_cached_model_is_found_without_a_network_by_its_commit(empty_cache: Path) -> None:
    folder = put(empty_cache, "BAAI/bge-small-en-v1.5")
    for name in ("BAAI/bge-small-en-v1.5", "baai/BGE-small-en-v1.5", "bge-small-en-v1.5"):
        assert find_weights(name, fetch=False) == weights.Weights("BAAI/bge-small-en-v1.5", folder, COMMIT)


def test_a_name_without_owner_is_of_sentence_transformers(empty_cache: Path) -> None:
    put(empty_cache, "sentence-transformers/some-model")
    assert find_weights("some-model", fetch=False).name == "sentence-transformers/some-model"


def test_the_version_that_a_library_holds_is_found_next_to_a_newer_one(empty_cache: Path) -> None:
    put(empty_cache, "a/b", "b" * 40)
    old = put(empty_cache, "a/b", COMMIT)
    (empty_cache / "models--a--b" / "refs" / "main").write_text("b" * 40)
    assert find_weights("a/b", fetch=False, revision=COMMIT).folder == old
    assert find_weights("a/b", fetch=False).revision == "b" * 40


def test_missing_weights_are_named_with_the_command_to_get_them() -> None:
    with pytest.raises(ModelUnavailable, match=r"set embedding\.model_name to a/b: naming a model lets it be fetched"):
        find_weights("a/b", fetch=False)


def in_shards(folder: Path, *there: str, of: tuple[str, ...] = ("one.safetensors", "two.safetensors")) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {f"layer.{at}": name for at, name in enumerate(of)}}))
    for name in there:
        (folder / name).write_bytes(b"weights")


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_pooling(folder: Path, *, there: bool = True) -> None:
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    (folder / "modules.json").write_text(
        json.dumps([{"type": f"sentence_transformers.models.{kind}", "path": path} for path, kind in kinds])
    )
    if there:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text("{}")


def in_a_subfolder(folder: Path) -> None:
    """As early versions of sentence-transformers saved models."""
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer", "path": "0_Transformer"}]))
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).rename(folder / "0_Transformer" / name)


def dangling(folder: Path) -> None:
    """A link to a file whose download did not end."""
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "blob")


Changes = Callable[[Path], None]
WHOLE: list[Changes] = [
    lambda _: None,
    as_pickle,
    with_pooling,
    in_a_subfolder,
    lambda folder: in_shards(folder, "one.safetensors", "two.safetensors"),
    lambda folder: (folder / "tokenizer.json").rename(folder / "spiece.model") and None,
]
IN_PART: list[Changes] = [
    lambda folder: (folder / "model.safetensors").unlink(),
    lambda folder: (folder / "config.json").unlink(),
    lambda folder: (folder / "tokenizer.json").unlink(),
    lambda folder: in_shards(folder, "one.safetensors"),
    lambda folder: with_pooling(folder, there=False),
    dangling,
]


@pytest.mark.parametrize("changed", WHOLE)
def test_a_whole_model_in_the_cache_is_taken(empty_cache: Path, changed: Changes) -> None:
    changed(put(empty_cache, "a/b"))
    assert is_cached("a/b")


@pytest.mark.parametrize("changed", IN_PART)
def test_a_model_that_was_fetched_in_part_is_fetched_again_where_it_is_named(
    empty_cache: Path, hub: list[tuple[int, str]], changed: Changes
) -> None:
    changed(put(empty_cache, "a/b"))
    hub.append((404, "RepoNotFound"))
    assert not is_cached("a/b")
    with pytest.raises(ModelUnavailable, match=r"only in part on this machine; set embedding\.model_name to a/b"):
        find_weights("a/b", fetch=False)
    with pytest.raises(ModelUnavailable, match="only in part on this machine and the hub gives no more"):
        find_weights("a/b", fetch=True)


def test_the_rest_of_a_model_that_is_named_is_fetched(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(empty_cache, "a/b")
    (folder / "model.safetensors").unlink()

    def download(name: str, *, local_files_only: bool, **_: object) -> str:
        if not local_files_only:
            (folder / "model.safetensors").write_bytes(b"weights")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find_weights("a/b", fetch=True) == weights.Weights("a/b", folder, COMMIT)
    assert is_cached("a/b")


def test_a_message_names_the_setting_that_was_used(hub: list[tuple[int, str]]) -> None:
    hub.append((404, "RepoNotFound"))
    names = SettingNames("reranker.model_name", "reranker.device", "reranker.base_url")
    with pytest.raises(ModelUnavailable, match=r"set reranker\.model_name to a/b"):
        find_weights("a/b", fetch=False, names=names)
    with pytest.raises(ModelUnavailable, match=r"give another reranker\.model_name"):
        find_weights("a/b", fetch=True, names=names)


@pytest.mark.parametrize("where", ["iterdir", "is_dir", "open"])
def test_a_folder_that_may_not_be_read_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    folder = put(tmp_path, "a/b")

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, where, refuse)
    with pytest.raises(ModelUnavailable, match=f"the files of the model {folder} cannot be read: .*Permission denied") as caught:
        find_weights(str(folder), fetch=True)
    assert "\n" not in str(caught.value)


def test_a_name_that_no_folder_can_have() -> None:
    with pytest.raises(ModelUnavailable, match=r"cannot be read: .*too long"):
        find_weights("a" * 5_000, fetch=True)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, "RepoNotFound"), "the hub has no model a/b"),
        ((401, "RepoNotFound"), "the hub has no model a/b"),
        ((403, "GatedRepo"), "a/b is gated: accept its terms at https://huggingface.co/a/b"),
        ((500, ""), "the hub cannot be reached"),
    ],
)
def test_a_hub_that_refuses_is_reported_in_one_line(hub: list[tuple[int, str]], answer: tuple[int, str], message: str) -> None:
    hub.append(answer)
    with pytest.raises(ModelUnavailable, match=message) as caught:
        find_weights("a/b", fetch=True)
    assert "\n" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match="not on this machine and the hub cannot be reached"):
        find_weights("a/b", fetch=True)
    assert time.monotonic() - began < weights.HUB_TIMEOUT_S


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/no/such/folder", "there is no such folder"),
        ("./nothing", "there is no such folder"),
        ("~/nothing/here", "there is no such folder"),
        ("a/b/c", "there is no such folder"),
        ("not a name!", "neither a folder nor a name that the hub can have"),
        (__file__, "a model is a folder, this is a file"),
    ],
)
def test_names_that_mean_nothing(name: str, message: str) -> None:
    with pytest.raises(ModelUnavailable, match=message):
        find_weights(name, fetch=True)


def test_a_fingerprint_follows_the_contents_not_the_place(tmp_path: Path) -> None:
    first, second = put(tmp_path / "x", "a/b"), put(tmp_path / "y", "a/b")
    assert fingerprint(first) == fingerprint(second)
    (second / "README.md").write_text("words")
    assert fingerprint(first) == fingerprint(second)
    (second / "model.safetensors").write_bytes(b"Weights")
    assert fingerprint(first) != fingerprint(second)


def test_the_fingerprint_of_large_weights_reads_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "FULL_HASH_BELOW", 10)
    monkeypatch.setattr(weights, "END_BYTES", 4)
    folder = put(tmp_path, "a/b")
    fingerprints = []
    for content in (b"head--middle--tail", b"head--MIDDLE--tail", b"head--middle--TAIL", b"HEAD--middle--tail", b"head--middle---tail"):
        (folder / "model.safetensors").write_bytes(content)
        fingerprints.append(fingerprint(folder))
    assert fingerprints[0] == fingerprints[1]
    assert len(set(fingerprints)) == 4


def test_names_that_mean_one_model() -> None:
    assert is_same_model("bge-m3", "BAAI/bge-m3")
    assert is_same_model("a/b", "A/b")
    assert not is_same_model("a/b", "a/c")


@pytest.mark.parametrize("modules", [[{"type": "modeling_own.Own"}], [{"type": "os.system"}]])
def test_a_folder_with_code_of_its_own_is_refused_before_it_runs(tmp_path: Path, modules: object) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelUnavailable, match="which Outrider does not run"):
        refuse_own_code(weights.Weights("own", tmp_path, ""))


@pytest.mark.parametrize("content", ["{", "[1]", "[{}]"])
def test_a_modules_file_that_cannot_be_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "modules.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"its modules\.json cannot be read"):
        refuse_own_code(weights.Weights("own", tmp_path, ""))
