"""Files that are no recordings, or hostile ones, are refused with the reason; a recording holds no secret."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

import outrider
from outrider.interfaces.cli import run
from outrider.recorder import recording as recordings
from outrider.recorder.codec import Decoder, Encoder, Unreadable, digest, dump, find_type
from outrider.recorder.make_recording import may_pass_on
from outrider.recorder.ports import Port
from outrider.recorder.recording import INDEX, is_recording, read_recording
from outrider.settings.model import LibrarySettings, TextsToKeep
from outrider.state.errors import BadRequest, MissingExtra, RateLimited
from outrider.state.hits import Candidate, FoundBy
from outrider.state.records import Paper
from support.fakes import Shelf, paper
from support.recorded_worlds import SearchWorld, record_search, record_systematic

Parts = dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recording."""
    file = tmp_path_factory.mktemp("whole") / "run.zip"
    asyncio.run(record_systematic(file))
    return file


def read_parts(file: Path) -> Parts:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_parts(file: Path, parts: Parts) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def change_index(parts: Parts, **fields: Any) -> Parts:
    return {**parts, INDEX: json.dumps({**json.loads(parts[INDEX]), **fields}).encode()}


def damage_blob(parts: Parts) -> Parts:
    name = next(name for name in parts if name != INDEX)
    return {**parts, name: parts[name] + b" "}


def drop_blob(parts: Parts) -> Parts:
    name = json.loads(parts[INDEX])["calls"][0]["answer"]
    return {one: content for one, content in parts.items() if not one.endswith(name)}


def add_pickle_type(parts: Parts) -> Parts:
    """An answer of a type that would run code if it were made."""
    index = json.loads(parts[INDEX])
    content = dump({"$type": "os:system", "$value": {"command": "touch pwned"}})
    index["calls"][0]["answer"] = digest(content)
    return {**parts, f"blobs/{digest(content)}": content, INDEX: json.dumps(index).encode()}


def nest_a_port(parts: Parts) -> Parts:
    """Deep enough for a decoder, and not too deep for a reader of JSON."""
    changed = change_index(parts, ports={"chat": {"protocols": ["Chat"], "values": {"name": "DEEP"}}})
    return {**changed, INDEX: changed[INDEX].replace(b'"DEEP"', b"[" * 900 + b"]" * 900)}


DAMAGES: dict[str, tuple[Callable[[Parts], Parts], str]] = {
    "another format": (lambda parts: change_index(parts, format=99), "has the format 99"),
    "no index": (lambda parts: {name: content for name, content in parts.items() if name != INDEX}, "it holds no recording.json"),
    "index of another program": (lambda parts: {INDEX: b'{"a": 1}'}, "cannot be read"),
    "index that is no JSON": (lambda parts: {INDEX: b"not JSON"}, "cannot be read"),
    "index that is deeply nested": (lambda parts: {INDEX: b"[" * 50_000}, "cannot be read"),
    "changed blob": (damage_blob, "is not the one of its name"),
    "missing blob": (drop_blob, "it does not hold"),
    "path outside": (lambda parts: {**parts, "../../evil": b"x"}, "it holds the file '../../evil'"),
    "absolute path": (lambda parts: {**parts, "/etc/passwd": b"x"}, "it holds the file '/etc/passwd'"),
    "bomb": (lambda parts: {**parts, f"blobs/{'0' * 64}": b"\0" * (30 << 20)}, "unpacks to 31,457,280 bytes"),
    "port that is deeply nested": (nest_a_port, "nested too deeply"),
    "unknown type": (add_pickle_type, "unknown type 'os:system'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_recording_is_refused_with_the_reason(
    damage: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change, reason = DAMAGES[damage]
    file = tmp_path / "damaged.zip"
    write_parts(file, change(read_parts(whole)))
    monkeypatch.chdir(tmp_path)
    assert run(["replay", str(file)]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.zip"]


def test_answers_that_no_node_can_read_are_a_difference_and_no_crash(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a recording of another version may have them, or one that somebody made up."""
    parts, content = read_parts(whole), b"true"
    index = json.loads(parts[INDEX])
    for call in index["calls"]:
        call["answer"] = digest(content) if call.get("answer") else ""
    file = tmp_path / "made-up.zip"
    write_parts(file, {**parts, f"blobs/{digest(content)}": content, INDEX: json.dumps(index).encode()})
    assert run(["replay", str(file)]) == 3
    assert "systematic fails (" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_the_usual_compression_is_unpacked(whole: Path, tmp_path: Path, method: int) -> None:
    """The header of an LZMA stream says how much memory it takes."""
    file = tmp_path / "other.zip"
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in read_parts(whole).items():
            archive.writestr(name, content)
    with pytest.raises(BadRequest, match="is compressed by a method that no recording has"):
        read_recording(file)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_truncated_recording_is_refused(share: float, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cut.zip"
    content = whole.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    assert run(["replay", str(file)]) == 2
    assert "is no whole recording" in " ".join(capsys.readouterr().err.split())


def test_limits_hold_on_what_is_unpacked(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "MOST_BYTES", 10_000)
    with pytest.raises(BadRequest, match="unpacks to"):
        read_recording(whole)
    monkeypatch.undo()
    monkeypatch.setattr(recordings, "MOST_FILES", 3)
    with pytest.raises(BadRequest, match="and a recording at most 3"):
        read_recording(whole)
    twice = tmp_path / "twice.zip"
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr(INDEX, b"{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(INDEX, b"{}")
    with pytest.raises(BadRequest, match="twice"):
        read_recording(twice)


def test_a_size_that_a_zip_lies_about_does_not_count(whole: Path, tmp_path: Path) -> None:
    """Two megabytes that claim to be ten bytes: no more than the claim is unpacked."""
    file = tmp_path / "liar.zip"
    content = b"a" * (2 << 20)
    write_parts(file, {**read_parts(whole), f"blobs/{digest(content)}": content})
    raw = file.read_bytes().replace((2 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    file.write_bytes(raw)
    with pytest.raises(BadRequest):
        read_recording(file)


def test_a_recording_is_told_from_a_manifest(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = next((whole.parent / "runs").rglob("manifest.json"))
    assert (is_recording(whole), is_recording(manifest), is_recording(tmp_path / "none")) == (True, False, False)
    assert run(["replay", str(manifest), "--diff"]) == 2
    assert run(["replay", str(whole), "--pinned"]) == 2
    assert run(["replay", str(whole), str(whole)]) == 2
    assert "compared with --diff" in capsys.readouterr().err


def test_the_same_recording_is_the_same_file(whole: Path, tmp_path: Path) -> None:
    recording = read_recording(whole)
    file = tmp_path / "again.zip"
    recordings.write_recording(file, recording.index, recording.blobs)
    assert file.read_bytes() == whole.read_bytes()


CANARIES = {
    "key of the model": "sk-canary-model-0001",
    "key of a source": "canary-openalex-0002",
    "password in an address": "canary-password-0003",
    "storage option": "canary-storage-0004",
    "key in a link": "canary-link-0005",
    "key in an abstract": "sk-canary-model-0001",
    "authorization of a server": "outrider_canary0006canary0006",
}


async def test_no_secret_is_in_a_recording(tmp_path: Path) -> None:
    """Canaries in the settings, in what services and library return, and in the request."""
    url = f"https://u:{CANARIES['password in an address']}@example.org/?api_key={CANARIES['key in a link']}"
    told = f"Authorization: Bearer {CANARIES['key in an abstract']} and {CANARIES['authorization of a server']}"
    metadata = {CANARIES["key of a source"]: CANARIES["key of a source"]}
    leaky = paper("own1", "Liver injury by drugs", url=url, abstract=f"Drugs injure the liver. {told}.", metadata=metadata)
    library = LibrarySettings(
        uri=f"s3://me:{CANARIES['password in an address']}@bucket/x",
        storage_options={"secret_access_key": SecretStr(CANARIES["storage option"])},
    )
    file = tmp_path / "run.zip"
    with SearchWorld() as world:
        own = {"openalex": {"api_key": SecretStr(CANARIES["key of a source"])}}
        await world.record(
            file, shelf=Shelf([leaky]), changes={"library": library}, own=own, key=CANARIES["key of the model"],
            request={"query": f"liver injury {CANARIES['key of the model']}"},
        )  # fmt: skip
        assert any(CANARIES["key of the model"] in str(request.headers) for request in world.chat.requests)
    content = b"".join(read_parts(file).values())
    assert b"Drugs injure the liver" in content
    assert {name: canary for name, canary in CANARIES.items() if canary.encode() in content} == {}
    for header in (b"Authorization: Bearer s", b"set-cookie", b"Set-Cookie", b"x-api-key"):
        assert header not in content


@pytest.mark.parametrize(
    ("licence", "texts", "kept"),
    [
        ("", "as_licensed", True),
        ("cc-by", "as_licensed", True),
        ("https://creativecommons.org/licenses/by-nc/4.0/", "as_licensed", True),
        ("https://www.elsevier.com/tdm/userlicense/1.0/", "as_licensed", False),
        ("All rights reserved", "as_licensed", False),
        ("publisher-specific-oa", "as_licensed", False),
        ("arxiv-nonexclusive-distrib", "as_licensed", False),
        ("MIT", "open", True),
        ("", "open", False),
        ("All rights reserved", "all", True),
    ],
)
def test_the_licence_decides_on_a_text(licence: str, texts: TextsToKeep, kept: bool) -> None:
    assert may_pass_on(licence, texts) is kept


@pytest.mark.parametrize(
    "metadata",
    [
        {"licence": "All rights reserved"},
        # of a text that was fetched, the licence of the text counts, and not that of the record
        {"licence": "CC0", "full_text": {"url": "https://x.org/a", "form": "pdf", "licence": "All rights reserved"}},
    ],
)
async def test_a_text_is_left_out_where_its_licence_asks(tmp_path: Path, metadata: dict[str, Any]) -> None:
    closed = "A sentence that must not leave this house. " * 5
    shelf = Shelf([
        paper("own1", "Liver injury by drugs", text=closed, metadata=metadata),
        paper("own2", "Liver injury by drugs, two", text="An open sentence on liver injury by drugs.", metadata={"licence": "CC-BY-4.0"}),
    ])  # fmt: skip
    file = tmp_path / "run.zip"
    with SearchWorld() as world:
        await world.record(file, shelf=shelf, request={"sources": ["library"], "distill_enabled": False})
    content = b"".join(read_parts(file).values())
    assert b"An open sentence" in content
    assert b"must not leave this house" not in content
    result = await asyncio.to_thread(outrider.replay_recording, file)
    assert not result.same
    assert result.lacks == (f"text of own1 ({len(closed):,} characters): its licence is All rights reserved",)


def test_values_come_back_as_they_were() -> None:
    encoder = Encoder()
    record = Paper(doc_id="a", title="\ud800 half", metadata={"z": 1, "a": [1.5, None]}, authors=("b", "a"))
    values: list[Any] = [
        (1, "two", None, 3.5, float("inf")),
        [record, {"record": record}],
        {("a", "b"): frozenset({"x"})},
        Candidate(record, (FoundBy("library", "s", "q", 1),), scores={"z": 0.1, "a": 0.2}),
        {"$type": "not one of ours"},
    ]
    decoder = Decoder(lambda name: encoder.blobs[name], lambda value, _: value)
    for value in values:
        again = decoder.decode(json.loads(dump(encoder.encode(value))))
        assert again == value
        assert type(again) is type(value)
    assert list(decoder.decode(json.loads(dump(encoder.encode({"z": 1, "a": 2}))))) == ["z", "a"]
    assert len(encoder.blobs) == 1


def test_errors_come_back_with_their_fields() -> None:
    encoder, decoder = Encoder(), Decoder(lambda _: b"", lambda value, _: value)
    for error in (RateLimited("slowly", 12.5), MissingExtra("this", "models"), TimeoutError("late")):
        again = decoder.decode_error(json.loads(dump(encoder.encode_error(error))))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("name", ["os:system", "errors:Path", "records:json", "../x:y", "records:BaseModel", "ports:dataclass", "x"])
def test_only_types_of_the_state_are_made(name: str) -> None:
    with pytest.raises(Unreadable):
        find_type(name)


def test_a_port_of_a_recording_never_reaches_an_adapter() -> None:
    port = Port.restore("library", {"protocols": ["LibraryReader"], "values": {}}, Decoder(lambda _: b"", lambda value, _: value))
    with pytest.raises(RuntimeError, match="answers only a replayed run"):
        port.related_terms("x", 1)


async def test_the_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "run.zip"
    await record_search(file)
    assert file.stat().st_mode & 0o077 == 0


async def test_a_replay_names_the_record_that_lacks_a_key(tmp_path: Path) -> None:
    readme = "Liver injury by drugs. ![badge](https://codecov.io/gh/a/b/badge.svg?token=ABCDEFGH)"
    await record_search(tmp_path / "run.zip", shelf=Shelf([paper("badge", "Liver injury by drugs", abstract=readme, year=2019)]))
    result = await asyncio.to_thread(outrider.replay_recording, tmp_path / "run.zip")
    assert not result.same
    assert result.lacks == ("keys in links of badge, which the hash of its content depends on",)
