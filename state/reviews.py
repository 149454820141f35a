"""Values of screening: reviews, decisions, records to decide on, status"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from outrider.state.errors import BadRequest
from outrider.state.model import Model
from outrider.state.notices import Notice
from outrider.state.records import Record

Verdict = Literal["include", "exclude", "maybe"]
VERDICTS: tuple[Verdict, ...] = ("include", "exclude", "maybe")
RecordState = Literal["unscreened", "waiting", "include", "exclude", "maybe", "conflict"]
"""`waiting`: further reviewers have to decide. The verdicts are those on which the reviewers agree, or that resolve a conflict."""
Order = Literal["model", "question", "shuffled", "random", "chosen"]
"""Why a record was shown: best by the model, closest to the question, next in an order without a sense (there is neither a model nor a
question), drawn for the proof of recall, or named by the reviewer."""
Number = Annotated[int, Field(ge=1)]
MAX_REVIEWERS = 10
MAX_SEED = 2**31
MAX_NAME_CHARS = 100
"""Of a reviewer's name."""


class NoSuchReview(BadRequest):
    pass


class ReviewDamaged(BadRequest):
    """A file of a review is not what was written there."""


class Presentation(Model):
    """What a reviewer saw when deciding."""

    order: Order = "chosen"
    rank: int | None = Field(None, description="Place among the records that were left, from 1.")
    model: str = Field("", description="Version of the ranking: its name and the number of labels it was trained on.")
    passed: tuple[int, ...] = Field(
        (), description="Drawn records that the ranking put before this one: from this decision on it may learn their labels."
    )


class Decision(Model):
    """A decision of a reviewer on a record."""

    record: Number
    verdict: Verdict
    reason: str = ""
    by: str
    at: str = Field(description="ISO 8601, UTC.")
    shown: Presentation = Presentation()
    imported: bool = Field(False, description="Whether it came with an imported file.")
    resolves: bool = Field(False, description="Whether it resolves a conflict.")


def list_reasons(state: RecordState, decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Why a record has its verdict: the reasons of the decisions that agree with it, in their order; of a conflict those of all."""
    return tuple(dict.fromkeys(one.reason for one in decisions if one.reason and state in (one.verdict, "conflict")))


class ReviewNote(Model):
    """A note of a reviewer on a record."""

    record: Number
    text: str
    by: str
    at: str


class ReviewRecord(Model):
    """A record of a review, as a reviewer may see it: without decisions of others on a record that waits for this reviewer."""

    number: Number
    record: Record = Field(description="With what its duplicates have and it lacks.")
    state: RecordState
    notices: tuple[Notice, ...] = Field((), description="Retractions and corrections that the record or a duplicate reports.")
    duplicate_of: int | None = None
    decisions: tuple[Decision, ...] = ()
    notes: tuple[ReviewNote, ...] = ()


class Candidate(Model):
    """The record to decide on next. Without `record` there is none left for this reviewer."""

    review: str
    by: str
    record: ReviewRecord | None = None
    shown: Presentation = Presentation()
    terms: tuple[str, ...] = Field((), description="Words to highlight: the question's, and those that speak for inclusion.")
    sentences: tuple[tuple[int, int], ...] = Field((), description="Sentences of the abstract that answer the question: [start, end].")
    left: int = Field(0, description="Records that this reviewer may still decide on, this one included.")
    decided: int = Field(0, description="Records that this reviewer decided on.")
    reasons: tuple[str, ...] = Field(
        (),
        description="Reasons for exclusion, the most used first; where a record takes several reviewers, those of others once all works "
        "have a verdict.",
    )
    remarks: tuple[str, ...] = ()


class DecisionReport(Model):
    """What a change of decisions did."""

    review: str
    decisions: tuple[Decision, ...] = ()
    undone: tuple[int, ...] = Field((), description="Records whose last decision was taken back.")
    states: dict[int, RecordState] = Field(default_factory=dict, description="The states of these records now.")


class ImportReport(Model):
    """What an import added."""

    review: str
    source: str
    records: int
    duplicates: int = Field(description="Of these, records that another record of the review describes.")
    labels: int = Field(description="Decisions that came with the records.")
    notes: int = 0
    first: int = Field(description="Number of the first record.")
    remarks: tuple[str, ...] = ()


class ReviewSummary(Model):
    """A review in the list of reviews."""

    name: str
    question: str
    created: str
    reviewers: int
    records: int
    screened: int
    problem: str = Field("", description="Why it cannot be opened.")


class ReviewerCount(Model):
    """How much a reviewer decided. Verdicts are not counted: they would tell another reviewer about records that wait."""

    by: str
    decided: int
    last: str


class ReviewerAgreement(Model):
    """How alike two reviewers decided before either saw a decision of the other."""

    reviewers: tuple[str, str]
    records: int = Field(ge=1, description="Records on which both decided so.")
    agreed: int = Field(ge=0, description="Of these, records on which they decided alike.")
    kappa: float | None = Field(
        description="Cohen's kappa over include, exclude and maybe; null where it is undefined, as both gave one decision to all records."
    )


class ReviewStatus(Model):
    """Counts of a review."""

    name: str
    question: str
    created: str
    reviewers: int = Field(description="Reviewers who decide on each record.")
    reasons: tuple[str, ...] = ()
    records: int = Field(description="All imported records.")
    duplicates: int
    unscreened: int = Field(description="Records on which nobody decided.")
    waiting: int = Field(description="Records on which further reviewers have to decide.")
    included: int
    excluded: int
    maybe: int
    conflicts: tuple[int, ...] = Field((), description="Numbers of the records on which reviewers disagree.")
    excluded_by_reason: dict[str, int] = Field(default_factory=dict)
    by_reviewer: tuple[ReviewerCount, ...] = ()
    agreement: tuple[ReviewerAgreement, ...] = Field((), description="Of each two reviewers, where a record takes several.")
    imports: tuple[ImportReport, ...] = ()
    stop: tuple[str, ...] = Field((), description="What the labels tell about the recall, with method and confidence, and what to do next.")
    remarks: tuple[str, ...] = ()

    @property
    def works(self) -> int:
        """Records without duplicates."""
        return self.records - self.duplicates

    @property
    def screened(self) -> int:
        """Works that have a verdict, or a conflict."""
        return self.included + self.excluded + self.maybe + len(self.conflicts)


class ReviewList(Model):
    reviews: tuple[ReviewSummary, ...] = ()


class ConflictList(Model):
    """Records on which the reviewers disagree, with all their decisions."""

    review: str
    conflicts: tuple[ReviewRecord, ...] = ()
