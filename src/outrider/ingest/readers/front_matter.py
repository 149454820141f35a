"""Title, abstract and authors of a paper, from its first pages and its metadata.

Metadata of a PDF are often those of a template, a file or a computer account. A declared title or author counts as far as the pages
print it, or looks like one where they show nothing better. The functions are pure; a line's size of type and position decide.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.ingest.readers.pdfium import Line

NO_TITLE = re.compile(
    r"^(untitled.*|title|title of (the |your )?(paper|article)|(paper|manuscript|article) title|(microsoft|adobe|corel)\s?\w* - .*"
    r"|slide \d+|contents"
    r"|abstract|introduction|powerpoint presentation|presentation\d*|document\d*|layout \d+|((conference "
    r"|proceedings )?(paper )?template)( - .*)?|full page (fax|photo) print"
    r"|pii:?\s.*|doi:?\s?10\..*|10\.\d{4,}/\S+|\S*\s?\d+\s?\.\.\s?\d+|.*\.(docx?|dvi|tex|pdf|e?ps|indd|pptx?|qxd|odt|rtf|fm|wpd|xlsx?"
    r"|md|html?|txt|pages)"
    r"|.*\(\d{4}\) ?[a-z]?\d[\d:–-]*"
    r"|[\W\d_]*)$",
    re.IGNORECASE,
)
"""What programs write into the field for the title: file names, names of templates, numbers of articles, ranges of pages."""
FILE_LIKE = re.compile(r"(?=\S*[\d_\\/.])\S+|[a-z]\w*|[a-z]:\\.*|(?=.*_)\S+( \S+)?", re.ASCII)
"""One word with a digit, an underscore or a path separator, or in lower case."""
MASTHEAD = re.compile(
    r"^(\S+ ){0,3}(journal|proceedings|transactions|annals|archives|bulletin|magazine|newsletter|gazette|acta|letters|revista|revue"
    r"|zeitschrift)\b( (of|on|in|für|de|des) .*|\W*$)"
    r"|^(nature|science|cell|the lancet|heliyon|plos one|bmj|elife|sensors|molecules|materials|(acta|revista|revue|zeitschrift) .*)$"
    r"|\b(vol(ume)?|issue|no)\.? ?\d"
    r"|\bissn\b|https?:|www\.|journal homepage|^arxiv:|^(technical|research|working|annual) (report|paper)s?\b.{0,20}$",
    re.IGNORECASE,
)
BANNER = re.compile(
    r"^((original|research|review|regular|full|short|brief|invited|featured?|clinical|systematic|special|rapid|open|free|public|case"
    r"|meta)\W?"
    r"(original |research |length |access ?)?(article|paper|access|report|communication|review|letter|study|series|section|issue"
    r"|contribution|analysis)?s?"
    r"|article|paper|letters?|editorial|review|commentary|perspective|preprint|manuscript|accepted manuscript|author'?s? manuscript"
    r"|draft.*"
    r"|contents lists available.*|downloaded from.*|see discussions.*|this (article|paper|is) .*|available online.*|received\b.*"
    r"|accepted\b.*|published\b.*"
    r"|copyright\b.*|©.*|(fig(ure|\.)?|table|box|scheme) ?\d.*|key\s?words.*|contents|abstract\b.*|page \d+.*|s ?o ?f ?t ?w ?a ?r ?e"
    r"|front cover|redpaper.*|check for updates)\W*$",
    re.IGNORECASE,
)
"""Lines above a title that name the kind of article, the access or the publisher's notes; labels of figures."""
CAPTION = re.compile(r"^(fig(ure)?|abb(ildung)?|table)\.? ?\d", re.IGNORECASE)
HEADING = re.compile(
    r"^(?:\d{0,2}\.?\s*)?(?P<name>abstract|a b s t r a c t|summary|s u m m a r y|executive summary|synopsis|résumé|resume"
    r"|zusammenfassung|kurzfassung"
    r"|resumen|resumo|riassunto|sommario|samenvatting|sammanfattning|sammendrag|streszczenie|abstrakt|tiivistelmä|özet|öz|аннотация"
    r"|реферат"
    r"|анотація|摘\s*要|要\s*旨|要\s*約|抄\s*録|概\s*要|초\s*록|요\s*약|الملخص|ملخص|תקציר)(?P<mark>(\s*\([^)]*\))?(\s*[:.—–‒―-]+\s*|\s+|$))(?P<rest>.*)$",
    re.IGNORECASE,
)
STRUCTURED = re.compile(
    r"^(background|context|importance|rationale|objectives?|aims?|purpose|goals?|hypothesis|introduction|design|setting|study design"
    r"|patients|participants|subjects"
    r"|interventions?|exposures?|main outcomes?.*|measurements?|(materials? and |patients and |search )?methods?|methodology|approach"
    r"|data sources?|study selection"
    r"|data extraction|(main )?results|findings|(principal|key) findings|originality.*|(practical )?implications|limitations"
    r"|discussion|interpretation"
    r"|conclusions?(/significance)?|trial registration|registration|funding|motivation|availability.*)\b\s*[:.—–-]?",
    re.IGNORECASE,
)
"""Labels inside a structured abstract, which look like headings of sections."""
KEYWORDS = (
    r"key\s?-?\s?words?\b|k e y ?w o r d s|index terms?|pacs\b|jel\b|msc\b|mots[- ]cl|palabras clave|palavras[- ]chave|schlüssel?w"
    r"|schlagw|parole chiave"
    r"|trefwoorden|nyckelord|słowa kluczowe|anahtar kelime|ключевые слова|ключові слова|关\s*键\s*词|關\s*鍵\s*詞|キーワード|키워드|주제어"
)
INTRODUCTION = (
    r"((\d+|[ivx]+)(\.\d*|\))?\s*)?(introduction|introducción|introdução|einleitung|introduzione|inleiding|wprowadzenie|введение|вступ"
    r"|引\s*言|前\s*言|绪\s*论|はじめに"
    r"|序\s*論|서\s*론|giriş)\W*$"
)
END = re.compile(
    rf"^\W*({KEYWORDS}|{INTRODUCTION}|ccs concepts|categories and subject|general terms|additional key|acm reference|subject(s| terms"
    rf"| classif| head)"
    r"|(\d{4} )?(ams |mathematics )?(subject )?classifications?\b|abbreviations\b|nomenclature|contents$|table of contents|©"
    r"|\(c\) ?\d{4}|copyright\b|received\b|accepted\b"
    r"|\S? ?correspond(ing|ence)|e-?mail|author summary|plain language summary|highlights$|graphical abstract|editors?:|citation:"
    r"|cite this|article (history|info)"
    r"|how to cite|to cite|permission to make|this (work|article|paper) is (licensed|distributed|an open)|this is an open access"
    r"|manuscript received|contact:|supplementary (information|material|data)\b|significance( statement)?\W*$|some figures"
    r"|abstract\b|résumé$|zusammenfassung$|resumen$|resumo$)",
    re.IGNORECASE,
)
"""What follows an abstract: keywords, classifications, notices, the introduction."""
INTRODUCTION_HEADING = re.compile(INTRODUCTION, re.IGNORECASE)
CONTENTS = re.compile(r"(table of )?contents$|inhalt(sverzeichnis)?$|table des matières$|índice$|目\s*[录次]$", re.IGNORECASE)
AFTER_PROSE = re.compile(rf"^\W*({KEYWORDS}|{INTRODUCTION}|ccs concepts|additional key)", re.IGNORECASE)
SENTENCE_BREAK = re.compile(r"[^\W\d_A-Z)\]\d][.!?] +[A-Z]")
FIRST_SECTION = re.compile(r"(?:1|I)(?:\.0?)?\)?\s+[^\W\d_]|§\s?1\b", re.ASCII)
HYPHENS = ("-", "‐", "\u00ad")
SENTENCE = re.compile(r"[.!?。؟।]")
LEADERS = re.compile(r"(\. ?){5}")
SENTENCE_END = re.compile(r"[.!?。!?؟।][\"'”’»)\]\d]*$")
TITLE_NOTES = re.compile(r"[\s*∗†‡§¶#✩☆]+$")
ACCOUNT_WORDS = frozenset(
    "admin administrator adobe anonymous author authors besitzer customer default desktop guest home laptop microsoft none "
    "office owner pc scanner "
    "student system test unknown unregistered user username usuario utente utilisateur benutzer windows word workstation your "
    "name".split()
)
MACHINE_WORDS = frozenset(
    "acer apple asus canon compaq dell epson fujitsu gateway hewlett hp huawei ibm konica kyocera lenovo lg macbook medion "
    "minolta msi nec packard ricoh samsung "
    "sharp siemens sony thinkpad toshiba vaio xerox xiaomi".split()
)
ADDRESS = re.compile(r"[@\\/\d]|\.(com|org|net)\b")
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]")
MIN_TITLE_LETTERS = 5
MIN_WEIGHT = 0.7
"""A block that stands out less is no title: one word in the type of a heading."""
MAX_TITLE_WORDS = 45
MAX_TITLE_CHARS = 300
MAX_CAPTIONS = 20
MIN_ABSTRACT_WORDS = 12
MIN_PROSE_WORDS = 30
MAX_ABSTRACT_CHARS = 8_000
MAX_ABSTRACT_WORDS = 500
"""A longer one ends at the first gap between paragraphs: nothing marks its end, so it may have run into the text."""
MAX_SKIPPED = 60
"""Lines of another column, a footnote or a figure that may interrupt an abstract."""


@dataclass(frozen=True, slots=True)
class Title:
    """A title as printed, and how far it stands out: about its size of type in sizes of the body text."""

    text: str = ""
    weight: float = 0.0


def letters(text: str) -> str:
    """Letters and digits only, without case, accents and ligatures: the same for a text and its print."""
    return "".join(char for char in unicodedata.normalize("NFKD", text).casefold() if char.isalnum())


def join_lines(lines: Iterable[str]) -> str:
    """Lines as one, with words joined that a line's end divides before a small letter."""
    parts: list[str] = []
    for line in lines:
        last = parts[-1] if parts else ""
        if last.endswith(HYPHENS) and last[-2:-1].isalpha() and line[:1].islower():
            parts[-1] = last[:-1]
        elif last and line and not (UNSPACED.match(last[-1]) and UNSPACED.match(line)):
            parts.append(" ")
        parts.append(line)
    return " ".join("".join(parts).split())


def find_title(lines: Sequence[Line]) -> Title:
    """The block of lines on the first page that stands out most: large, above the abstract, of several words."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    if not sizes:
        return Title()
    body = max(sizes, key=lambda size: (sizes[size], -size))
    lines = [line for line in lines if line.page == lines[0].page]
    heading = next((line for line in lines if _match_heading(line.text)), None)
    height, bottom = max(line.y for line in lines), min(line.y for line in lines)
    captions = [line.y for line in lines if CAPTION.match(line.text)][:MAX_CAPTIONS]
    best = Title()
    for block in _make_blocks(lines, body):
        text = TITLE_NOTES.sub("", join_lines(line.text for line in block))
        if len(text) > 4 * MAX_TITLE_CHARS:
            continue
        if (sum(map(str.isalpha, text)) < MIN_TITLE_LETTERS and not UNSPACED.search(text)) or NO_TITLE.match(text):
            continue
        words = sum(line.words for line in block)
        weight = min(block[0].size / body, 3.0) * (1.1 if block[0].bold else 1.0)
        if weight < 1.05:  # neither larger than the body text nor bold
            continue
        weight *= {1: 0.5, 2: 0.75}.get(words, 1.0 if words <= MAX_TITLE_WORDS and len(text) <= MAX_TITLE_CHARS else 0.3)
        weight *= 0.4 if MASTHEAD.search(text) else 1.0
        weight *= 0.2 if BANNER.match(text) else 1.0
        weight *= 0.3 if heading and block[0].y <= heading.y + 1 else 1.0
        weight *= 0.3 if any(0 < block[-1].y - y < 3 * body for y in captions) else 1.0
        weight *= 0.6 if block[-1].y < bottom + 0.4 * (height - bottom) else 1.0
        if weight > max(best.weight, MIN_WEIGHT):
            best = Title(text, weight)
    return best


def _make_blocks(lines: Sequence[Line], body: float) -> Iterable[list[Line]]:
    """Lines that follow each other downwards in one size and weight of type, in even steps. Display type may be set wider than the body."""
    block: list[Line] = []
    usual = 0.0
    for line in lines:
        if block:
            last = block[-1]
            step = last.y - line.y
            widest = (
                min(1.9 * line.size, 1.3 * usual) if len(block) > 1 and usual > 0 else (1.9 if line.size > 1.3 * body else 1.6) * line.size
            )
            alike = abs(last.size - line.size) <= 0.06 * last.size and last.bold == line.bold
            overlap = min(last.right, line.right) - max(last.left, line.left) > 0
            same_line = abs(step) < 0.3 * line.size and 0 <= line.left - last.right < 3 * line.size
            if not (alike and (same_line or (0.5 * line.size < step < widest and overlap))):
                yield block
                block = []
            usual = 0.0 if not block else usual if same_line else step
        block.append(line)
    if block:
        yield block


def choose_title(declared: str, printed: Title, start: str) -> str:
    """The title, of what the metadata declare and the first page prints; `start` is the text of the first pages. May be empty."""
    plausible = declared if 0 < len(declared) <= 4 * MAX_TITLE_CHARS and not NO_TITLE.match(declared) else ""
    on_page = bool(plausible) and letters(plausible) in letters(start)
    if on_page and not MASTHEAD.search(plausible) and not BANNER.match(plausible) and len(plausible.split()) > 1:
        return plausible
    if plausible and letters(plausible) and letters(plausible) in letters(printed.text):
        return plausible
    file_like = bool(FILE_LIKE.fullmatch(plausible))
    if printed.text and (not plausible or file_like or on_page or printed.weight >= 1.2):
        return printed.text
    return "" if file_like and not on_page else plausible or printed.text


def choose_authors(declared: Sequence[str], text: str) -> tuple[str, ...]:
    """The declared names that are names of people or bodies, by their form and by whether the text prints them.

    Left out are names of accounts and machines (`ibm`, `Toshiba`, `user1`, `Windows User`), programs and addresses. A single word
    counts only in a script without spaces or in a list of names, and only if the text prints it.
    """
    names = [name for name in (" ".join(name.split()) for name in declared) if name and not ADDRESS.search(name)]
    if not names:
        return ()
    printed = set(re.findall(r"[^\W\d_]+", _fold(text)))
    running = letters(text) if any(UNSPACED.search(name) for name in names) else ""
    return tuple(name for name in names if _is_author(name, printed, running, alone=len(names) == 1))


def _is_author(name: str, printed: set[str], running: str, *, alone: bool) -> bool:
    if UNSPACED.search(name):
        return letters(name) in running
    words = re.findall(r"[^\W\d_]+", _fold(name))
    long_words = [word for word in words if len(word) > 1]
    if not long_words:
        return False
    all_printed = all(word in printed for word in long_words)
    if len(words) == 1:
        return all_printed and not alone and words[0] not in MACHINE_WORDS | ACCOUNT_WORDS
    if any(word in ACCOUNT_WORDS for word in words) and not all_printed:
        return False
    if any(word in MACHINE_WORDS for word in words) or name.islower():
        return all_printed
    return True


def _fold(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(char))


def _match_heading(text: str) -> tuple[str, str] | None:
    """The name of a heading of an abstract and the text that runs on after it; None if the line is none."""
    match = HEADING.match(text)
    if not match:
        return None
    rest = match["rest"].strip()
    if not rest:
        return match["name"], ""
    marked = bool(re.search(r"[:.—–‒―-]\s*$", match["mark"]))
    if not re.search(r"[^\W\d_]{2}", rest) or LEADERS.search(rest) or re.search(r"\s[\divx]+$", rest):
        return None  # a line of a table of contents
    starts = rest[0].isupper() or not rest[0].isalpha() or bool(UNSPACED.match(rest))
    if starts and (marked or (match["name"].lower() == "abstract" and len(rest.split()) >= 5)):
        return match["name"], rest
    return None


def find_abstract(lines: Sequence[Line]) -> str:
    """The abstract below or after its heading, up to keywords, notices or the first section; else prose above those; else empty."""
    contents = {line.page for line in lines if CONTENTS.match(line.text)}
    introduction = next((line.page for line in lines if INTRODUCTION_HEADING.match(line.text) and line.page not in contents), math.inf)
    for place, line in enumerate(lines):
        heading = _match_heading(line.text) if line.page <= introduction else None
        if heading is None or (line.page > 1 and [other.page for other in lines[max(0, place - 2) : place]] == [line.page] * 2):
            continue  # behind a cover an abstract has a page of its own; further down a section `Summary` may stand
        text = _collect(lines, place, heading[1])
        if (
            max(len(text.split()), len(UNSPACED.findall(text)) // 2) >= MIN_ABSTRACT_WORDS
            and SENTENCE.search(text)
            and not LEADERS.search(text)
        ):
            return text
    return _find_prose(lines)


def _find_prose(lines: Sequence[Line]) -> str:
    """An abstract without a heading, as in physics and medicine: the longest prose above keywords or an introduction on a first page."""
    end = next((place for place, line in enumerate(lines) if AFTER_PROSE.match(line.text) and line.page == 0), 0)
    blocks = (join_lines(line.text for line in block) for block in _make_blocks(lines[:end], math.inf))
    return max(filter(_is_prose, blocks), key=len, default="")


def _is_prose(text: str) -> bool:
    """Whether it is sentences: neither a list of names and addresses nor a notice."""
    words = text.split()
    small = sum(word[0].islower() for word in words)
    return len(words) >= MIN_PROSE_WORDS and small >= 0.6 * len(words) and bool(SENTENCE_BREAK.search(text)) and "@" not in text


def _find_first_line(lines: Sequence[Line], place: int) -> int:
    """The first line of the text below the heading at `place` or beside it; 0 if there is none on the page."""
    heading = lines[place]
    for number, line in enumerate(lines[place + 1 : place + 1 + MAX_SKIPPED], start=place + 1):
        beside = abs(line.y - heading.y) < heading.size and line.left >= heading.right
        below = line.y < heading.y - 0.3 * line.size and line.left < heading.right + line.size and line.right > heading.left
        if line.page == heading.page and (beside or below) and any(map(str.isalpha, line.text)) and not END.match(line.text):
            return number
    return 0


def _collect(lines: Sequence[Line], place: int, rest: str) -> str:
    """The lines of an abstract whose heading is at `place`. Other columns and footnotes may come between while a sentence is open."""
    start = place if rest else _find_first_line(lines, place)
    if not rest and not start:
        return ""
    first = last = lines[start]
    left, right = first.left, first.right
    parts = [rest or first.text]
    usual = math.inf
    skipped = gap = 0
    for line in lines[start + 1 :]:
        if skipped > MAX_SKIPPED or sum(map(len, parts)) > MAX_ABSTRACT_CHARS:
            break
        if not any(map(str.isalpha, line.text)):
            continue  # numbers of pages and lines
        verdict = _continues(line, first, last, left, right, parts)
        if verdict == "end":
            if sum(len(part.split()) for part in parts) <= MAX_ABSTRACT_WORDS:
                gap = 0  # what follows the abstract is in sight, so all paragraphs before it belong to it
            break
        if verdict == "skip":
            skipped += 1
            continue
        moved = line.page != last.page or line.y > last.y + line.size
        if not moved and not gap and last.y - line.y > 1.4 * usual and SENTENCE_END.search(parts[-1]) and not STRUCTURED.match(line.text):
            gap = len(parts)
        usual = usual if moved else min(usual, max(last.y - line.y, 0.5 * line.size))
        left, right = (line.left, line.right) if moved else (min(left, line.left), max(right, line.right))
        last = line
        parts.append(line.text)
    return join_lines(parts[:gap] if gap else parts)


def _continues(line: Line, first: Line, last: Line, left: float, right: float, parts: Sequence[str]) -> str:
    """Whether a line continues an abstract: `take`, `skip` or `end`."""
    finished = bool(SENTENCE_END.search(parts[-1])) if parts else False
    step = last.y - line.y
    moved = line.page != last.page or step < -line.size
    in_column = line.left < right and line.right > left
    if not in_column and not moved:
        return "skip" if line.right <= left or not finished else "end"
    short = line.words <= 8
    label = bool(STRUCTURED.match(line.text))
    resized = abs(line.size - first.size) > 0.08 * first.size
    runs_on = not finished and line.text[:1].islower()  # `... patients who | received placebo` is no notice
    if END.match(line.text) and not (label and len(parts) <= 1) and not runs_on:
        footnote = resized and (moved or step > 1.7 * first.size) and not AFTER_PROSE.match(line.text)
        return "skip" if footnote and not finished else "end"
    if resized and short and not moved and 0 <= step < 0.8 * line.size:
        return "skip"  # an index above or below the line
    heading = (
        short
        and not label
        and any(map(str.isalpha, line.text))
        and (line.size > 1.08 * first.size or (line.bold and not first.bold))
        and not SENTENCE_END.search(line.text)
    )
    if heading or (short and FIRST_SECTION.match(line.text) and not SENTENCE_END.search(line.text)):
        return "end" if finished or not moved else "skip"
    if resized and not finished and not moved and 0 < step < 1.7 * first.size and abs(line.size - first.size) < 0.25 * first.size:
        return "take"  # scanned pages: recognised lines of one paragraph differ in size
    if (resized and not label) or (not moved and step > (4.0 if label else 2.9) * max(line.size, first.size)):
        return "end" if finished else "skip"
    if moved and finished:
        return "end"
    return "take"
