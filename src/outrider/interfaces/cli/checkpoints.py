"""Human checkpoints in the terminal: questions, and answers from a file."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.interfaces.cli.options import call_services
from outrider.interfaces.cli.terminal import console, errors, follow_run, note, one_line, plain
from outrider.state.checkpoints import PlanReview, ResultsReview, check_review_answer
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.state.checkpoints import Review
    from outrider.state.response import SearchResponse

WAITS = 5
"""The exit code of a search that waits for an answer."""
MAX_ANSWER_BYTES = 2**20
PLAN_HELP = (
    "Enter goes on. 2 TEXT rewrites query 2, + TEXT adds one, - 2 removes it; s NAMES sets sources, y YEARS, f JSON; b 2 BOOLEAN; ? helps"
)
RESULTS_HELP = "Enter goes on. k 1 3 keeps, d 2 drops, m 4 looks for more like it next time, w TEXT says in words; ? helps"
YEARS = re.compile(r"(\d{4})?\s*(-)?\s*(\d{4})?")


def settle(answer: SearchResponse, library: str | None, *, offline: bool = False, quiet: bool = False) -> SearchResponse:
    """The response after the person in this terminal has answered all that waits; without a terminal as it is, still waiting."""
    while answer.waiting is not None and is_interactive():
        given = ask(answer.waiting)
        if given is None:
            break
        answer = resume_thread(answer.waiting.thread, given, library, offline=offline, quiet=quiet)
    return answer


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def resume_thread(thread: str, answer: object, library: str | None, *, offline: bool = False, quiet: bool = False) -> SearchResponse:
    """The response of a thread's last search, which goes on. Each call has services and a loop of its own."""
    from outrider.usecases.threads import make_response, open_threads

    async def follow(services: Services) -> SearchResponse:
        async with open_threads(services) as threads:
            return make_response(await follow_run(threads.resume(thread, answer), "Resuming", "Searching", quiet=quiet))

    return call_services(follow, library, offline=offline)


def read_answer(source: str) -> object:
    """The JSON of a file, or of standard input for `-`. Raises `BadRequest`."""
    try:
        if source == "-":
            text = sys.stdin.read(MAX_ANSWER_BYTES + 1)
        else:
            with Path(source).open(encoding="utf-8") as file:
                text = file.read(MAX_ANSWER_BYTES + 1)
        if len(text) > MAX_ANSWER_BYTES:
            raise BadRequest(f"--answer {source} is longer than {MAX_ANSWER_BYTES:,} characters, which no answer is")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(f'--answer {source} cannot be read as JSON ({error}); write an answer such as {{"drop": ["ID"]}}') from error


def show_waiting(review: Review, library: str | None) -> int:
    """Show what waits and how to go on; returns the exit code."""
    _show(review, to_screen=False)
    command = resume_command(review.thread, library)
    note(f"The search waits for you, saved as a thread. To go on: {command}, in a script with --answer FILE or -")
    note(review.how)
    return WAITS


def resume_command(thread: str, library: str | None) -> str:
    """The command that goes on with a thread; `library` is that of the option."""
    return shlex.join(["outrider", "threads", "resume", thread, *(["--library", library] if library else [])])


def ask(review: Review, read: Callable[[str], str] = input) -> dict[str, Any] | None:
    """The answer of the person in this terminal; None if there is none yet (end of input, Ctrl-C)."""
    _show(review, to_screen=True)
    is_plan = isinstance(review, PlanReview)
    note(PLAN_HELP if is_plan else RESULTS_HELP)
    answer: dict[str, Any] = {}
    queries = [query.model_dump() for query in review.queries] if isinstance(review, PlanReview) else []
    while True:
        try:
            line = read("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        try:
            if line == "?":
                note(review.how)
            elif isinstance(review, PlanReview):
                if line:
                    edit_plan(line, queries, answer)
                    _show_queries(queries)
                if not line:
                    changed = queries != [query.model_dump() for query in review.queries]
                    answer |= {"queries": queries} if changed else {}
                    check_review_answer(review, answer)
                    return answer
            elif not line:
                check_review_answer(review, answer)
                return answer
            else:
                judge(line, review, answer)
        except BadRequest as error:
            note(str(error))


def edit_plan(line: str, queries: list[dict[str, Any]], answer: dict[str, Any]) -> None:
    """Apply one line to the queries, or to the other fields of the answer. Raises `BadRequest`."""
    word, _, rest = line.partition(" ")
    rest = rest.strip()
    if word == "+" and rest:
        queries.append({"text": rest, "boolean_query": ""})
    elif word == "-":
        if len(queries) == 1:
            raise BadRequest("a plan has at least one query; write a new text for it")
        del queries[_find_place(rest, len(queries))]
    elif word == "s":
        answer["sources"] = [name for name in re.split(r"[,\s]+", rest) if name]
    elif word == "y":
        answer["years"] = parse_years(rest)
    elif word == "f":
        try:
            answer["filters"] = json.loads(rest or "{}")
        except ValueError as error:
            raise BadRequest(f"filters are JSON ({error})") from error
    elif word == "b":
        number, _, boolean = rest.partition(" ")
        queries[_find_place(number, len(queries))]["boolean_query"] = boolean.strip()
    elif rest and word.isdigit():
        queries[_find_place(word, len(queries))] = {"text": rest, "boolean_query": ""}
    else:
        raise BadRequest(PLAN_HELP)


def parse_years(text: str) -> dict[str, int]:
    """`2015-2020`, `2015-`, `-2020`, `2015`, or nothing for any. Raises `BadRequest`."""
    match = YEARS.fullmatch(text.strip())
    if match is None:
        raise BadRequest("years are 2015-2020, 2015-, -2020 or 2015; none for any")
    first, dash, last = match.groups()
    bounds = {"min": first, "max": last or (first if not dash else None)}
    return {name: int(year) for name, year in bounds.items() if year}


def judge(line: str, review: ResultsReview, answer: dict[str, Any]) -> None:
    """Apply one line to the answer; the last judgement of a work counts. Raises `BadRequest`."""
    word, _, rest = line.partition(" ")
    name = {"k": "keep", "d": "drop", "m": "more_like"}.get(word)
    if word == "w":
        answer["feedback"] = rest.strip()
        return
    if name is None or not rest.strip():
        raise BadRequest(RESULTS_HELP)
    ids = [review.works[_find_place(number, len(review.works))].doc_id for number in re.split(r"[,\s]+", rest.strip())]
    for other in ("keep", "drop", "more_like"):
        answer[other] = [one for one in answer.get(other, []) if one not in ids]
    answer[name] += ids
    note("; ".join(f"{other.replace('_', ' ')} {len(answer[other])}" for other in ("keep", "drop", "more_like") if answer[other]))


def _find_place(number: str, count: int) -> int:
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= count):
        raise BadRequest(f"{one_line(number)[:20]!r} is no number from 1 to {count}")
    return int(number) - 1


def _show(review: Review, *, to_screen: bool) -> None:
    """On the screen beside the questions, or as the command's output."""
    out = errors() if to_screen else console()
    if isinstance(review, PlanReview):
        out.print(plain(f"The plan for: {review.query} (by {review.made_by})", "bold"))
        _show_queries([query.model_dump() for query in review.queries], to_screen=to_screen)
        out.print(plain(f"sources: {', '.join(review.sources)}"))
        years = f"{review.years.min or ''}-{review.years.max or ''}".strip("-") or "any"
        out.print(plain(f"years: {years} · filters: {json.dumps(review.filters or {}, ensure_ascii=False)}"))
        return
    out.print(plain(f"The results for: {review.query}", "bold"))
    for work in review.works:
        year = f" ({work.year})" if work.year else ""
        marks = f" [{', '.join(work.notices)}]" if work.notices else ""
        out.print(plain(f"{work.rank} {work.title}{year}{marks}", indent=2))
        if not to_screen:  # an answer in a file names works by their ids
            out.print(plain(work.doc_id, "dim", indent=4))
    if review.total > len(review.works):
        out.print(plain(f"and {review.total - len(review.works):,} more"))


def _show_queries(queries: list[dict[str, Any]], *, to_screen: bool = True) -> None:
    out = errors() if to_screen else console()
    for place, query in enumerate(queries, start=1):
        out.print(plain(f"{place} {query['text']}", indent=2))
        if query["boolean_query"]:
            out.print(plain(f"Boolean: {query['boolean_query']}", "dim", indent=4))
