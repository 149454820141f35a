"""An answer for people: five hits a screen, their sentences, and what the search did not do.

On a terminal, no line is wider than it, and hits share the height of a screen: each shows its title, one line why and its best sentence;
further sentences follow as far as there is room. For a file or a program nothing is wrapped, cut to a width or coloured.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from outrider.interfaces.cli.terminal import console, count, errors, exit_code, note, note_remarks, one_line, plain, select_due
from outrider.state.records import LIBRARY
from outrider.state.reranking import NOT_PROBED
from outrider.state.response import explain_removed, explain_unanswered
from outrider.text.readable import hide_markup
from outrider.text.sanitize import code_lines
from outrider.text.sentences import first_sentence
from outrider.text.strip_markup import fold_text
from outrider.text.words import CONTINUOUS, WORD, stem, stems, words
from outrider.usecases.explain_hit import list_clauses, name_source

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from outrider.state.hits import Answers, Hit
    from outrider.state.response import ContextUnit, ResultSet, SearchResponse, ShortAnswer, SourceReport

HITS_A_SCREEN = 5
SENTENCE_LINES, SUMMARY_LINES, CODE_LINES = 4, 2, 8
"""Most lines of a sentence, of the words about a hit without one, and of code on a terminal."""
ROOMY_LINES = 3
"""Lines of the best sentences that come before blank lines between the hits."""
OTHER_LINES = 3
"""Of a screen: the summary, which a narrow one wraps or a model's cost follows, and the shell's prompt."""
INDENT = 4
GUTTER = Text(" " * INDENT)
TITLE_LINES = 2
MIN_WIDTH = 20
MATCH = "bold magenta"
SENTENCE_MARK, CODE_MARK = "│ ", "┊ "
HANG = "  "
"""Before the second line of a sentence and later ones: where the next sentence begins is seen."""
PLAIN_MARKS = str.maketrans("│┊·…★", "|:-~*")
"""For an output that cannot encode them: each as wide as the sign that it replaces."""
VERDICTS: dict[Answers, str] = {"perhaps": "May not answer:", "no": "No sentence here answers."}
MAX_LISTS = 3
"""Lists of a hit that `--explain` shows."""
LIST_NAMES = {"lance_fts": "words", "lance_dense": "meaning", "graph_neighbor": "related works"}
"""The library's strategies, as people read them."""
ABOUT_REQUEST = frozenset({"filters", "rest of the query", "user_feedback", "new queries"})
"""Steps whose reason lies in this request. The reasons of others lie in the set-up and are repeated once a day."""
NO_ADVICE = frozenset({"expansion", "rest of the expansion"})
"""Steps whose reason is of no use to a reader."""
NEED_MODEL = ["translator.model", "fine_scorer"]
WARNINGS = frozenset({"retracted by", "corrected by"})
"""Relations that a reader must see."""


@dataclass(frozen=True, slots=True)
class View:
    """How an answer is shown. `width` is None where it goes to a file or a program."""

    out: Console
    width: int | None
    terms: Collection[str]
    """Stems of the request's words, which are highlighted."""
    explain: bool = False

    def wrap(self, text: Text, gutter: Text, lines: int | None = None, hang: str = "") -> list[Text]:
        """The text in lines after a gutter, and `hang` from the second on: at most so many, then an ellipsis where text is left out."""
        if self.width is None:
            return [gutter + text]
        room = self.width - cell_len(gutter.plain) - len(hang)
        long = lines is not None and len(text) > 2 * room * lines  # a novel on one line would take seconds to wrap
        wrapped = (text[: 2 * room * lines] if long and lines is not None else text).wrap(self.out, room, overflow="fold")
        parts = [part for part in wrapped if part.plain.strip()]
        for part in parts:
            part.rstrip()
        if lines is not None and parts and (long or len(parts) > lines):
            parts = parts[:lines]
            parts[-1] = _add_ellipsis(parts[-1], room)
        return [(gutter + Text(hang) if at else gutter) + part for at, part in enumerate(parts)]

    def end(self, line: Text) -> Text:
        """The last line that is shown of a piece that goes on."""
        return line if self.width is None else _add_ellipsis(line.copy(), self.width)

    def line(self, text: Text, gutter: Text) -> Text:
        """The text on one line after a gutter, cut to the width."""
        if self.width is not None:
            text = text.copy()
            text.truncate(self.width - cell_len(gutter.plain), overflow="ellipsis")
        return gutter + text

    def highlight(self, text: str, style: str = "") -> Text:
        """The text with the request's words in another style, also in other forms (`harms` for `harm`)."""
        shown = Text(text, style=style)
        for match in WORD.finditer(text) if self.terms else ():
            word = match[0]
            if CONTINUOUS.search(word):
                pairs = (at for at in range(len(word)) if word[at : at + 2] in self.terms)
                places = [(match.start() + at, min(match.start() + at + 2, match.end())) for at in pairs]
            else:
                places = [match.span()] if any(stem(part) in self.terms for part in words(fold_text(word))) else []
            for start, end in places:
                shown.stylize(MATCH, start, end)
        return shown


@dataclass(slots=True, eq=False)
class Piece:
    """A kept sentence or block of code, in lines that are ready to print."""

    start: int
    lines: list[Text]
    telling: int = 0
    """The line from which it is shown where there is no room for all."""

    def cut(self, view: View, size: int) -> None:
        if size < len(self.lines):
            begin = min(self.telling, len(self.lines) - size)
            self.lines = self.lines[begin : begin + size]
            for end in (0, -1):
                while len(self.lines) > 1 and self.lines[end].plain.strip() == CODE_MARK.strip():
                    self.lines.pop(end)
            self.lines[-1] = view.end(self.lines[-1])


@dataclass(slots=True)
class Block:
    """A hit: the lines of its title, the facts and reasons below, and its pieces, best first."""

    title: list[Text]
    facts: list[Text]
    pieces: list[Piece]


def show_answer(
    answer: SearchResponse,
    *,
    explain: bool = False,
    rejected: Iterable[tuple[str, str]] = (),
    waited_s: float | None = None,
    advice_file: Path | None = None,
) -> None:
    """Print an answer for people: hits on standard output, remarks on standard error.

    `explain` adds scores, lists, machine names and all kept sentences; `rejected` are titles and reasons. `waited_s` is what the user
    has waited. `advice_file` remembers which advice was given today.
    """
    out = console()
    query = answer.strategy.queries[0].text if answer.strategy and answer.strategy.queries else str(answer.query)
    view = View(out, max(out.width, MIN_WIDTH) if out.is_terminal else None, frozenset(stems(query)), explain)
    is_ranked = answer.result_set is None and not exit_code(answer)  # else it ended early: no hits do not mean that there are none
    # a failure of the short answer is shown above as the reason why there is none
    failures = [f"Failed: {one.node}: {one.message}" for one in answer.failures if one.node != "answer" or not answer.answer]
    remarks = _list_limits(answer, advice_file, explain=explain) if is_ranked else []
    taken = _show_short_answer(view, answer.answer) if answer.answer else 0
    hidden = _show_hits(view, answer, taken + sum(len(_wrap_remark(text)) for text in (*failures, *remarks)))
    for text in failures:
        _remark(text)
    if answer.result_set is not None:
        _show_run(view, answer.result_set)
    elif is_ranked:
        _show_summary(view, answer, hidden, waited_s)
        for title, why in rejected:
            for line in view.wrap(Text.assemble(plain(title), "  ", plain(why, "dim")), Text.assemble(("left out  ", "yellow"))):
                _print(out, line)
        for text in remarks:
            _remark(text)


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
        _print(view.out, line)
    if answer.lack:
        _remark(f"No answer: {answer.why}")
        if answer.removed:
            _remark(explain_removed(answer))
    return len(lines) + (len(_wrap_remark(f"No answer: {answer.why}")) + bool(answer.removed) if answer.lack else 0)


def _show_hits(view: View, answer: SearchResponse, taken: int = 0) -> int:
    """Print the hits, below a line that says so if none of them answers; return the number of kept sentences that are not shown. `taken`
    are other lines of the screen.
    """
    units: dict[str, dict[tuple[int, int], ContextUnit]] = {}
    for unit in answer.context.units:
        units.setdefault(unit.doc_id, {})[unit.start, unit.end] = unit
    results = {doc_id: f"result {hit.rank}" for hit in answer.hits for doc_id in (*(one.doc_id for one in hit.duplicates), hit.doc_id)}
    blocks = [_make_block(view, hit, units.get(hit.doc_id, {}), results) for hit in answer.hits]
    unanswered = view.wrap(plain(remark, "bold yellow"), Text()) if (remark := explain_unanswered(answer.hits)) else []
    hidden, roomy = 0, True
    if view.width is not None and not view.explain and blocks:
        screens = -(-len(blocks) // HITS_A_SCREEN)
        hidden, roomy = _fit(view, blocks, view.out.height * screens - OTHER_LINES - len(unanswered) - taken)
    for line in [*unanswered, Text()] if roomy and unanswered else unanswered:
        _print(view.out, line)
    for block in blocks:
        in_order = sorted(block.pieces, key=lambda piece: piece.start)
        for text in (*block.title, *block.facts, *(line for piece in in_order for line in piece.lines)):
            _print(view.out, text)
        if roomy:
            _print(view.out, Text())
    return hidden


def _print(out: Console, text: Text) -> None:
    """One line without padding. Characters that the output cannot encode become question marks."""
    encoding = out.encoding
    if not encoding.startswith("utf"):
        text.plain = text.plain.translate(PLAIN_MARKS).encode(encoding, "replace").decode(encoding)
    out.print(text, soft_wrap=True)


def _remark(text: str) -> None:
    """A remark on standard error, within the width of a terminal."""
    screen = errors()
    if not screen.is_terminal:
        note(text)
    for line in _wrap_remark(text):
        _print(screen, line)


def _wrap_remark(text: str) -> list[Text]:
    """The lines that a remark takes of a terminal; none if standard error is no terminal."""
    screen = errors()
    return View(screen, max(screen.width, MIN_WIDTH), ()).wrap(plain(text), Text()) if screen.is_terminal else []


def _add_ellipsis(text: Text, width: int) -> Text:
    if not text.plain.endswith("…"):
        text.truncate(width - 1, overflow="crop")
        text.rstrip()
        text.append("…")
    return text


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def _make_block(view: View, hit: Hit, units: Mapping[tuple[int, int], ContextUnit], results: Mapping[str, str]) -> Block:
    """`results` has the name of the hit of each record's id, merged ones too."""
    title, facts = _make_title(view, hit)
    answering = [span for span in hit.spans if view.explain or span not in units or units[span].kind != "heading"]
    ranked = sorted(answering, key=lambda span: (-(units[span].score if span in units else 0.0), span))
    pieces = [_make_piece(view, hit, span, units.get(span)) for span in ranked]
    pieces = [piece for piece in pieces if piece.lines]
    if not pieces and (summary := one_line(hit.summary) or first_sentence(one_line(hit.content))):
        text = Text.assemble(("About: ", "dim"), view.highlight(summary, "dim"))
        pieces = [Piece(0, view.wrap(text, GUTTER, None if view.explain else SUMMARY_LINES))]
    return Block(title, [*facts, *_explain_hit(view, hit, results)], pieces)


def _make_title(view: View, hit: Hit) -> tuple[list[Text], list[Text]]:
    """The lines of the title, and below it year, venue, stars and an address; all on one line where they fit."""
    label = Text.assemble((f"{hit.rank:>{INDENT - 2}}. ", "bold cyan"))
    title = one_line(hit.title) or _cut(one_line(hit.content), 80) or one_line(hit.doc_id)
    facts = [str(hit.year) if hit.year else "", one_line(hit.venue or ""), f"★ {hit.stars:,}" if hit.stars is not None else ""]
    facts += [f"score {hit.score:.2f} (model)" if hit.scored_by == "model" else "not scored" if hit.scored_by == "unscored" else ""]
    known = " · ".join(filter(None, facts))
    addresses = [one_line(hit.url)] if hit.url else []
    addresses += [one_line(f"{scheme}:{value}") for scheme, value in hit.identifiers.pairs()]
    shown, line = view.highlight(title, "bold"), " · ".join(filter(None, (known, *addresses[:1])))
    if view.width is not None:
        if line and cell_len(title) + 3 + cell_len(line) <= view.width - len(label):
            return [label + shown + Text.assemble((f" · {line}", "dim"))], []
        line = _choose_address(known, addresses, view.width - INDENT)
    lines = view.wrap(shown, Text(" " * len(label)), TITLE_LINES)
    lines[0] = label + lines[0][len(label) :]
    return lines, [GUTTER + Text(line, "dim")] if line else []


def _choose_address(known: str, addresses: Sequence[str], room: int) -> str:
    """What is known and the first address for which there is room; without room, what is known is cut, since half an address is none."""
    for address in addresses:
        if cell_len(line := " · ".join(filter(None, (known, address)))) <= room:
            return line
    shortest = min(addresses, key=cell_len, default="")
    left = room - cell_len(shortest) - 3
    return _cut(f"{_cut(known, left)} · {shortest}" if known and shortest and left >= 4 else shortest or known, room)


def _explain_hit(view: View, hit: Hit, results: Mapping[str, str]) -> list[Text]:
    """One line why the hit is there, and what a reader must know of it; with `--explain` everything. Last, if it may not answer.

    That stands on the first line if there is room and nothing comes between it and the sentences.
    """
    verdict, details = VERDICTS.get(hit.answers, ""), _list_relations(view, hit)
    details += [line for text in _list_details(hit) for line in view.wrap(plain(text, "dim"), GUTTER)] if view.explain else []
    room = None if view.width is None or view.explain else view.width - INDENT
    first, *others = list_clauses(hit, results)
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
    """The retraction or correction of a work; with `--explain` every work that belongs to it."""
    lines: list[Text] = []
    duplicate_ids = {duplicate.doc_id for duplicate in hit.duplicates}
    for related in (related for related in hit.related if related.doc_id not in duplicate_ids):
        if view.explain:
            name = f"{related.doc_id}{f': {related.title}' if related.title else ''} ({related.why})"
            lines += view.wrap(plain(f"{related.relation} {name}", "dim"), GUTTER)
        elif related.relation in WARNINGS:
            lines.append(view.line(plain(f"{related.relation.capitalize()}: {related.title or related.doc_id}", "bold red"), GUTTER))
    return lines


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
    if unit is None or unit.kind != "code":
        sentence = view.highlight(hide_markup(one_line(text)))
        gutter = GUTTER + Text(SENTENCE_MARK, "cyan")
        return Piece(start, view.wrap(sentence, gutter, None if view.explain else SENTENCE_LINES, HANG))
    lines = code_lines(hit.original_text, start, end)
    gutter = GUTTER + Text(CODE_MARK, "dim cyan")
    parts = [view.highlight(line) for line in lines]
    telling = max(range(len(parts)), key=lambda at: (len(parts[at].spans), -at), default=0)  # it has most words of the request
    if view.explain or view.width is None or len(lines) <= CODE_LINES:
        begin, end = 0, len(parts)
    else:
        begin = min(telling, len(parts) - CODE_LINES + 1)
        end = begin + CODE_LINES - 1
    shown = [view.line(part, gutter) for part in parts[begin:end]]
    more = len(lines) - len(shown)
    for line in shown:
        line.rstrip()
    return Piece(start, shown + ([gutter + Text(f"… {count(more, 'more line')}", "dim")] if more else []), telling - begin)


def _fit(view: View, blocks: Sequence[Block], room: int) -> tuple[int, bool]:
    """Drop and cut pieces so that the blocks take at most `room` lines, if their heads do.

    Titles are cut to a line where there is little room. Each block keeps its best piece, or the beginning of it: line by line, in turn.
    Then come blank lines between the blocks, if there is room for all. The second pieces get what is left, in order of rank, and so on.
    Returns the number of pieces that were dropped, and whether there are blank lines.
    """
    if sum(len(block.title) + len(block.facts) + 1 for block in blocks) > room:
        for block in blocks:
            block.title = [block.title[0] if len(block.title) == 1 else view.end(block.title[0])]
    first = [block.pieces[0] for block in blocks if block.pieces]
    room -= sum(len(block.title) + len(block.facts) for block in blocks)
    roomy = room >= len(blocks) + sum(min(len(piece.lines), ROOMY_LINES) for piece in first)
    room -= len(blocks) if roomy else 0
    sizes = [0] * len(first)
    for turn in range(max((len(piece.lines) for piece in first), default=0)):
        for place, piece in enumerate(first):
            if turn < len(piece.lines) and (room > 0 or turn == 0):
                sizes[place] += 1
                room -= 1
    for piece, size in zip(first, sizes, strict=True):
        piece.cut(view, size)
    dropped = 0
    pending = [(turn, block, piece) for block in blocks for turn, piece in enumerate(block.pieces) if turn]
    for _, block, piece in sorted(pending, key=lambda entry: entry[0]):
        if len(piece.lines) <= room:
            room -= len(piece.lines)
        else:
            block.pieces.remove(piece)
            dropped += 1
    return dropped, roomy


def _show_run(view: View, results: ResultSet) -> None:
    """The files of a systematic run."""
    lines = [plain(f"{results.total:,} hits, {'complete' if results.complete else 'NOT COMPLETE'}, in {results.path}", "bold")]
    lines += [plain(f"missing  {missing}", "red") for missing in results.missing]
    lines.append(plain(f"check them with: outrider verify {results.manifest}", "dim"))
    for line in (part for text in lines for part in view.wrap(text, Text())):
        _print(view.out, line)
    note_remarks(results.remarks)


def _show_summary(view: View, answer: SearchResponse, hidden: int, waited_s: float | None) -> None:
    """How many works there are, what was searched, and what a model cost."""
    waited = "" if waited_s is None else f" in {waited_s:.1f} s"
    if not answer.hits:
        searched = dict.fromkeys(row.source for row in answer.sources if row.status in {"ok", "partial", "empty", "cached", "stale"})
        names = ", ".join(name_source(name) for name in searched)
        summary = f"Nothing was found{waited}. Searched: {names or 'no source'}."
    else:
        summary = f"{len(answer.hits):,} of {answer.total_found:,} works{waited}."
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
        _print(view.out, line)


def _list_limits(answer: SearchResponse, advice_file: Path | None, *, explain: bool) -> list[str]:
    """What the search did not do, and why."""
    remarks: list[str] = []
    if (scoring := answer.scoring) and scoring.read < scoring.of:
        risk = "not known" if scoring.risk is None else f"put at {scoring.risk:.2g}"
        remarks.append(f"A model read {scoring.read:,} of {scoring.of:,} works; the chance that the rest would change the first is {risk}")
    if answer.reranked_by and explain:
        remarks.append(f"Reranked by {answer.reranked_by}")
    reported = [row for row in answer.sources if row.message and row.status != "off"]
    if explain:
        remarks += [f"{row.source}/{row.strategy} ({row.status}): {row.message}" for row in reported]
    elif reported:
        remarks.append(_summarise_services(answer.sources))
    setup = [(f"{row.source}/{row.strategy}", row.message) for row in answer.sources if row.status == "off"]
    for step in answer.bypassed:
        if step.step in ABOUT_REQUEST:
            remarks.append(f"Note: {step.step}: {step.why}")
        elif explain or not (step.step in NO_ADVICE or step.why == answer.context.bypassed):
            setup.append((step.step, step.why))
    names_by_reason: dict[str, list[str]] = {}
    for name, why in setup:
        names_by_reason.setdefault(why, []).append(name)
    advice = {why: f"{', '.join(names)} ({why})" for why, names in names_by_reason.items()}
    due = [*advice.values()] if explain or advice_file is None else select_due(advice.values(), advice_file, time.time())
    if due and (explain or not errors().is_terminal):
        remarks.append("Not run: " + "; ".join(due))
    elif due:
        commands = {row.message: f"search by meaning (needs: {row.command})" for row in answer.sources if row.command}
        short = {
            NOT_PROBED: "a reranker",
            **{why: "a chat model" for why, names in names_by_reason.items() if names == NEED_MODEL},
            **commands,
        }
        names = [short.get(why, text) for why, text in advice.items() if text in due]
        remarks.append(f"Not used: {', '.join(names)}; `outrider doctor` says what they need")
    return remarks


def _summarise_services(rows: Sequence[SourceReport]) -> str:
    """One line about sources that did not answer in full."""
    by_source: dict[str, list[SourceReport]] = {}
    for row in rows:
        if row.status != "off":
            by_source.setdefault(row.source, []).append(row)
    services = {name: own for name, own in by_source.items() if name != LIBRARY}
    unreachable = [name for name, own in services.items() if all(row.status == "unavailable" for row in own)]
    own_rows = by_source.get(LIBRARY, ())
    if services and len(unreachable) == len(services) and not any(row.message for row in own_rows):
        searched = "; searched your library" if own_rows else ""
        number = f"{len(services)} services" if len(services) > 1 else name_source(unreachable[0])
        return f"Offline: {number} could not be reached{searched}"
    statuses = {
        name: ", ".join(dict.fromkeys(row.status.replace("_", " ") for row in own if row.message))
        for name, own in by_source.items()
        if any(row.message for row in own)
    }
    names = ", ".join(f"{name_source(name)} ({status})" for name, status in statuses.items())
    return f"{len(statuses)} of {len(by_source)} sources did not answer in full: {names}; --explain says why"
