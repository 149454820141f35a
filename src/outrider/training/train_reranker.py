"""Training of a reranker from a library: pairs, training, measures, and the output folder."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from outrider.training import trainable_cross_encoder as model
from outrider.training import training_loop as loop
from outrider.training.model_card import TrainingReport, base_name, read_licence, refuse_foreign, render_card, replace_folder, write_record
from outrider.training.training_loop import Recipe, TrainingResult
from outrider.training.training_set import TrainingSet, blend_equally, build_training_set, count_kinds, mean_ndcg, score_by_words
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.library.library import Library

PACKAGES = ("sentence-transformers", "transformers", "torch")
OnProgress = Callable[[str, int, int, str], None]
"""Called from any thread with the current stage, the finished steps, all steps, and an intermediate result."""


async def train_reranker(
    library: Library,
    out: Path,
    *,
    base: str,
    judgements: Mapping[str, Mapping[str, int]] | None = None,
    recipe: Recipe | None = None,
    device: str = "auto",
    progress: OnProgress | None = None,
) -> TrainingReport:
    """Fine-tune `base` on pairs from the library and write it to `out` as a sentence-transformers cross-encoder with a card.

    If the task is cancelled during the training, the best weights so far are saved and the report is marked as interrupted. Before
    that, cancelling leaves no files. Raises `BadRequest` (too few pairs, or a folder with other contents), `ModelUnavailable`,
    `MissingExtra`, `LibraryError`.
    """
    recipe, report_progress = recipe or Recipe(), progress or (lambda *_: None)
    refuse_foreign(out)
    report_progress("loading the base", 0, 0, "")
    scorer = await asyncio.to_thread(model.load, base, recipe.max_length, recipe.seed, device)
    snapshot = await library.snapshot()
    training_data = await build_training_set(
        library, recipe.pairs, recipe.seed, judgements or {}, lambda finished, total: report_progress("making pairs", finished, total, "")
    )
    run = _Run(out, base, library.library_id, snapshot, scorer, training_data, recipe, report_progress)
    stop = Event()
    work = asyncio.create_task(asyncio.to_thread(run.train, stop))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        return await work


@dataclass(frozen=True, slots=True)
class _Run:
    """The blocking part, for one thread."""

    out: Path
    base: str
    library_id: str
    snapshot: str
    scorer: model.TrainableCrossEncoder
    training_set: TrainingSet
    recipe: Recipe
    report_progress: OnProgress

    def train(self, stop: Event) -> TrainingReport:
        """Fine-tune, measure and save; `stop` ends the training early."""

        def report_step(finished: int, total: int, best: float | None) -> None:
            self.report_progress("training", finished, total, "" if best is None else f"held-out nDCG@10 {best:.3f}")

        started = time.monotonic()
        trained = loop.fine_tune(self.scorer, self.training_set.train, self.training_set.held_out, self.recipe, stop, report_step)
        report = self._report(trained, time.monotonic() - started)
        if report.saved:
            with replace_folder(self.out) as folder:
                model.save(self.scorer, folder)
                (folder / "README.md").write_text(render_card(report), encoding="utf-8")
                shared = dataclasses.replace(report, out=self.out.name, base=base_name(self.base))  # no local paths
                write_record(folder, dataclasses.asdict(shared), self.training_set.trained_on)
        return report

    def _report(self, trained: TrainingResult, took_s: float) -> TrainingReport:
        lists = self.training_set.held_out
        words = score_by_words(lists)
        return TrainingReport(
            out=str(self.out),
            saved=trained.best is not None,
            ended=trained.ended,
            words_ndcg=mean_ndcg(lists, words),
            reranker_ndcg=trained.best.ndcg if trained.best else None,
            blended_ndcg=mean_ndcg(lists, blend_equally(words, trained.scores)) if trained.best else None,
            base=self.base,
            base_licence=read_licence(self.base),
            library_id=self.library_id,
            snapshot=self.snapshot,
            questions=len(self.training_set.train),
            pairs=self.training_set.pairs,
            kinds=count_kinds(self.training_set.train),
            held_out=len(lists),
            held_out_pairs=sum(len(group.texts) for group in lists),
            unknown_ids=self.training_set.unknown_ids,
            recipe=self.recipe,
            checks=tuple(trained.checks),
            best_step=trained.best.step if trained.best else 0,
            steps=trained.steps,
            planned=trained.planned,
            train_s=took_s,
            pairs_per_s=trained.pairs / trained.busy_s if trained.busy_s else 0.0,
            device=str(self.scorer.encoder.device),
            versions={"outrider": __version__} | {name: version(name) for name in PACKAGES},
        )
