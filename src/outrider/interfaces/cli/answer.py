"""An answer for people: five hits a screen, their sentences, and what the search did not do.

On a terminal each hit shows its title, one line why and its best sentence; further sentences follow as far as there is room.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from outrider.interfaces.cli.limits import explain_failure, list_limits
from outrider.interfaces.cli.screen import (
    CODE_MARK,
    CONTINUED,
    GUTTER,
    HANG,
    INDENT,
    SENTENCE_MARK,
    Block,
    Piece,
    View,
    cut,
    fit,
    print_line,
)
from outrider.interfaces.cli.terminal import MIN_WIDTH, console, count, exit_code, note, note_remarks, one_line, plain, wrap_note
from outrider.state.code_links import OWN
from outrider.state.response import FINAL_NODES, asks_for_work, explain_removed, explain_unanswered
from outrider.text.readable import hide_markup, name_cells, read_plainly, split_inline
from outrider.text.sanitize import code_lines
from outrider.text.words import stems
from outrider.usecases.explain_hit import list_clauses, name_source

if TYPE_CHECKING:
    from pathlib import Path

    from outrider.state.hits import Answers, Hit
    from outrider.state.response import ContextUnit, ResultSet, SearchResponse, ShortAnswer

HITS_A_SCREEN = 5
SENTENCE_LINES, SUMMARY_LINES, CODE_LINES = 4, 2, 8
"""Most lines of a sentence, of the words about a hit without one, and of code on a terminal."""
SHORT_CODE, SHORT_CODE_LINES = 2, 4
"""Lines of code, such as a command, that are shown whole, and on how many lines of a terminal each of them."""
OTHER_LINES = 3
"""Of a screen: the summary, which a narrow one wraps or a model's cost follows, and the shell's prompt."""
TITLE_LINES = 2
DOUBTFUL_LINES = 4
"""Of a hit that may not answer, below one that does."""
CLOSING = re.compile(r"[\s\])}>;,'\"`]*")
"""A line that ends what stands above it."""
VERDICTS: dict[Answers, str] = {"perhaps": "May not answer:", "no": "No sentence here answers."}
MAX_LISTS = 3
"""Lists of a hit that `--explain` shows."""
LIST_NAMES = {"lance_fts": "words", "lance_dense": "meaning", "graph_neighbor": "related works"}
"""The library's strategies, as people read them."""
LINKED = ("linked-record",)
"""Who reports a notice that is itself one of the works that were found."""


def show_answer(
    answer: SearchResponse,
    *,
    explain: bool = False,
    rejected: Iterable[tuple[str, str]] = (),
    waited_s: float | None = None,
    advice_file: Path | None = None,
    more: str = "",
) -> None:
    """Print an answer for people: hits on standard output, remarks on standard error.

    `explain` adds scores, lists, machine names and all kept sentences; `rejected` are titles and reasons. `waited_s` is what the user
    has waited. `advice_file` remembers which advice was given today. With `more`, the option that shows all hits, a terminal shows those
    of one screen.
    """
    out = console()
    query = answer.strategy.queries[0].text if answer.strategy and answer.strategy.queries else str(answer.query)
    view = View(out, max(out.width, MIN_WIDTH) if out.is_terminal else None, frozenset(stems(query)), explain)
    is_ranked = answer.result_set is None and not exit_code(answer)  # else it ended early: no hits do not mean that there are none
    # a failure of the short answer is shown above as the reason why there is none
    failures = [
        f"Failed: {'' if one.node in FINAL_NODES else f'{one.node}: '}{explain_failure(answer, one, explain=explain)}"
        for one in answer.failures
        if one.node != "answer" or not answer.answer
    ]
    remarks = list_limits(answer, advice_file, explain=explain) if is_ranked else []
    taken = _show_short_answer(view, answer.answer) if answer.answer else 0
    hits = answer.hits[:HITS_A_SCREEN] if more and view.width is not None and not explain else answer.hits
    hidden = _show_hits(view, answer, hits, taken + sum(len(wrap_note(text)) for text in (*failures, *remarks)))
    for text in failures:
        note(text)
    if answer.result_set is not None:
        _show_run(view, answer.result_set)
    elif is_ranked:
        rest = len(answer.hits) - len(hits)
        _show_summary(view, answer, len(hits), f" {more} shows {rest} more." if rest else "", hidden, waited_s)
        titles_by_reason: dict[str, list[str]] = {}
        for title, why in rejected:
            titles_by_reason.setdefault(why, []).append(one_line(title))
        for why, titles in titles_by_reason.items():
            group = Text.assemble((f"{len(titles):,} left out, {why}: ", "yellow"), plain("; ".join(titles), "dim"))
            for line in view.wrap(group, Text(), hang=HANG):
                print_line(out, line)
        for text in remarks:
            note(text)


def _show_short_answer(view: View, answer: ShortAnswer) -> int:
    """Print the answer of a model, each sentence with the numbers of the hits that it cites, and return the number of lines."""
    lines: list[Text] = []
    if answer.sentences:
        lines += view.wrap(Text.assemble(("Answer", "bold cyan"), (f" by {one_line(answer.model)}", "dim")), Text())
        for sentence in answer.sentences:
            lines += view.wrap(plain(one_line(sentence.with_keys)), GUTTER)
        lines += view.wrap(plain(explain_removed(answer), "yellow"), GUTTER) if answer.removed else []
        lines += view.wrap(plain("The numbers lead to the hits below. Whether these support a sentence was not checked.", "dim"), GUTTER)
        lines.append(Text())
    for line in lines:
        print_line(view.out, line)
    if answer.lack:
        note(f"No answer: {answer.why}")
        if answer.removed:
            note(explain_removed(answer))
    return len(lines) + (len(wrap_note(f"No answer: {answer.why}")) + bool(answer.removed) if answer.lack else 0)


def _show_hits(view: View, answer: SearchResponse, hits: Sequence[Hit], taken: int = 0) -> int:
    """Print the hits, below a line that says so if none of them clearly answers; return the number of their kept sentences that are not
    shown. `taken` are other lines of the screen.
    """
    units: dict[str, dict[tuple[int, int], ContextUnit]] = {}
    for unit in answer.context.units:
        units.setdefault(unit.doc_id, {})[unit.start, unit.end] = unit
    results = {doc_id: f"result {hit.rank}" for hit in hits for doc_id in (*(one.doc_id for one in hit.duplicates), hit.doc_id)}
    query = str(answer.query)
    remark = explain_unanswered(hits, query)
    if asks_for_work(query, hits):  # whether a sentence answers is no question then
        hits = [hit.model_copy(update={"answers": "unread"}) for hit in hits]
    blocks = [_make_block(view, hit, units.get(hit.doc_id, {}), list_clauses(hit, results, query)) for hit in hits]
    unanswered = view.wrap(plain(remark, "bold yellow"), Text()) if remark else []
    hidden, roomy = 0, True
    if view.width is not None and not view.explain and blocks:
        hidden = _shorten_doubtful(view, hits, blocks)
        screens = -(-len(blocks) // HITS_A_SCREEN)
        dropped, roomy = fit(view, blocks, view.out.height * screens - OTHER_LINES - len(unanswered) - taken)
        hidden += dropped
    for line in [*unanswered, Text()] if roomy and unanswered else unanswered:
        print_line(view.out, line)
    for block in blocks:
        in_order = sorted(block.pieces, key=lambda piece: piece.start)
        for above, piece in pairwise(in_order):
            if above.is_code and piece.is_code and block.text[above.end : piece.start].strip():
                piece.mark_gap()
        for text in (*block.title, *block.facts, *(line for piece in in_order for line in piece.lines)):
            print_line(view.out, text)
        if roomy:
            print_line(view.out, Text())
    return hidden


def _shorten_doubtful(view: View, hits: Sequence[Hit], blocks: Sequence[Block]) -> int:
    """Where a hit answers, those that may not keep the beginning of their best piece; the number of pieces that were dropped."""
    if not any(hit.answers == "yes" for hit in hits):
        return 0
    dropped = 0
    for hit, block in zip(hits, blocks, strict=True):
        if hit.answers == "perhaps":
            dropped += len(block.pieces[1:])
            block.pieces = block.pieces[:1]
            for piece in block.pieces:
                piece.cut(view, DOUBTFUL_LINES)
    return dropped


def _make_block(view: View, hit: Hit, units: Mapping[tuple[int, int], ContextUnit], why: Sequence[str]) -> Block:
    """`why` are the reasons of the hit, most important first."""
    from outrider.nodes.distiller import describe_hit

    title, facts = _make_title(view, hit)
    answering = [span for span in hit.spans if view.explain or span not in units or units[span].kind != "heading"]
    ranked = sorted(answering, key=lambda span: (-(units[span].score if span in units else 0.0), span))
    pieces = [_make_piece(view, hit, span, units.get(span)) for span in ranked]
    pieces = [piece for piece in pieces if piece.lines]
    if not pieces and (summary := read_plainly(one_line(hit.summary) or one_line(describe_hit(hit)))):
        text = Text.assemble(("About: ", "dim"), view.highlight(summary, "dim"))
        pieces = [Piece(0, 0, view.wrap(text, GUTTER, None if view.explain else SUMMARY_LINES))]
    return Block(title, [*facts, *_explain_hit(view, hit, why)], pieces, hit.original_text)


def _make_title(view: View, hit: Hit) -> tuple[list[Text], list[Text]]:
    """The lines of the title, and below it year, venue, stars and an address; all on one line where they fit."""
    label = Text.assemble((f"{hit.rank:>{INDENT - 2}}. ", "bold cyan"))
    title = one_line(hit.title) or cut(one_line(hit.content), 80) or one_line(hit.doc_id)
    facts = [
        _name_authors(hit),
        str(hit.year) if hit.year else "",
        one_line(hit.venue or ""),
        f"★ {hit.stars:,}" if hit.stars is not None else "",
    ]
    facts += [f"score {hit.score:.2f} (model)" if hit.scored_by == "model" else "not scored" if hit.scored_by == "unscored" else ""]
    known = " · ".join(filter(None, facts))
    addresses = [one_line(hit.url)] if hit.url else []
    addresses += [one_line(hit.file)] if hit.file and hit.kind in ("document", "page") else []
    addresses += [one_line(f"{scheme}:{value}") for scheme, value in hit.identifiers.pairs()]
    shown, line = view.highlight(title, "bold"), " · ".join(filter(None, (known, *addresses[:1])))
    if view.width is not None:
        if line and cell_len(title) + 3 + cell_len(line) <= view.width - len(label):
            return [label + shown + Text.assemble((f" · {line}", "dim"))], []
        line = _choose_address(known, addresses, view.width - INDENT)
    lines = view.wrap(shown, Text(" " * len(label)), TITLE_LINES)
    lines[0] = label + lines[0][len(label) :]
    return lines, [GUTTER + Text(line, "dim")] if line else []


def _name_authors(hit: Hit) -> str:
    """The first author of a paper by family name where that is marked, such as `LeCun et al.`"""
    if hit.kind != "paper" or not hit.authors:
        return ""
    return one_line(hit.authors[0].partition(",")[0]) + (" et al." if len(hit.authors) > 1 else "")


def _choose_address(known: str, addresses: Sequence[str], room: int) -> str:
    """What is known and the first address for which there is room; without room, what is known is cut, since half an address is none."""
    for address in addresses:
        if cell_len(line := " · ".join(filter(None, (known, address)))) <= room:
            return line
    shortest = min(addresses, key=cell_len, default="")
    left = room - cell_len(shortest) - 3
    return cut(f"{cut(known, left)} · {shortest}" if known and shortest and left >= 4 else shortest or known, room)


def _explain_hit(view: View, hit: Hit, reasons: Sequence[str]) -> list[Text]:
    """One line why the hit is there, and what a reader must know of it; with `--explain` everything. Last, if it may not answer.

    That stands on the first line if there is room and nothing comes between it and the sentences.
    """
    verdict, details = VERDICTS.get(hit.answers, ""), _list_relations(view, hit)
    details += [line for text in _list_details(hit) for line in view.wrap(plain(text, "dim"), GUTTER)] if view.explain else []
    room = None if view.width is None or view.explain else view.width - INDENT
    first, *others = reasons
    why = first[:1].upper() + first[1:]
    end = f". {verdict}" if verdict and not details and (room is None or cell_len(f"{why}. {verdict}") <= room) else ""
    for clause in others:
        longer = f"{why}; {clause}"
        if room is None or cell_len(longer + end) <= room:
            why = longer
    line = Text.assemble(plain(why, "green"), (end, "yellow"))
    lines = view.wrap(line, GUTTER) if view.explain else [view.line(line, GUTTER)]
    return lines + details + (view.wrap(Text(verdict, "yellow"), GUTTER) if verdict and not end else [])


def _list_relations(view: View, hit: Hit) -> list[Text]:
    """The notices of a work, one of each kind, and where its full text is from; with `--explain` all of them, and every related work."""
    lines: list[Text] = []
    first_of_kind = {notice.kind: notice for notice in reversed(hit.notices)}
    for notice in hit.notices if view.explain else reversed(first_of_kind.values()):
        style = "bold yellow" if notice.kind.endswith(" notice") else "bold red"
        is_linked = notice.reported_by == LINKED and not notice.kind.endswith(" notice")
        line = plain(f"{notice.label} by: {notice.citation}" if is_linked else notice.describe(), style)
        lines += view.wrap(line, GUTTER) if view.explain else [view.line(line, GUTTER)]
    if hit.full_text:
        line = plain(f"Full text: {hit.full_text.describe()}", "dim")
        lines += view.wrap(line, GUTTER) if view.explain else [view.line(line, GUTTER)]
    for text in list_code(hit, explain=view.explain):
        lines += view.wrap(plain(text, "cyan"), GUTTER) if view.explain else [view.line(plain(text, "cyan"), GUTTER)]
    duplicate_ids = {duplicate.doc_id for duplicate in hit.duplicates}
    for related in hit.related if view.explain else ():
        if related.doc_id not in duplicate_ids:
            name = f"{related.doc_id}{f': {related.title}' if related.title else ''} ({related.why})"
            lines += view.wrap(plain(f"{related.relation} {name}", "dim"), GUTTER)
    return lines


def list_code(hit: Hit, *, explain: bool) -> Iterator[str]:
    """The best repository of a paper with whether it is alive, or the first paper of a repository; with `explain` all, with evidence."""
    for code in hit.code if explain else [one for one in hit.code if one.kind in OWN][:1]:
        yield f"Code: {code.name.partition(':')[2]}, {code.liveness} ({code.why})"
        yield from (f"{code.kind} by {one.place}: {one_line(one.words)}" for one in code.evidence if explain)
    for paper in hit.papers if explain else [one for one in hit.papers if one.kind in OWN][:1]:
        title = one_line(paper.title)
        yield f"Paper: {f'{title} ({paper.name})' if title else paper.name}"
        yield from (f"{paper.kind} by {one.place}: {one_line(one.words)}" for one in paper.evidence if explain)


def _list_details(hit: Hit) -> list[str]:
    """What `--explain` adds: names that commands take, scores, lists with ranks, merged records."""
    scores = ", ".join(f"{name} {value:.3g}" for name, value in hit.scores.items())
    details = [f"{hit.kind} {hit.doc_id}, score {hit.score:.2f} ({hit.scored_by}){f': {scores}' if scores else ''}"]
    # such as `matched by words (rank 1), related works (rank 2: cites 3 of your top 20), openalex (rank 5)`
    lists = (
        f"{LIST_NAMES.get(row.strategy, row.source)} (rank {row.rank}{f': {row.why}' if row.why else ''})"
        for row in hit.found_by[:MAX_LISTS]
    )
    seen_in = "" if hit.seen_in == "library-only" else f" ({hit.seen_in})"
    details.append(f"why: {hit.reason} — matched by {', '.join(dict.fromkeys(lists))}{seen_in}")
    return details + [f"also {duplicate.doc_id} ({duplicate.why})" for duplicate in hit.duplicates]


def _make_piece(view: View, hit: Hit, span: tuple[int, int], unit: ContextUnit | None) -> Piece:
    start, end = span
    text = hit.original_text[start:end]
    if unit is not None and unit.kind == "row" and "|" in text:
        from outrider.distiller.structure.read_structure import find_header

        text = name_cells(find_header(hit.original_text, start), text)
    if unit is None or unit.kind != "code":
        sentence = view.highlight(hide_markup(one_line(text)) if view.explain else _read_plainly(text))
        gutter = GUTTER + Text(SENTENCE_MARK, "cyan")
        return Piece(start, end, view.wrap(sentence, gutter, None if view.explain else SENTENCE_LINES, HANG))
    lines = code_lines(hit.original_text, start, end)
    gutter = GUTTER + Text(CODE_MARK, "dim cyan")
    parts = [view.highlight(line) for line in lines]
    telling = max(range(len(parts)), key=lambda at: (len(parts[at].spans), -at), default=0)  # it has most words of the request
    if view.explain or view.width is None or len(lines) <= CODE_LINES:
        begin, end = 0, len(parts)
    else:
        begin = min(telling, len(parts) - CODE_LINES + 1)
        end = begin + CODE_LINES - 1
        while begin < telling and CLOSING.fullmatch(lines[begin]):
            begin += 1
    is_short = len(lines) <= SHORT_CODE
    rows: list[list[Text]] = []
    for part in parts[begin:end]:
        part.rstrip()
        most = None if view.explain else SHORT_CODE_LINES
        rows.append(view.wrap(part, gutter, most, CONTINUED) or [gutter] if is_short or view.explain else [view.line(part, gutter)])
    shown = [line for row in rows for line in row]
    for line in shown:
        line.rstrip()
    more = len(lines) - len(rows)
    rest = [view.count_hidden(more)] if more else []
    return Piece(*span, shown + rest, sum(map(len, rows[: telling - begin])), is_short, is_code=True, hidden=more)


def _read_plainly(sentence: str) -> str:
    """The sentence without marks of emphasis and addresses; code between single backticks."""
    runs = split_inline(one_line(sentence))
    return "".join(f"`{run.text}`" if run.is_code else run.text for run in runs).strip()


def _show_run(view: View, results: ResultSet) -> None:
    """The files of a systematic run."""
    lines = [plain(f"{results.total:,} hits, {'complete' if results.complete else 'NOT COMPLETE'}, in {results.path}", "bold")]
    lines += [plain(f"missing  {missing}", "red") for missing in results.missing]
    lines.append(plain(f"check them with: outrider verify {results.manifest}", "dim"))
    for line in (part for text in lines for part in view.wrap(text, Text())):
        print_line(view.out, line)
    note_remarks(results.remarks)


def _show_summary(view: View, answer: SearchResponse, shown_hits: int, more: str, hidden: int, waited_s: float | None) -> None:
    """How many works there are, how to see `more`, what was searched, and what a model cost."""
    waited = "" if waited_s is None else f" in {waited_s:.1f} s"
    if not answer.hits:
        searched = dict.fromkeys(row.source for row in answer.sources if row.status in {"ok", "partial", "empty", "cached", "stale"})
        names = ", ".join(name_source(name) for name in searched)
        summary = f"Nothing was found{waited}. Searched: {names or 'no source'}."
    else:
        summary = f"{shown_hits:,} of {count(answer.total_found, 'result')}{waited}.{more}"
        if hidden:
            summary += f" {hidden:,} more sentence{'s' * (hidden != 1)} with --explain."
    lines = [summary]
    if view.explain:
        lists = ", ".join(f"{row.source}/{row.strategy} {row.status} ({row.returned})" for row in answer.sources)
        lines.append(f"The search itself took {answer.execution_time_ms:.0f} ms. Searched: {lists or 'no source'}.")
    if (usage := answer.usage).calls:
        cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        unreported = f"; for {usage.untold_calls:,} the provider reported no usage" if usage.untold_calls else ""
        lines.append(f"{usage.calls:,} model calls, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out, {cost}{unreported}")
    for line in (part for text in lines for part in view.wrap(plain(text, "dim"), Text())):
        print_line(view.out, line)
