"""Report, model card and output folder of a trained reranker.

The card is Markdown under the front matter that model hubs read. Its fields: https://github.com/huggingface/hub-docs/blob/main/modelcard.md

The output folder is written atomically and replaces only an earlier training.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from outrider.state.errors import BadRequest
from outrider.training.training_loop import INTERRUPTED, Check, Recipe

FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
RECORD = "outrider_training.json"
"""File with the training report, for programs; it marks the folder as an output of Outrider."""


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Report of a training. nDCG@10 is measured on the held-out lists; `words_ndcg` is the baseline to improve on."""

    out: str
    saved: bool
    """False if the training was interrupted before the first check."""
    ended: str
    words_ndcg: float
    reranker_ndcg: float | None
    blended_ndcg: float | None
    base: str
    base_licence: str | None
    library_id: str
    snapshot: str
    questions: int
    pairs: int
    kinds: dict[str, int]
    held_out: int
    held_out_pairs: int
    unknown_ids: tuple[str, ...]
    recipe: Recipe
    checks: tuple[Check, ...]
    best_step: int
    steps: int
    planned: int
    train_s: float
    pairs_per_s: float
    device: str
    versions: dict[str, str]

    @property
    def interrupted(self) -> bool:
        return self.ended == INTERRUPTED


def read_licence(base: str) -> str | None:
    """The licence in the card of a local checkpoint; None if the card is missing or states none."""
    try:
        text = (Path(base).expanduser() / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    front_matter = FRONT_MATTER.match(text)
    try:
        fields = yaml.safe_load(front_matter.group(1)) if front_matter else None
    except yaml.YAMLError:
        return None
    licence = fields.get("license") if isinstance(fields, dict) else None
    return licence if isinstance(licence, str) else None


def render_card(report: TrainingReport) -> str:
    """The model card of a trained reranker, as Markdown."""
    front_matter = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "text-ranking",
        "tags": ["sentence-transformers", "cross-encoder", "reranker", "outrider"],
        **({"license": report.base_licence} if report.base_licence else {}),
        **({"base_model": report.base} if HUB_NAME.fullmatch(report.base) and not _is_folder(report.base) else {}),
    }
    return f"---\n{yaml.safe_dump(front_matter, sort_keys=False)}---\n\n{_body(report)}"


def _body(report: TrainingReport) -> str:
    recipe, kinds = report.recipe, ", ".join(f"{count:,} {kind}" for kind, count in report.kinds.items())
    origins = _table({
        "Base": f"a local checkpoint, `{base_name(report.base)}`" if _is_folder(report.base) else f"`{report.base}`",
        "Licence of the base": report.base_licence or "not stated in its folder",
        "Library and version": report.snapshot,
        "Pairs": f"{report.pairs:,} in {report.questions:,} questions ({kinds})",
        "Held out": f"{report.held_out:,} questions with {report.held_out_pairs:,} texts, made from other records",
    })  # fmt: skip
    training = _table({
        "Loss": "softmax over each group of one right and its wrong answers (localized contrastive estimation)",
        "Steps": f"{report.steps:,} of {report.planned:,}; best at {report.best_step:,}; {report.ended}",
        "Batch": f"{recipe.batch_groups} questions",
        "Learning rate": f"{recipe.learning_rate:g}, warm-up over {recipe.warm_up:.0%} of the steps, then linear decay",
        "Length": f"{recipe.max_length} tokens of query and text together",
        "Word vectors": "those of the base, unchanged",
        "Seed": str(recipe.seed),
        "Time": f"{report.train_s:,.0f} s on {report.device} ({report.pairs_per_s:.1f} pairs/s)",
        "Versions": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
    })  # fmt: skip
    figures = _table({
        "Before: words alone (BM25 over the same texts)": _figure(report.words_ndcg),
        "After: this reranker alone": _figure(report.reranker_ndcg),
        "After: both, half and half": _figure(report.blended_ndcg),
    })  # fmt: skip
    return f"""# A reranker trained from one library

A cross-encoder that scores how well a text answers a query; larger is better, and scores of different queries are not comparable. It was
fine-tuned by Outrider on pairs made from one library, for searches of that library.

```python
from sentence_transformers import CrossEncoder
CrossEncoder("FOLDER").predict([("query", "title and abstract")])
```

## Training data
{origins}

title: the query is a record's title, the answer its body. sentence: the query is a sentence, the answer the rest of its record. citation:
the query is a title, the answer a cited record. judgement: judged by people. Wrong answers come from ranks 5 to 50 of the library's own
search, and from random records.

## Held-out figures
nDCG@10 of the held-out lists. No text contains the passage that its query was taken from.

{figures}

## Training
{training}

The same seed, library and base give the same pairs in the same order and the same starting weights. The trained weights differ in
their last digits between machines, numbers of threads, and GPUs.

## Limits
It has learned the vocabulary and the kind of text of one library. Most of its training queries were generated by rules, not typed by
people, and so were those of the held-out figures. `outrider library probe` measures whether it improves the library's searches.
`{RECORD}` lists the records that it was trained on. Text beyond {report.recipe.max_length} tokens is not read.
"""


def _table(rows: Mapping[str, str]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value.replace('|', '/')} |" for name, value in rows.items())])


def _figure(ndcg: float | None) -> str:
    return "not measured" if ndcg is None else f"{ndcg:.3f}"


def base_name(base: str) -> str:
    """The name of a local folder without its path, which is private; any other base unchanged."""
    return Path(base).expanduser().resolve().name if _is_folder(base) else base


def _is_folder(base: str) -> bool:
    return Path(base).expanduser().is_dir()


def refuse_foreign(out: Path) -> None:
    """Raises `BadRequest` if `out` has other contents than an earlier training, or cannot be written."""
    if out.exists() and not out.is_dir():
        raise BadRequest(f"{out} is a file; name a folder for the trained reranker")
    if out.is_dir() and any(out.iterdir()) and not (out / RECORD).is_file():
        raise BadRequest(f"{out} contains something other than an earlier training; name a new or empty folder")
    out = out.absolute()  # `.` has no name of its own
    with _translate_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.")).rmdir()


@contextmanager
def replace_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that replaces `out` at the end; after an error `out` is unchanged."""
    out = out.absolute()
    with _translate_errors(out):
        temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
        try:
            yield temporary
            temporary.chmod(0o755)
            refuse_foreign(out)  # another process may have written there meanwhile
            before = temporary.with_name(temporary.name + ".before")
            if out.exists():
                out.rename(before)
            try:
                temporary.rename(out)
            except OSError:
                if before.exists():
                    before.rename(out)
                raise
            shutil.rmtree(before, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_record(folder: Path, report: Mapping[str, Any], trained_on: Iterable[str]) -> None:
    """Write the report and the ids of the training records, which also marks the folder as an output of Outrider."""
    payload = {**report, "trained_on": sorted(trained_on)}
    (folder / RECORD).write_text(json.dumps(payload, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def read_trained_ids(name: str) -> frozenset[str]:
    """Ids of the records that the reranker of this name was trained on here; empty for any other reranker.

    A probe excludes them, because a reranker recognises its training data.
    """
    try:
        payload = json.loads((Path(name).expanduser() / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    ids = payload.get("trained_on") if isinstance(payload, dict) else None
    return frozenset(map(str, ids)) if isinstance(ids, list) else frozenset()


@contextmanager
def _translate_errors(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadRequest(f"the trained reranker cannot be written to {out}: {error.strerror or error}") from error
