"""The command as its guide and reference describe it: commands, options, exit codes, and the keys of what `--json` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compatibility.machine import Command, Result, answering, run_command
from compatibility.shapes import REQUIRED, frozen, help_shape, key_paths, missing

HELPS: dict[str, Any] = frozen("commands")
JSON_KEYS: dict[str, dict[str, str]] = frozen("json_keys")
WORDS = ("aspirin", "statins", "liver", "table")


def vector(text: str) -> list[float]:
    """A text's words as a vector of the embedding model that the tests serve."""
    counted = [float(text.lower().count(word)) for word in WORDS]
    return [*counted, 0.5, 0.25]


def embedding_model(path: str, body: Any) -> tuple[int, Any]:
    """Answer as an endpoint of OpenAI's protocol does."""
    if not path.endswith("/embeddings"):
        return 404, {"error": {"message": "not here"}}
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [{"object": "embedding", "index": place, "embedding": vector(str(text))} for place, text in enumerate(texts)]
    return 200, {"object": "list", "model": body["model"], "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def rejecting_model(path: str, body: Any) -> tuple[int, Any]:
    return 401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}}


def labelled_texts() -> str:
    """Judgements for the distiller, as its guide shows them."""
    lines = []
    for number in range(40):
        answer = f"Drug {number} harms the liver."
        text = f"{answer} The weather was fine on day {number}. Nobody measured anything else that day."
        lines.append(json.dumps({"query": f"does drug {number} harm the liver", "text": text, "answers": [answer]}))
    return "\n".join(lines) + "\n"


def all_json_results(notes: Path, made_library: Path, folder: Path) -> dict[str, Result]:
    """Run every command that prints JSON, one after the other, over one library."""
    import shutil

    library = Path(shutil.copytree(made_library, folder / "library"))
    own = ("--library", library)
    results: dict[str, Result] = {}

    def run(name: str, *arguments: str | Path) -> Result:
        results[name] = run_command(*arguments, "--json")
        return results[name]

    run("ingest", "ingest", notes, "--library", folder / "other")
    doc_id = run("search", "search", "aspirin liver", *own).json["hits"][0]["doc_id"]
    (folder / "answer.json").write_text(results["search"].out, encoding="utf-8")
    run("search --mode systematic", "search", "aspirin[tiab]", "--mode", "systematic", *own)
    run("search --after", "search", "aspirin liver", "--after", folder / "answer.json", *own)
    run("systematic", "systematic", "aspirin[tiab] OR statins[ti]", "--folder", folder / "run", "-o", folder / "hits.ris", *own)
    run("systematic --explain", "systematic", "aspirin[tiab] OR statins[ti]", "--explain", *own)
    run("replay", "replay", folder / "run", *own)
    run("verify", "verify", folder / "run" / "manifest.json", folder / "hits.ris")
    run("analyze", "analyze", "owner/name", *own)
    run("dedup", "dedup", notes)
    run("distill", "distill", "does aspirin harm the liver", notes, "--no-bypass")
    run("doctor", "doctor", *own)
    run("library info", "library", "info", *own)
    run("library check", "library", "check", *own)
    run("library list", "library", "list", *own)
    run("library show", "library", "show", doc_id, *own)
    run("library tag", "library", "tag", "kept", *own)
    run("library tag --delete", "library", "tag", "kept", "--delete", *own)
    run("library neighbours", "library", "neighbours", "liver", *own)
    run("library neighbours --type", "library", "neighbours", "aspirin", "--type", "mesh", *own)
    run("library split", "library", "split", doc_id, "--why", "another cohort", *own)
    run("library decisions", "library", "decisions", *own)
    run("library decisions --forget", "library", "decisions", "--forget", doc_id, *own)
    run("library merge", "library", "merge", doc_id, "nobody", *own)
    run("library dedup --dry-run", "library", "dedup", "--dry-run", *own)
    run("library dedup", "library", "dedup", *own)
    run("library calibrate-distiller", "library", "calibrate-distiller", *own)
    (folder / "labelled.jsonl").write_text(labelled_texts(), encoding="utf-8")
    run("library calibrate-distiller --judgements", "library", "calibrate-distiller", "--judgements", folder / "labelled.jsonl", *own)
    with answering(embedding_model) as address, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OUTRIDER_EMBEDDING__BASE_URL", f"{address}/v1")
        monkeypatch.setenv("OUTRIDER_EMBEDDING__MODEL_NAME", "words")
        run("library reindex", "library", "reindex", *own)
        run("library info with vectors", "library", "info", *own)
    run("library remove", "library", "remove", doc_id, *own)
    run("threads list, empty", "threads", "list")
    run("search --thread", "search", "aspirin", "--thread", "liver", *own)
    run("threads list", "threads", "list")
    run("threads show", "threads", "show", "liver", *own)
    run("threads resume", "threads", "resume", "liver", *own)
    run("threads delete", "threads", "delete", "liver")
    run("config check", "config", "check", *own)
    run("serve key", "serve", "key", "ann")
    return results


@pytest.fixture(scope="module")
def json_results(notes: Path, made_library: Path, module_folder: Path) -> dict[str, Result]:
    return all_json_results(notes, made_library, module_folder)


@pytest.mark.parametrize("name", HELPS)
def test_every_command_has_its_options(name: str, outrider_command: Command) -> None:
    shown = outrider_command(*name.split()[1:], "--help")
    assert shown.code == 0
    current, expected = help_shape(shown.out), HELPS[name]
    assert missing(expected["options"], current["options"]) == []
    added = {option: said for option, said in current["options"].items() if option not in expected["options"]}
    assert [option for option, said in added.items() if said.endswith(REQUIRED)] == []
    kept, further = current["arguments"][: len(expected["arguments"])], current["arguments"][len(expected["arguments"]) :]
    for now, before in zip(kept, expected["arguments"], strict=True):  # one that may be left out now breaks no call
        assert now in (before, before.replace("required", "optional"))
    assert [argument for argument in further if "required" in argument] == []
    assert set(expected["commands"]) <= set(current["commands"])


@pytest.mark.parametrize("name", JSON_KEYS)
def test_json_has_its_keys(name: str, json_results: dict[str, Result]) -> None:
    expected = {**JSON_KEYS[name]}
    code = int(expected.pop("exit code"))
    result = json_results[name]
    assert result.code == code, result.err
    assert missing(expected, key_paths(result.json)) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--version",), 0),
        (("search", "statins"), 0),
        (("search", "statins", "-k", "1", "--search-mode", "focused", "--no-fusion", "--no-distill", "--offline", "--explain"), 0),
        (("search", "statins", "-f", '{"year": {"$lt": 2010}}', "-s", "library", "--strategy", "lance_fts", "--timeout", "20"), 0),
        (("search", "statins", "--strategy", "sparse", "--no-rerank", "--distill-top", "1", "--max-calls", "0", "--max-cost", "0"), 0),
        (("systematic", "statins[ti]"), 0),
        (("search",), 2),
        (("search", "?"), 2),
        (("search", "x", "--top-k", "0"), 2),
        (("search", "x", "--filters", '{"yeer": 1}'), 2),
        (("search", "x", "--nonsense"), 2),
        (("nonsense",), 2),
        (("--config", "missing.yaml", "search", "x"), 2),
        (("systematic", "aspirin[nonsense]"), 2),
        (("analyze", "no target"), 2),
        (("threads", "show", "nobody"), 2),
        (("library", "remove", "nobody"), 2),
        (("library", "train-reranker", "--out", "trained"), 2),
        (("dedup", "missing.ris"), 2),
        (("serve", "--host", "0.0.0.0"), 2),
        (("search", "x", "--library", "missing"), 3),
        (("search", "x", "--strategy", "dense"), 3),
        (("analyze", "owner/name"), 3),
        (("library", "info", "--library", "missing"), 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_exit_codes(
    arguments: tuple[str, ...], code: int, outrider_command: Command, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_LIBRARY", str(library))
    result = outrider_command(*arguments)
    assert result.code == code, result.err
    if code:
        assert result.err
        assert "Traceback" not in result.err


def test_a_rejected_key_of_the_model_exits_with_4(outrider_command: Command, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(rejecting_model) as address:
        for name, value in {"BASE_URL": f"{address}/v1", "MODEL": "some-model", "API_KEY": "wrong"}.items():
            monkeypatch.setenv(f"OUTRIDER_LLM__{name}", value)
        result = outrider_command("search", "aspirin liver", "--library", library)
    assert result.code == 4


def test_a_broken_proof_exits_with_3(outrider_command: Command, library: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert outrider_command("systematic", "aspirin[tiab]", "--folder", run, "--library", library).code == 0
    ledger = run / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"Aspirin", b"Placebo", 1))
    assert outrider_command("verify", run / "manifest.json").code == 3


def test_results_go_to_standard_output_and_nothing_else(outrider_command: Command, library: Path) -> None:
    shown = outrider_command("search", "statins", "--library", library)
    assert "Statins in practice" in shown.out
    assert json.loads(outrider_command("search", "-", "--json", "--library", library, stdin="statins").out)["query"] == "statins"


@pytest.mark.parametrize("suffix", ["bib", "ris", "csv", "json", "jsonl", "md"])
def test_export_takes_the_format_from_the_suffix(suffix: str, outrider_command: Command, library: Path, tmp_path: Path) -> None:
    path = tmp_path / f"library.{suffix}"
    assert outrider_command("export", "-o", path, "--library", library).code == 0
    assert "Statins in practice" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("format_", ["bibtex", "ris", "csv", "json", "jsonl", "markdown"])
def test_export_of_a_saved_answer(format_: str, outrider_command: Command, library: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(outrider_command("search", "statins", "--json", "--library", library).out, encoding="utf-8")
    exported = outrider_command("export", answer, "--format", format_)
    assert exported.code == 0
    assert "Statins in practice" in exported.out


def test_a_systematic_run_leaves_the_documented_files(outrider_command: Command, library: Path, tmp_path: Path) -> None:
    run, report = tmp_path / "run", tmp_path / "report"
    done = outrider_command("systematic", "aspirin[tiab]", "--folder", run, "--report", report, "-o", tmp_path / "hits.csv", "-l", library)
    assert done.code == 0
    assert {"ledger.jsonl", "manifest.json", "sessions.jsonl"} <= {path.name for path in run.iterdir()}
    expected = {"prisma-2020.json", "prisma-2020.md", "prisma-2020.svg", "prisma-s.json", "prisma-s.md"}
    assert expected <= {path.name for path in report.iterdir()}
    header = (tmp_path / "hits.csv").read_text(encoding="utf-8-sig").splitlines()[0]
    assert set("title,abstract,authors,keywords,doi,url,year".split(",")) <= set(header.split(","))
