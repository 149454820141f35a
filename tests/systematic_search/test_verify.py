"""Verification finds every change of a run's files, with its position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outrider
from outrider.state.errors import BadRequest
from outrider.systematic_search.ledger import GENESIS, chain_line
from outrider.systematic_search.ledger_reader import export_hits
from outrider.systematic_search.verify import Fault
from outrider.usecases.export import RUN_FORMATS, make_run_writer
from support.systematic_runs import LibraryVersions, MemorySource, make_exact_services, make_papers


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A signed run over a library and a service, with a file in every format."""
    folder = tmp_path_factory.mktemp("verify")
    key = _key(folder)
    abroad = [one.model_copy(update={"doc_id": f"W{one.doc_id}"}) for one in make_papers(4)]
    services = make_exact_services(
        folder, LibraryVersions(make_papers(6)), {"pubmed": MemorySource("pubmed", list(abroad))}, signing_key=str(key)
    )
    list(outrider.systematic("aspirin[ti]", services=services, sources=["library", "pubmed"], folder=folder / "run"))
    for suffix, form in RUN_FORMATS.items():
        with (folder / "run" / f"out{suffix}").open("w", encoding="utf-8", newline="") as stream:
            export_hits(folder / "run" / "ledger.jsonl", make_run_writer(form, stream))
    return folder / "run"


def _key(folder: Path) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    path = folder / "key.pem"
    path.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return path


NEWLINE = b"\n"
RESULTS = ["ledger.jsonl", "manifest.json", *(f"out{suffix}" for suffix in RUN_FORMATS)]


@pytest.mark.parametrize("name", RESULTS)
def test_unchanged_files_are_sound(run: Path, name: str) -> None:
    verdict = outrider.verify(run / "manifest.json", run / name, key=run.parent / "key.pem")
    assert verdict.faults == ()
    assert verdict.sound
    assert len(verdict.signed_by) == 64


def test_the_audit_log_lists_the_run(run: Path) -> None:
    log = run.parent / "runs" / "audit.jsonl"
    assert outrider.verify(run / "manifest.json", log).sound
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [one["event"] for one in entries[:2]] == ["begun", "finished"]
    assert entries[0]["query"] == "aspirin[ti]"
    assert entries[0]["snapshot"]["version"]
    assert entries[1]["total"] == 7 - 1


@pytest.mark.parametrize("name", RESULTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_found_with_its_position(run: Path, name: str, data: st.DataObject) -> None:
    raw = (run / name).read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    changed = raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :]
    faults = _faults(run, name, changed)
    assert faults
    line = raw[:at].count(b"\n") + 1
    if name == "ledger.jsonl":
        assert any(fault.place == f"line {line:,}" for fault in faults if fault.file == name), faults
    elif name.startswith("out"):
        assert faults[0].place == f"line {line:,}, column {at - raw[:at].rfind(NEWLINE):,}"


@pytest.mark.parametrize("name", ["ledger.jsonl", *(f"out{suffix}" for suffix in RUN_FORMATS)])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_removed_moved_or_duplicated_line_is_found(run: Path, name: str, data: st.DataObject) -> None:
    lines = (run / name).read_bytes().splitlines(keepends=True)
    at, to = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(lines) - 1))
    what = data.draw(st.sampled_from(["taken out", "moved", "doubled"]))
    changed = [*lines]
    line = changed.pop(at)
    if what == "doubled":
        changed[at:at] = [line, line]
    elif what == "moved":
        changed.insert(to, line)
    if changed == lines:
        return
    assert _faults(run, name, b"".join(changed))


def test_a_rewritten_ledger_is_found_by_the_manifest(run: Path) -> None:
    """Chained correctly, with every hit of one title removed."""
    chain, anew = GENESIS, []
    for line in (run / "ledger.jsonl").read_bytes().splitlines():
        entry = json.loads(line)
        entry.pop("chain")
        if "part 4" in line.decode():
            continue
        raw, chain = chain_line(entry, chain)
        anew.append(raw)
    faults = _faults(run, "ledger.jsonl", b"".join(anew))
    assert {"hits_chain", "total", "ledger.sha256", "sources[0].hits"} <= {fault.place for fault in faults}


def test_a_manifest_sealed_again_is_found_by_its_signature(run: Path) -> None:
    from outrider.systematic_search.manifest import compute_provenance, compute_seal, read

    altered = read(run / "manifest.json")
    altered = altered.model_copy(update={"times": altered.times.model_copy(update={"finished_at": "2020-01-01T00:00:00+00:00"})})
    altered = altered.model_copy(update={"provenance_hash": compute_provenance(altered)})
    altered = altered.model_copy(update={"seal": compute_seal(altered)})
    assert [fault.place for fault in _faults(run, "manifest.json", altered.text().encode())] == ["signature"]
    unsigned = altered.model_copy(update={"signature": None})
    assert [fault.place for fault in _faults(run, "manifest.json", unsigned.text().encode())] == ["signature"]


def _faults(run: Path, name: str, changed: bytes) -> tuple[Fault, ...]:
    """Faults with the changed file in place of the original."""
    copy = run.parent / "changed"
    copy.mkdir(exist_ok=True)
    for path in run.iterdir():
        if path.name in RESULTS:
            (copy / path.name).write_bytes(path.read_bytes())
    (copy / name).write_bytes(changed)
    return outrider.verify(copy / "manifest.json", copy / name, key=run.parent / "key.pem").faults


def test_a_key_that_cannot_be_read_is_no_file_without_a_key(tmp_path: Path) -> None:
    services = make_exact_services(tmp_path, LibraryVersions(make_papers(1)), signing_key=str(tmp_path / "key.pem"))
    with pytest.raises(BadRequest, match=r"key\.pem cannot be read \(No such file or directory\)"):
        list(outrider.systematic("aspirin[ti]", services=services, folder=tmp_path / "run"))
    (tmp_path / "key.pem").write_text("no key", encoding="utf-8")
    with pytest.raises(BadRequest, match=r"key\.pem holds no private key in PEM form"):
        list(outrider.systematic("aspirin[ti]", services=services, folder=tmp_path / "run"))
