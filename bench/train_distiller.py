"""Training of the distiller's shipped weights on half of SciFact's claims.

It prints the weights of the engines in the form of their modules. It writes the shipped calibrations to `src/outrider/distiller/defaults`,
and with `--classifier` a classifier fine-tuned from MiniLM, with its calibration, to `build/bench/distiller`. Thresholds are fitted on
claims that no engine was fitted on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

from bench import distil
from bench.model import CACHE, Remembering, model, model_folder
from bench.rationales import Case, cases, halves
from outrider.distiller.calibration import LabelledText, calibrate_scores, write_calibration
from outrider.distiller.engines import embedding, lexical
from outrider.distiller.engines import lexical as rhetoric
from outrider.distiller.engines.classifier import Classifier
from outrider.distiller.engines.embedding import Embedding
from outrider.distiller.engines.ensemble import Engine, EnsembleWeights, fit_weights, logit
from outrider.distiller.engines.select import CALIBRATION_FILE, SHIPPED, WEIGHTS_FILE, calibration_file_name, make_engine
from outrider.state.distilling import Calibration
from outrider.training.train_distiller import Recipe, train

FITTED_ON = "SciFact: scientific claims and the abstracts that support or refute them, half of the claims"

Features = Callable[[Case], list[tuple[float, ...]]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.train_distiller", description="Fit the distiller on SciFact's rationales.")
    parser.add_argument("--classifier", action="store_true", help="fine-tune the classifier as well (about half an hour on two cores)")
    parser.add_argument("--epochs", type=int, default=Recipe().epochs)
    arguments = parser.parse_args()
    training, held_out = halves(cases())
    remembering = Remembering(model(), CACHE / "scifact-units.npz")
    embedder = Embedding(remembering)
    print("lexical.WEIGHTS", format_weights(fitted_weights(training, lambda case: _beside_best(_lexical(case), lexical.MIN_BEST))))
    print("rhetoric: PER_UNIT, PLACE, INTERCEPT", format_weights(fitted_weights(training, lambda case: rhetoric.features(case.its))))
    cosines = {id(case): embedder.cosines(case.labelled.query, [case.its])[0] for case in training}
    print("embedding.WEIGHTS", format_weights(fitted_weights(training, lambda case: _beside_best(cosines[id(case)], embedding.MIN_BEST))))
    words = (lexical.Lexical(), rhetoric.Rhetoric())
    print("select.WORDS_WEIGHTS", format_weights(fitted_weights(training, lambda case: _logits(words, case))))
    print("select.ENSEMBLE_WEIGHTS", format_weights(fitted_weights(training, lambda case: _logits((*words, embedder), case))))
    both: list[Engine] = [make_engine("words+", remembering), make_engine("ensemble", remembering)]
    engines: list[Engine] = [make_engine("lexical"), make_engine("words"), embedder, *both]
    for engine in engines:
        write_calibration(fitted := calibration(engine, held_out), SHIPPED / calibration_file_name(engine))
        print(f"{engine.name}: threshold {fitted.threshold:.3f}, {fitted.removed:.1%} of the text removed")
    if arguments.classifier:
        train_both(training, held_out, Recipe(epochs=arguments.epochs))
        write_calibration(calibration(Classifier(str(distil.TRAINED), "cpu"), held_out), distil.TRAINED / CALIBRATION_FILE)
    if (distil.TRAINED / "config.json").is_file():
        _stack([*words, embedder, Classifier(str(distil.TRAINED), "cpu", downloads=False)], held_out)


def train_both(training: Sequence[Case], held_out: Sequence[Case], recipe: Recipe) -> None:
    """Trains the classifier and, in another process, the one for the claims that the first was trained on."""
    base, parts = model_folder(), {distil.TRAINED: training, distil.TRAINED_ON_OTHERS: held_out}
    with ProcessPoolExecutor(len(parts), multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(_train, base, [case.labelled for case in part], out, recipe) for out, part in parts.items()]
        for training_run in running:
            print(training_run.result(), flush=True)


def _train(base: str, labelled: Sequence[LabelledText], out: Path, recipe: Recipe) -> str:
    trained = train(base, labelled, out, recipe, partial(_epoch, out.name))
    return f"{out.name}: {trained.cases} cases, {trained.steps} steps, {trained.seconds:.0f} s"


def _stack(engines: Sequence[Engine], cases: Sequence[Case]) -> None:
    """Weights of the classifier beside the others, into its folder: on claims that it was not trained on."""
    scored = [([engine.scores(case.labelled.query, [case.its])[0] for engine in engines], case.right) for case in cases]
    weights = distil.stacked(scored)
    (distil.TRAINED / WEIGHTS_FILE).write_text(json.dumps(asdict(weights), indent=2) + "\n", encoding="utf-8")
    print("classifier+:", format_weights(weights), "behind", weights.behind)


def calibration(engine: Engine, cases: Sequence[Case]) -> Calibration:
    cuts = [case.its for case in cases]
    scores = [engine.scores(case.labelled.query, [case.its])[0] for case in cases]
    return calibrate_scores(engine, [case.labelled for case in cases], cuts, scores, FITTED_ON)


def fitted_weights(cases: Sequence[Case], features: Features) -> EnsembleWeights:
    rows = [(one, unit in case.right) for case in cases for unit, one in enumerate(features(case))]
    return fit_weights([one for one, _ in rows], [right for _, right in rows], ridge=0.1)


def format_weights(weights: EnsembleWeights) -> str:
    return f"{tuple(round(one, 3) for one in weights.each)}, {weights.intercept:.3f}"


def _lexical(case: Case) -> list[float]:
    return lexical.compute_raw_scores(case.labelled.query, [case.its])[0]


def _logits(engines: Sequence[Engine], case: Case) -> list[tuple[float, ...]]:
    """One logit per engine for each unit."""
    of_each = [engine.scores(case.labelled.query, [case.its])[0] for engine in engines]
    return [tuple(map(logit, unit)) for unit in zip(*of_each, strict=True)]


def _beside_best(raw: Sequence[float], least_best: float) -> list[tuple[float, ...]]:
    best = max([least_best, *raw])
    return [(one, one - best) for one in raw]


def _epoch(name: str, epoch: int, loss: float) -> None:
    print(f"{name}, epoch {epoch + 1}: loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
