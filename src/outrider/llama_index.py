"""LlamaIndex: a retriever, and the tools of `outrider.langchain` for agents.

They need the extra `llama-index`.

>>> from outrider.llama_index import OutriderRetriever, make_tools
>>> nodes = OutriderRetriever(k=5, page_content="distilled").retrieve("does aspirin harm the liver?")  # doctest: +SKIP
>>> tools = make_tools(max_tokens=1_000)  # doctest: +SKIP
"""

from __future__ import annotations

import uuid
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool

from outrider import langchain
from outrider.runtime.threads_and_loops import run_in_background
from outrider.state.errors import MissingExtra

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.core.tools.types import AsyncBaseTool, ToolMetadata, ToolOutput
except ImportError as error:
    raise ImportError(str(MissingExtra("outrider.llama_index", "llama-index"))) from error

PROMPT_KEYS = frozenset(("title", "year", "source", "status"))
"""Metadata that LlamaIndex puts before a text for models; the other fields would outweigh the text."""


def make_node(document: Document) -> NodeWithScore:
    """A document of `outrider.langchain.make_document` as a node: the same text, metadata and spans, and the score."""
    node = TextNode(id_=document.id, text=document.page_content, metadata=document.metadata)
    node.excluded_llm_metadata_keys = node.excluded_embed_metadata_keys = sorted(document.metadata.keys() - PROMPT_KEYS)
    return NodeWithScore(node=node, score=document.metadata.get("score"))


class OutriderRetriever(BaseRetriever):
    """Returns the first `k` works as nodes. Takes the arguments of `outrider.langchain.OutriderRetriever`, and raises its errors."""

    def __init__(self, callback_manager: CallbackManager | None = None, **fields: Any) -> None:
        super().__init__(callback_manager)
        self.inner = langchain.OutriderRetriever(**fields)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run_in_background(self._aretrieve(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [make_node(document) for document in await self.inner.ainvoke(query_bundle.query_str)]


class OutriderTool(AsyncBaseTool):
    """A tool of `outrider.langchain`: text of at most its `max_tokens`, the works as nodes in `raw_output`, an error with `is_error`."""

    def __init__(self, inner: BaseTool) -> None:
        self.inner = inner

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(self.inner.description, self.inner.name, self.inner.get_input_schema())  # type: ignore[arg-type]  # all are of pydantic 2

    def call(self, first: Any = None, /, **fields: Any) -> ToolOutput:
        return run_in_background(self.acall(first, **fields))

    async def acall(self, first: Any = None, /, **fields: Any) -> ToolOutput:
        """The first field of the tool may stand without its name, as LlamaIndex passes the only argument of a call."""
        fields |= {} if first is None else {next(iter(self.inner.args)): first}
        message = await self.inner.ainvoke(ToolCall(name=self.inner.name, args=fields, id=uuid.uuid4().hex, type="tool_call"))
        works = [make_node(document) for document in message.artifact or ()]
        return ToolOutput(self.inner.name, message.content, None, fields, works, is_error=message.status == "error")


def make_tools(**fields: Any) -> list[AsyncBaseTool]:
    """The tools `search`, `systematic`, `analyze` and `library`. Takes the arguments of `outrider.langchain.OutriderToolkit`."""
    return [OutriderTool(tool) for tool in langchain.OutriderToolkit(**fields).get_tools()]
