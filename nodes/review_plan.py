"""The node that waits for a person after the plan.

The person may change queries, sources and filters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langgraph.types import interrupt

from outrider.nodes.translator.common_boolean_syntax import conjunction, list_terms, to_common_syntax
from outrider.nodes.translator.rule_plan import extract_concepts, extract_keywords, leave_out_operators
from outrider.state.checkpoints import EditedQuery, PlanAnswer, PlanReview, check_review_answer
from outrider.state.errors import BadRequest
from outrider.state.intent import NumberRange, PlannedQuery, SearchStrategy
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.text.sanitize import without_control

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


@dataclass(frozen=True, slots=True)
class ReviewPlan:
    """Reads strategy, filters; writes strategy, filters. A wrong answer is refused by waiting again, with the problem."""

    configured: tuple[str, ...]

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        assert state.strategy is not None  # noqa: S101 - the edge to this node is taken only with a strategy
        review, schema = make_plan_review(state, self.configured), PlanAnswer.model_json_schema()
        while True:
            try:
                answer = check_review_answer(review, interrupt(review.model_dump(mode="json"), response_schema=schema))
                return apply_plan_answer(state, answer) if isinstance(answer, PlanAnswer) else {}
            except BadRequest as error:
                review = review.model_copy(update={"problem": str(error)})


def make_plan_review(state: PipelineState, configured: Iterable[str]) -> PlanReview:
    strategy = state.strategy
    assert strategy is not None  # noqa: S101 - as above
    return PlanReview(
        query=str(state.query),
        made_by=strategy.made_by,
        queries=tuple(EditedQuery(text=query.text, boolean_query=query.boolean_query) for query in strategy.queries),
        sources=strategy.sources,
        available_sources=tuple(configured),
        filters=state.filters,
        years=strategy.constraints.years,
        stars=strategy.constraints.stars,
    )


def apply_plan_answer(state: PipelineState, answer: PlanAnswer) -> Update:
    """The changed plan; nothing for an answer that changes nothing. Raises `BadRequest` for a Boolean query that cannot be read."""
    strategy = state.strategy
    assert strategy is not None  # noqa: S101 - as above
    constraints = strategy.constraints
    if answer.years is not None:
        constraints = constraints.model_copy(update={"years": answer.years})
    if answer.stars is not None and answer.stars != constraints.stars:
        constraints = constraints.model_copy(update={"stars": answer.stars, "stars_named": answer.stars != NumberRange()})
    changed = strategy.model_copy(
        update={
            "queries": strategy.queries if answer.queries is None else tuple(dict.fromkeys(make_queries(answer.queries, strategy))),
            "sources": strategy.sources if answer.sources is None else tuple(dict.fromkeys(answer.sources)),
            "constraints": constraints,
        }
    )
    update: Update = {}
    if changed != strategy:
        update["strategy"] = changed.model_copy(update={"edited": True})
    if answer.filters is not None:
        update["filters"] = answer.filters or None
    return update


def make_queries(edited: Iterable[EditedQuery], strategy: SearchStrategy) -> Iterable[PlannedQuery]:
    """Planned queries with the person's texts. One that is unchanged keeps its keywords and synonyms."""
    planned = {(query.text, query.boolean_query): query for query in strategy.queries}
    for query in edited:
        if kept := planned.get((query.text, query.boolean_query)):
            yield kept
            continue
        text = leave_out_operators(" ".join(without_control(query.text).split()))
        boolean = " ".join(without_control(query.boolean_query).split())
        if boolean and not (common := to_common_syntax(boolean)):
            raise BadRequest(f"queries: the Boolean query {boolean[:100]!r} cannot be read; check its parentheses and quotation marks")
        concepts = tuple(list_terms(common)) if boolean else extract_concepts(text) or (text,)
        yield PlannedQuery(
            text=text,
            keywords=extract_keywords(extract_concepts(text) or (text,)),
            boolean_query=common if boolean else conjunction(concepts),
        )
