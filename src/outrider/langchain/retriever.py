"""A retriever for LangChain, and the connection that its tools share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import BaseModel, ConfigDict, Field

from outrider.graph.pipeline import SearchGraph, build
from outrider.runtime.spans import run_named
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services
from outrider.state.errors import SearchError
from outrider.state.hits import Hit
from outrider.state.pipeline import RunContext
from outrider.state.request import check_request
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from langchain_core.callbacks import Callbacks

FILTERS = 'For example {"year": {"$gte": 2020}, "language": "Rust"}.'


class Connection(BaseModel):
    """The services of a retriever or tool, opened at first use and shared by its calls."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    library: str | PathLike[str] | None = Field(None, description="The library's folder or address; by default that of the settings.")
    services: Services | None = Field(None, exclude=True, repr=False, description="Services of yours instead of those of the settings.")

    @cached_property
    def opened(self) -> Services:
        return self.services or Services.for_library(self.library)

    @cached_property
    def graph(self) -> SearchGraph:
        """Saves no steps: an agent's checkpoints would hold the state of each search it makes."""
        return build(self.opened, checkpointer=False)

    async def search(self, request: dict[str, Any], callbacks: Callbacks = None, context_tokens: int | None = None) -> SearchResponse:
        """Raises `SearchError`; a run that could search nothing has the reason in `failures`."""
        fields = {name: value for name, value in request.items() if value is not None}
        checked = await asyncio.to_thread(check_request, fields)  # looks for other packages' sources where a name is unknown
        with run_named():
            graph = await asyncio.to_thread(lambda: self.graph)  # reads settings and looks for a browser at first use
            context = RunContext(max_context_tokens=context_tokens)
            state = await graph.ainvoke(checked, {"callbacks": callbacks} if callbacks else None, context=context)
        return SearchResponse.model_validate(state)


def make_document(hit: Hit, page_content: Literal["original", "distilled"] = "original") -> Document:
    """A hit as a document: its text, and in `metadata` all that locates, ranks and cites it, as JSON values.

    `metadata["spans"]` are offsets into the original text, which is `page_content` unless "distilled" is asked for: the sentences that
    answer (`metadata["distilled_text"]`), or the abstract where the hit was not distilled.
    """
    text = hit.original_text if page_content == "original" else hit.distilled_text
    facts = hit.model_dump(
        mode="json",
        exclude={"original_text", "content", "abstract", "description", "metadata", "duplicates", "related", "radar"},
        exclude_none=True,
    )
    return Document(id=hit.doc_id, page_content=text or hit.content or hit.title, metadata={**facts, "source": hit.url or hit.doc_id})


class OutriderRetriever(Connection, BaseRetriever):
    """Searches papers, repositories, the web and the library; returns the first `k` works as documents.

    `invoke(query, k=3, filters={...})` overrides fields for one call. Raises `BadRequest` for a request that cannot be understood, and
    `SearchError` where nothing could be searched.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    k: int = Field(10, ge=1, le=1_000, description="How many documents.")
    sources: Sequence[str] | None = Field(None, description="Sources to search; all configured ones by default.")
    strategies: Sequence[str] | None = Field(None, description="The library's retrievers; all of them by default.")
    filters: dict[str, Any] | None = Field(None, description=FILTERS)
    search_mode: Literal["focused", "balanced", "exploratory"] = Field("balanced", description="How far the query is expanded.")
    rerank_enabled: bool | None = Field(None, description="Reorder the first works with a reranker.")
    page_content: Literal["original", "distilled"] = Field("original", description="See `make_document`.")

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **fields: Any) -> list[Document]:
        return run_in_background(self._retrieve(query, run_manager.get_child(), **fields))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **fields: Any
    ) -> list[Document]:
        return await self._retrieve(query, run_manager.get_child(), **fields)

    async def _retrieve(self, query: str, callbacks: Callbacks, k: int | None = None, **fields: Any) -> list[Document]:
        own = {name: getattr(self, name) for name in ("sources", "strategies", "filters", "search_mode", "rerank_enabled")}
        top_k = self.k if k is None else k
        request = {"query": query, "top_k": top_k, "distill_top": min(top_k, 50), **own, **fields}
        answer = await self.search(request, callbacks)
        raise_if_failed(answer)
        return [make_document(hit, self.page_content) for hit in answer.hits]


def raise_if_failed(answer: SearchResponse) -> None:
    """A run that broke off is an error here: neither documents nor a text would tell it from one that found nothing."""
    if not answer.hits and answer.failures and "organizer" not in answer.timings_ms:
        raise SearchError("; ".join(failure.message for failure in answer.failures))
