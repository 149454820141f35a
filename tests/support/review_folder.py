"""A review of papers on otters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.reviews.review import NewBatch, Review
from support.fakes import paper

AT = "2026-11-26T12:00:00.000+00:00"


def make_review(folder: Path, records: int = 5, reviewers: int = 1, **settings: Any) -> Review:
    review = Review.create(folder, {"name": folder.name, "created": AT, "seed": 0, "reviewers": reviewers, **settings})
    batch = [paper(f"p{number}", f"Study {number} of otters", abstract=f"Otters eat fish {number}.") for number in range(1, records + 1)]
    review.import_batch(NewBatch("a file", batch, {}), [], "ann", AT, 0)
    return review
