"""Labelled texts, and calibration: a threshold that keeps all answers in most cases.

Labelled texts are queries with texts in which people have marked the answers. They are used to fit thresholds and train classifiers.

The method is split conformal prediction (Vovk, Gammerman and Shafer 2005; Angelopoulos and Bates 2021, "A Gentle Introduction to
Conformal Prediction"). A case is a query with one text and the units of it that answer. Its score is that of the weakest of these units,
so that every threshold up to it keeps the case whole. The threshold is one of the smallest of n such scores: that of rank k keeps
1 - k / (n + 1) of new cases whole, on average over all samples of cases, regardless of the engine's quality. A poor engine only keeps
more text. For one particular sample the share may be lower, especially for a small one; `conformal_rank` therefore uses a smaller k (Vovk
2012, "Conditional validity of inductive conformal predictors").

The guarantee requires that the engine was not trained on the cases, and that later texts resemble them (`explain_mismatch`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from outrider.distiller.engines.ensemble import Engine, Scores
from outrider.distiller.selection import lift_context_scores
from outrider.distiller.units import SegmentedText, segment_text
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.distilling import Calibration, Range, Reading, parse_calibration
from outrider.state.errors import BadRequest
from outrider.state.ports import OnCount
from outrider.text.words import STOP_WORDS, words

KEEP_RATE = 0.95
CONFIDENCE = 0.8
"""Confidence that the guarantee holds for this sample; without it, it would hold only on average and fail every second time."""
FAR_BELOW = 0.04
"""A share of new cases this far below the promised one counts as a broken guarantee."""
LOOKS = 20
LOOK_RISK = 0.1
"""Chance that any of `LOOKS` checks, each on as many new cases as were fitted on, finds the share that far below."""
MAX_EXCESS = 0.015
"""Maximum of the mean share above the promise, because a larger one keeps too much text.

With fewer than about 270 cases this and `LOOK_RISK` cannot both hold, and this one takes precedence.
"""
MIN_CASES = 20
"""Minimum number of cases to fit a threshold; for 95 % text can be left out from 32 cases on."""
MIN_WORDS = 30
"""The language of a shorter text cannot be recognised."""
SAMPLE_CHARS = 20_000
NOT_LATIN = re.compile("[^\x00-\u024f]")
TIMES_LONGER = 4.0
"""Multiple of the units of the longest fitted text; a longer text counts as a different kind of text."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A query and a text; `answers` are half-open character offsets into the text of `reading`."""

    query: str
    reading: Reading
    answers: tuple[tuple[int, int], ...]


def find_answering_units(its: SegmentedText, one: LabelledText) -> list[int]:
    """Units that overlap an answer by at least half of the shorter of the two. Raises `BadRequest` if there is none."""
    units = []
    for at, unit in enumerate(its.units):
        for first, last in one.answers:
            if 2 * (min(unit.end, last) - max(unit.start, first)) >= min(unit.end - unit.start, last - first) > 0:
                units.append(at)
                break
    if not units:
        raise BadRequest(f"the answers marked in {one.reading.doc_id} match none of its sentences; offsets are in characters")
    return units


def parse_labelled_lines(lines: Iterable[str]) -> list[LabelledText]:
    """Parse one JSON object per line: `query`, `text`, `answers` as [[start, end], ...] or as the sentences themselves; `id`, `title`.

    Raises `BadRequest` with the number of a line that cannot be parsed.
    """
    cases = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            text, answers = str(entry["text"]), []
            for answer in entry["answers"]:
                quoted = isinstance(answer, str)
                start, end = (text.index(answer), text.index(answer) + len(answer)) if quoted else answer
                if not quoted and not 0 <= start < end <= len(text):
                    raise ValueError(answer)  # noqa: TRY301 - any bad value is a bad line
                answers.append((int(start), int(end)))
            reading = Reading(str(entry.get("id", number)), text, str(entry.get("title", "")))
            cases.append(LabelledText(str(entry["query"]), reading, tuple(answers)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(f'line {number} is not of the form {{"query": ..., "text": ..., "answers": [[start, end], ...]}}') from error
    return cases


def conformal_threshold(weakest: Sequence[float], keep_rate: float) -> float:
    """The score with the rank of `conformal_rank`; 0, which keeps everything, if there are too few scores to leave one out."""
    place = conformal_rank(len(weakest), keep_rate)
    return sorted(weakest)[place - 1] if place else 0.0


def conformal_rank(cases: int, keep_rate: float) -> int:
    """The largest k that gives the guarantee with `CONFIDENCE`; smaller to satisfy `LOOK_RISK`, but limited by `MAX_EXCESS`.

    P(Binomial(cases, 1 - keep_rate) >= k) >= CONFIDENCE: then the k-th smallest score lies below the `1 - keep_rate` quantile.
    """
    lost, below, rank = 1 - keep_rate, 0.0, cases
    for k in range(cases + 1):
        below += math.exp(_log_binomial(cases, k) + k * math.log(lost) + (cases - k) * math.log(keep_rate))
        if 1 - below < CONFIDENCE:  # P(Binomial >= k + 1)
            rank = k
            break
    fewest = max(0, math.ceil((1 - keep_rate - MAX_EXCESS) * (cases + 1) - 1e-9))
    risk = 1 - (1 - LOOK_RISK) ** (1 / LOOKS)
    while rank > fewest and chance_below(keep_rate - FAR_BELOW, rank, cases, cases) > risk:
        rank -= 1
    return rank


def chance_below(share: float, k: int, cases: int, new: int) -> float:
    """Probability that less than `share` of `new` cases are kept whole by the score of rank `k` of `cases`.

    The number of lost cases follows the negative hypergeometric distribution if no two scores are equal.
    """
    most = new - math.ceil(share * new - 1e-9)
    total = _log_binomial(cases + new, new)
    lost = range(most + 1, new + 1)
    return sum(math.exp(_log_binomial(n + k - 1, n) + _log_binomial(cases - k + new - n, new - n) - total) for n in lost)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def explain_mismatch(calibration: Calibration, engine: Engine, cuts: Sequence[SegmentedText], scores: Scores) -> str:
    """Why the guarantee does not hold for these texts; empty if it does."""
    if (engine.name, engine.revision) != (calibration.engine, calibration.revision):
        return f"the threshold was fitted for {calibration.engine}, not for {engine.name}"
    for segmented, own in zip(cuts, scores, strict=True):
        text, units = segmented.reading.text[:SAMPLE_CHARS], len(segmented.units)
        share, why = function_word_share(text), ""
        if not calibration.latin.holds(latin_share(text)):
            why = "another script"
        elif share is not None and not calibration.function_words.holds(share):
            why = "another language, or no prose"
        elif not (calibration.structured or segmented.is_abstract()):
            why = "it has sections, lists or code, or is longer than an abstract"
        elif units > TIMES_LONGER * calibration.most_units:
            why = f"it is far longer, {units:,} units"
        elif own and max(own) < calibration.best.low:
            why = "none of its units seems to answer"
        if why:
            return f"{segmented.reading.doc_id} differs from the texts that the threshold was fitted on ({calibration.fitted_on}): {why}"
    return ""


def calibrate(
    engine: Engine, labelled: Sequence[LabelledText], fitted_on: str, keep_rate: float = KEEP_RATE, progress: OnCount | None = None
) -> Calibration:
    """Fit the threshold. Raises `BadRequest` for too few cases, an invalid rate, or answers that match no unit."""
    if not 0 < keep_rate < 1:
        raise BadRequest(f"the keep rate is {keep_rate}; use a value between 0 and 1, such as {KEEP_RATE}")
    if len(labelled) < MIN_CASES:
        raise BadRequest(f"{len(labelled)} labelled texts are too few for a guarantee; provide at least {MIN_CASES}")
    cuts = [segment_text(one.reading) for one in labelled]
    scores: Scores = []
    for one, its in zip(labelled, cuts, strict=True):
        stop_if_abandoned()
        scores += engine.scores(one.query, [its])
        if progress:
            progress(len(scores), len(labelled))
    return calibrate_scores(engine, labelled, cuts, scores, fitted_on, keep_rate)


def calibrate_scores(
    engine: Engine,
    labelled: Sequence[LabelledText],
    cuts: Sequence[SegmentedText],
    scores: Scores,
    fitted_on: str,
    keep_rate: float = KEEP_RATE,
) -> Calibration:
    """Fit the threshold from precomputed scores, one for each unit of each text."""
    worth = [lift_context_scores(its, own)[0] for its, own in zip(cuts, scores, strict=True)]
    weakest = [min(many[at] for at in find_answering_units(its, one)) for one, its, many in zip(labelled, cuts, worth, strict=True)]
    threshold = conformal_threshold(weakest, keep_rate)
    texts = [its.reading.text[:SAMPLE_CHARS] for its in cuts]
    shares = [share for share in map(function_word_share, texts) if share is not None]
    return Calibration(
        engine=engine.name,
        revision=engine.revision,
        keep_rate=keep_rate,
        threshold=threshold,
        pairs=len(labelled),
        fitted_on=fitted_on,
        removed=removed_share(cuts, worth, threshold),
        function_words=_range(shares or [0.0, 1.0]),
        latin=_range(map(latin_share, texts)),
        best=_range(max(own) for own in scores),
        most_units=max(len(its.units) for its in cuts),
        structured=sum(not its.is_abstract() for its in cuts) >= len(cuts) / 2,
    )


def removed_share(cuts: Sequence[SegmentedText], worth: Scores, threshold: float) -> float:
    """The share of all characters of all texts that a threshold removes."""
    chars = sum(len(its.reading.text) for its in cuts)
    kept_chars = sum(
        unit.end - unit.start
        for its, many in zip(cuts, worth, strict=True)
        for unit, one in zip(its.units, many, strict=True)
        if one >= threshold
    )
    return 1 - kept_chars / chars if chars else 0.0


def latin_share(text: str) -> float:
    """The share of Latin letters among a text's letters; 1 for a text without letters."""
    if text.isascii():
        return 1.0
    letters = sum(map(str.isalpha, text))
    others = sum(map(str.isalpha, NOT_LATIN.findall(text)))
    return (letters - others) / letters if letters else 1.0


def function_word_share(text: str) -> float | None:
    """The share of English function words among a text's words; None for a text that is too short."""
    tokens = words(text)
    return sum(map(STOP_WORDS.__contains__, tokens)) / len(tokens) if len(tokens) >= MIN_WORDS else None


def _range(values: Iterable[float]) -> Range:
    known = sorted(values)
    return Range(known[0], known[-1])


def write_calibration(calibration: Calibration, file: Path) -> None:
    """Write the calibration as JSON, for `read_calibration`."""
    file.write_text(json.dumps(asdict(calibration), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_calibration(file: Path) -> Calibration:
    """Read a calibration file. Raises `BadRequest` if it cannot be read or parsed."""
    try:
        return parse_calibration(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise BadRequest(f"the calibration {file} cannot be read: {error.strerror or error}") from error
