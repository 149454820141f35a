"""The graph as a node of another graph: a request from its state, a reply to its messages.

A parent passes its whole state to a node. Keys that are no fields of the request are the parent's own and are ignored; everybody else
who passes an unknown field has misspelt one. Without `query`, the last message of a human is the query, and the last node adds a reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_config
from langgraph.graph.message import add_messages
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from outrider.distiller.token_counter import CountTokens, estimate_tokens
from outrider.graph.guard import CALLER
from outrider.state.errors import BadRequest
from outrider.state.hits import Hit
from outrider.state.pipeline import ParentState, PipelineState, Update
from outrider.state.request import SearchRequest, check_request
from outrider.state.response import SearchResponse, ShortAnswer, explain_removed, explain_unanswered
from outrider.text.sanitize import without_control

REPLY_NAME = "outrider"
MAX_REPLY_TOKENS = 4_000
MAX_TITLE_CHARS, MAX_NOTE_CHARS, MAX_NOTES = 200, 300, 3
REQUEST_KEYS = frozenset((*SearchRequest.model_fields, "execution_mode"))
LISTS = ("hits", "sources", "failures", "bypassed")
Messages = Annotated[list[Any] | None, add_messages]
"""With None, the channel is empty until it is written, and a run without messages has none in its output."""


class SearchInput(SearchRequest):
    """A request, or messages whose last one by a human is the query."""

    model_config = ConfigDict(defer_build=True)  # describes the graph; the schema of messages would slow every import

    query: str | dict[str, str] | None = Field(  # type: ignore[assignment]
        None, description="Words, a question, or (systematic mode) a mapping field -> text; by default the last message of a human."
    )
    messages: Annotated[list[AnyMessage] | None, add_messages] = Field(
        None, description="A conversation; the answer is added as a message."
    )
    parent: SkipJsonSchema[ParentState | None] = None

    @field_validator("query")
    @classmethod
    def check_text(cls, query: str | dict[str, str] | None) -> str | dict[str, str] | None:  # type: ignore[override]
        return query  # `read_input` checks it


class SearchState(PipelineState):
    """The graph's state: that of the pipeline, messages, and what a parent graph needs."""

    messages: Messages = None
    parent: ParentState | None = None

    @field_validator("query")
    @classmethod
    def check_text(cls, query: str | dict[str, str]) -> str | dict[str, str]:
        return query  # it was checked when the request came in, and the last node may write a parent's empty one


class SearchOutput(SearchResponse):
    """The response, and the messages if there were any in the request."""

    model_config = ConfigDict(extra="ignore", defer_build=True)  # LangGraph makes one of every state with `version="v2"`

    messages: Messages = None

    @field_validator("sources", mode="before")
    @classmethod
    def drop_names(cls, sources: Sequence[Any] | None) -> tuple[Any, ...]:
        """The names of the request stand there until the scout has run."""
        return tuple(row for row in sources or () if not isinstance(row, str))


def read_input(value: Any) -> tuple[SearchRequest, dict[str, Any]]:
    """The request, and the other fields of the state: `parent`, and a direct caller's `messages`. Raises `BadRequest`."""
    state = read_fields(value)
    if isinstance(value, SearchInput):
        del state["parent"]  # a field of the class that no caller fills
    return _read_parent(state) if is_node_input(value) else _read_request(without_keys_of_parent(state, {*REQUEST_KEYS, "messages"}))


def _read_request(state: dict[str, Any]) -> tuple[SearchRequest, dict[str, Any]]:
    messages = _read_messages(state.pop("messages", None))
    texts = _list_questions(messages)
    if state.get("query") is None:
        if messages and not texts:
            raise BadRequest("messages: none of them is by a human; add one, or give `query`")
        state |= {"query": texts[-1]} if texts else {}
    return check_request(state), {"parent": None, **({"messages": messages} if messages else {})}


def _read_parent(state: dict[str, Any]) -> tuple[SearchRequest, dict[str, Any]]:
    """The request in a parent's state, and what the output must know of it. None is a key that was not filled.

    A query that repeats an earlier message is that of an earlier turn and gives way to the last message.
    """
    request = {name: value for name, value in state.items() if name in REQUEST_KEYS and value is not None}
    if "mode" in request:  # written by an earlier run, under its usual name
        request.pop("execution_mode", None)
    names = request.get("sources")
    if isinstance(names, Sequence) and not isinstance(names, str) and not any(isinstance(name, str) for name in names):
        del request["sources"]  # the reports of an earlier run
    query = request.get("query")
    texts: list[str] = []
    try:
        texts = _list_questions(_read_messages(state.get("messages")))
    except BadRequest:
        if not query:  # else the messages are not meant for the search
            raise
    if texts and (not query or query in texts[:-1]):
        request["query"] = query = texts[-1]
    elif "query" not in request:
        lack = "a message of a human in `messages`" if state.get("messages") else "`messages`"
        raise BadRequest(f"the parent's state has neither `query` nor {lack}: fill one of them, or call the graph in a node of yours")
    kept = tuple(request["sources"]) if isinstance(request.get("sources"), list | tuple) else None
    try:
        checked = check_request(request)
    except BadRequest as error:
        raise BadRequest(f"{error} (a key of the parent's state: rename it there, or call the graph in a node of yours)") from error
    has_messages = bool(texts) and query == texts[-1]
    return checked, {"parent": ParentState(sources=kept, query=state.get("query") or "", has_messages=has_messages)}


def read_fields(value: Any) -> dict[str, Any]:
    """Fields of a mapping, pydantic model or dataclass; values stay as they are."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, BaseModel):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise BadRequest(f"a request is a mapping such as {{'query': 'aspirin liver'}}, not {type(value).__name__}")


def is_node_input(value: Any) -> bool:
    """Whether LangGraph itself passes the value: this graph is a node of a parent that runs now, and the value is the node's input.

    LangGraph has no public sign of it. Its runner puts a reference to the running task into the configuration; a function of a parent that
    calls this graph has a task, too, but passes another object. `tests/graph/test_parent.py` notices where LangGraph changes this.
    """
    configurable = _read_configurable()
    task = next(iter(getattr(configurable.get("__pregel_call"), "args", ())), lambda: None)()
    # A resumed run reads its input back from the checkpoint: an equal value, but another object.
    return task is not None and (task.input is value or bool(configurable.get("__pregel_resuming")))


def without_keys_of_parent(state: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The request of a function in a parent's node, such as `graph.invoke({**state, "query": ...})`, without the parent's own keys."""
    read = _read_configurable().get("__pregel_read")
    return {name: value for name, value in state.items() if name in fields or not (read and _is_key(read, name))}


def _is_key(read: Callable[[list[str]], object], name: str) -> bool:
    try:
        read([name])
    except KeyError:
        return False
    return True


def _read_configurable() -> dict[str, Any]:
    """That of the running node of a parent, if there is one, and that of the call."""
    try:
        current = get_config()
    except RuntimeError:  # no runnable is running
        current = {}
    return {**(current.get("configurable") or {}), **((CALLER.get() or {}).get("configurable") or {})}


def _read_messages(value: Any) -> list[Any]:
    try:
        return list(add_messages([], list(value) if isinstance(value, tuple) else value)) if value else []
    except (ValueError, NotImplementedError, TypeError) as error:
        reason = str(error)[:MAX_NOTE_CHARS]
        raise BadRequest(f"messages: takes messages of LangChain, such as [('user', 'aspirin liver')]: {reason}") from error


def _list_questions(messages: Sequence[Any]) -> list[str]:
    """Texts of the messages by humans, oldest first."""
    return [str(message.text) for message in messages if message.type == "human"]


def add_output(state: SearchState, update: Update) -> dict[str, Any]:
    """What the last node writes besides its update: a reply to messages, and for a parent its own query and names of sources.

    A parent gets lists: with the usual reducer `operator.add` a tuple cannot be added to its list.
    """
    after = state.model_copy(update=dict(update))
    added: dict[str, Any] = {}
    parent = state.parent
    if state.messages or (parent and parent.has_messages):
        added["messages"] = [AIMessage(format_answer(after), name=REPLY_NAME, id=str(uuid.uuid4()))]
    if parent:
        added |= {name: list(getattr(after, name) or ()) for name in LISTS}
        added |= {"query": parent.query} if parent.has_messages else {}
        added |= {"sources": list(parent.sources)} if parent.sources is not None else {}
    return added


def format_answer(
    answer: PipelineState | SearchResponse, max_tokens: int = MAX_REPLY_TOKENS, count_tokens: CountTokens = estimate_tokens
) -> str:
    """The answer for a model or a person, of at most `max_tokens`: the sentences that answer, the works, failures.

    A work whose sentences may not answer says so. One without sentences says what it is about, if none was found in it or in any work.
    """
    lines = format_short_answer(answer.answer) if answer.answer else []
    lines += [unanswered, ""] if (unanswered := explain_unanswered(answer.hits, str(answer.query))) else []
    if answer.context.units:
        lines += [*answer.context.text.splitlines(), ""]
    if answer.hits:
        lines += ["Works:", *(_describe_hit(hit, described=not answer.context.units) for hit in answer.hits)]
    elif answer.result_set:
        state = "complete" if answer.result_set.complete else "incomplete: " + "; ".join(answer.result_set.missing)
        lines.append(f"{answer.result_set.total:,} records match exactly ({state}). Ledger: {answer.result_set.path}")
    else:
        lines.append("Nothing was found.")
    notes = [f"{failure.node}: {shorten(failure.message, MAX_NOTE_CHARS)}" for failure in answer.failures]
    if notes:
        lines += ["", "Failures:", *notes[:MAX_NOTES]]
    return fit_lines(lines, max_tokens, count_tokens)


def _describe_hit(hit: Hit, *, described: bool) -> str:
    line = format_hit(hit)
    if hit.answers == "perhaps":
        return f"{line} (Its sentences may not answer.)"
    about = shorten(hit.summary or (hit.content if described else ""), MAX_NOTE_CHARS)
    return " ".join(filter(None, (line, "(No sentence answers.)" if hit.answers == "no" else "", f"About: {about}" if about else "")))


def format_short_answer(answer: ShortAnswer) -> list[str]:
    """The sentences with the keys of the works that they cite, and what was removed; an empty line follows."""
    lines = [sentence.with_keys for sentence in answer.sentences]
    heading = f"Answer by {answer.model}; its numbers, negations and quotations were compared with the sentences that it cites:"
    lines = [heading, *lines] if lines else [f"No answer: {answer.why}"]
    return [*lines, *filter(None, [explain_removed(answer)]), ""]


def format_hit(hit: Hit) -> str:
    """A work in one line, with its notices, behind the citation key of its sentences."""
    year = f" ({hit.year})" if hit.year else ""
    labels = ", ".join(dict.fromkeys(notice.label for notice in hit.notices))
    notices = f" ({labels}.)" if labels else ""
    return f"[{hit.rank}] {shorten(hit.title or hit.content, MAX_TITLE_CHARS)}{year}.{notices} {hit.url or hit.doc_id}"


def fit_lines(lines: Sequence[str], max_tokens: int, count_tokens: CountTokens) -> str:
    """The first lines that fit; of a first line that is too long, its beginning."""
    kept = list(lines)
    while len(kept) > 1 and count_tokens("\n".join(kept)) > max_tokens:
        kept.pop()
    text = "\n".join(kept).strip()
    while text and (count := count_tokens(text)) > max_tokens:
        text = text[: min(len(text) - 1, len(text) * max_tokens // count)]
    return text


def shorten(text: str, max_chars: int) -> str:
    line = " ".join(without_control(text).split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"
