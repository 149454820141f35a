"""The node that waits for a person after the results.

The person may keep works, drop them, or ask for more like them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langgraph.types import interrupt

from outrider.nodes.fine_scorer.judgement import to_one_line
from outrider.nodes.organizer import count_facets, list_models, select_and_sort
from outrider.nodes.run_settings import run_setting
from outrider.settings.model import OrganizerSettings
from outrider.state.checkpoints import (
    MAX_SHOWN_WORKS,
    JudgedWork,
    Judgement,
    ResultsAnswer,
    ResultsReview,
    ReviewedWork,
    check_review_answer,
    list_work_ids,
)
from outrider.state.errors import BadRequest
from outrider.state.hits import Candidate, Hit
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.response import provenance_hash

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

TITLE_CHARS, ABOUT_CHARS = 300, 300
MAX_LIKE_TAGS, MAX_TAG_CHARS = 3, 40


@dataclass(frozen=True, slots=True)
class ReviewResults:
    """Reads hits, candidates; writes hits, candidates, facets, total_found, provenance_hash, judged.

    Dropped works leave the run; nothing that the person has not seen takes their place. A wrong answer is refused by waiting again, with
    the problem. A run without hits does not wait.
    """

    settings: OrganizerSettings
    versions: Mapping[str, str]

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.hits:
            return {}
        review, schema = make_results_review(state), ResultsAnswer.model_json_schema()
        while True:
            try:
                answer = check_review_answer(review, interrupt(review.model_dump(mode="json"), response_schema=schema))
                assert isinstance(answer, ResultsAnswer)  # noqa: S101 - of this kind of review
                break
            except BadRequest as error:
                review = review.model_copy(update={"problem": str(error)})
        threshold = run_setting(runtime, "relevance_threshold", self.settings.relevance_threshold)
        return self.apply(state, answer, threshold)

    def apply(self, state: PipelineState, answer: ResultsAnswer, threshold: float) -> Update:
        """The update for a checked answer."""
        judged = state.judged.add(judge_works(state, answer), answer.feedback)
        if not answer.drop:
            return {"judged": judged}
        dropped = frozenset(answer.drop)
        candidates = tuple(one for one in state.candidates if one.record.doc_id not in dropped)
        left = (hit for hit in state.hits if hit.doc_id not in dropped)
        hits = tuple(hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(left, start=1))
        by_id = {one.record.doc_id: one.record for one in candidates}
        contents = [(hit.doc_id, by_id[hit.doc_id].content_hash()) for hit in hits if hit.doc_id in by_id]
        passed = select_and_sort(candidates, threshold)
        return {
            "judged": judged,
            "candidates": candidates,
            "hits": hits,
            "facets": count_facets(passed, self.settings),
            "total_found": len(passed),
            "provenance_hash": provenance_hash(state, state.strategy, state.snapshot, {**self.versions, **list_models(state)}, contents),
        }


def make_results_review(state: PipelineState) -> ResultsReview:
    """The first works, their texts cut and without control characters."""
    works = tuple(_describe(hit) for hit in state.hits[:MAX_SHOWN_WORKS])
    return ResultsReview(query=str(state.query), works=works, total=len(state.hits))


def _describe(hit: Hit) -> ReviewedWork:
    return ReviewedWork(
        **{name: getattr(hit, name) for name in ("rank", "doc_id", "kind", "year", "url", "score", "scored_by", "flags")},
        title=to_one_line(hit.title or hit.doc_id, TITLE_CHARS),
        about=to_one_line(hit.content, ABOUT_CHARS),
        notices=tuple(dict.fromkeys(notice.label for notice in hit.notices)),
    )


def judge_works(state: PipelineState, answer: ResultsAnswer) -> Iterator[JudgedWork]:
    """The works that the answer names, each with the strongest thing that it says of it."""
    judgements: dict[str, Judgement] = {}
    for judgement, ids in (("keep", answer.keep), ("more_like", answer.more_like), ("drop", answer.drop)):
        judgements |= dict.fromkeys(ids, judgement)  # type: ignore[arg-type]
    candidates: dict[str, Candidate] = {one.record.doc_id: one for one in state.candidates}
    for hit in state.hits:
        if hit.doc_id in judgements:
            candidate = candidates.get(hit.doc_id)
            ids = list_work_ids(candidate) if candidate else (hit.doc_id,)
            title = to_one_line(hit.title or hit.doc_id, TITLE_CHARS)
            yield JudgedWork(
                doc_id=hit.doc_id, title=title, judgement=judgements[hit.doc_id], ids=ids, like=describe_work(hit), flags=hit.flags
            )


def describe_work(hit: Hit) -> str:
    """Words that describe a work: its title, or a repository's description, and its first keywords."""
    about = hit.description if hit.kind == "repository" and hit.description else hit.title
    tags: Sequence[str] = [tag for tag in hit.tags if len(tag) < MAX_TAG_CHARS and ":" not in tag and "/" not in tag]
    return to_one_line(" ".join((about or hit.doc_id, *tags[:MAX_LIKE_TAGS])), TITLE_CHARS)
