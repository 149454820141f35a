"""Closeness of units to a question, by vectors of their tokens, on one scale for all models.

Late interaction: Khattab and Zaharia 2020, "ColBERT".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.distiller.engines.cosine_scale import find_scales
from outrider.distiller.engines.embedding import Embedder
from outrider.distiller.engines.shortlist import MAX_CHARS, titles_of
from outrider.distiller.units import SegmentedText

if TYPE_CHECKING:
    import numpy as np

CLOSE_TOKENS = 0.7
"""A cosine of two tokens from which on the unit is counted as having the question's one."""
TOKEN_FEATURES = ("centred", "tokens", "tokens_behind", "closest", "closest_behind", "window_behind", "section_behind", "cosine")
"""`centred`: the unit's cosine with the question, what all units share left out; `cosine`: with that part, since a text about the subject
of the question shares it in most units. `tokens`: the mean over the question's tokens of the
unit's closest token, rare ones counting more; in `closest` that of the unit, the one before or the titles above. `window`, `section`: the
cosine of the mean with the units beside it, and of its section's mean. `behind`: minus the best unit's.
"""


def compute_closeness(embedder: Embedder, question: np.ndarray, segmented: SegmentedText, places: Sequence[int]) -> list[tuple[float, ...]]:
    """The values of `TOKEN_FEATURES` of the units at `places`, in order; `question` has a row for each of its tokens. Raises
    `ModelUnavailable` for a model that gives no token vectors.
    """
    import numpy as np

    plain = segmented.plain_texts()
    titles = [titles_of(segmented, at) for at in places]
    different = list(dict.fromkeys(title for own in titles for title in own))
    tokens = embedder.token_vectors([*(plain[at][:MAX_CHARS] for at in places), *different])
    zeros = np.zeros((1, question.shape[1]), np.float32)
    tokens = [one if len(one) else zeros for one in tokens]
    scales = find_scales(embedder)
    closest = scales.tokens.apply(np.array([(question @ one.T).max(axis=1) for one in tokens]))
    vectors, own = np.array([one.mean(axis=0) for one in tokens[: len(places)]]), closest[: len(places)]
    of_title = dict(zip(different, closest[len(places) :], strict=True))
    nothing = np.zeros(len(question), np.float32)
    above = np.array([np.max([of_title[title] for title in many], axis=0) if many else nothing for many in titles])
    row_of = {at: row for row, at in enumerate(places)}
    before = np.array([own[row_of[at - 1]] if at - 1 in row_of and segmented.goes_on(at) else nothing for at in places])
    windows = np.array([vectors[[row_of[near] for near in (at - 1, at, at + 1) if near in row_of]].mean(axis=0) for at in places])
    asked, common = question.mean(axis=0), vectors.mean(axis=0)
    rarity = np.log(1 + len(places) / (1 + (own > CLOSE_TOKENS).sum(axis=0)))
    rarity /= rarity.sum()
    by_tokens, by_closest = own @ rarity, np.maximum(np.maximum(own, above), before) @ rarity
    columns = (
        _unit(vectors - common) @ _unit(asked - common * (asked @ common) / (common @ common + 1e-9)),
        by_tokens,
        _behind_best(by_tokens),
        by_closest,
        _behind_best(by_closest),
        _behind_best(scales.means.apply(_unit(windows) @ _unit(asked))),
        _behind_best(scales.means.apply(_unit(_mean_of_sections(vectors, segmented, places)) @ _unit(asked))),
        scales.means.apply(_unit(vectors) @ _unit(asked)),
    )
    return [tuple(map(float, row)) for row in zip(*columns, strict=True)]


def _mean_of_sections(vectors: np.ndarray, segmented: SegmentedText, places: Sequence[int]) -> np.ndarray:
    import numpy as np

    rows: dict[tuple[str, ...], list[int]] = {}
    for row, at in enumerate(places):
        rows.setdefault(segmented.units[at].section, []).append(row)
    means = np.empty_like(vectors)
    for some in rows.values():
        means[some] = vectors[some].mean(axis=0)
    return means


def _behind_best(values: np.ndarray) -> np.ndarray:
    distances: np.ndarray = values - values.max()
    return distances


def _unit(rows: np.ndarray) -> np.ndarray:
    import numpy as np

    result: np.ndarray = rows / (np.linalg.norm(rows, axis=-1, keepdims=True) + 1e-9)
    return result
