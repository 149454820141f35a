"""Token counts of texts: by a model's own tokenizer, or by an upper estimate without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from outrider.state.errors import BadRequest, MissingExtra

CountTokens = Callable[[str], int]
LETTERS_PER_TOKEN = 3
"""English words average over four letters a token in the common vocabularies; rare words are cut finer."""
LONGEST_WORD = 25
"""Beyond it, it is a key, a hash, a sequence or an address: each sign counts."""
SHORT_LINE = 4_000
"""Characters up to which what a line costs is remembered: it is counted alone, and again in the whole."""
PIECE = re.compile(r"[A-Za-z0-9+/=_-]{26,}|[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|[ \t\r\f\v]{2,}|[^\x00-\x7f]+|[^ \t\r\f\v]")
"""Within a line. A single space costs nothing and is none."""
PLAIN = re.compile(r"[a-z]{1,25}")
"""One piece."""
CONSONANT_RUN = re.compile(r"[bcdfghjklmnpqrstvwxz]{4,}")
"""Letters that no word has in a row: keys, hashes, the names of some genes. Vocabularies hold few pieces of them."""


def estimate_tokens(text: str) -> int:
    """An estimate from above: a token for every three letters of a word begun, for every letter in capitals, without a vowel near it
    or in a run longer than any word, for every digit, sign and line break, and for every byte of other scripts.

    It is no proof: a vocabulary that has few pieces for Latin letters can need more. Spaces count with the word after them.
    """
    lines = text.split("\n")
    return len(lines) - 1 + sum(_line(line) if len(line) <= SHORT_LINE else _sum(line) for line in lines)


def _sum(line: str) -> int:
    if "  " in line or not line.isprintable():
        return _pieces(line)
    return sum(map(_word, line.split(" ")))  # a word is looked up as a whole: that takes half the time


def _pieces(text: str) -> int:
    return sum(map(_cost, PIECE.findall(text)))


_line = lru_cache(maxsize=2**10)(_sum)


@lru_cache(maxsize=2**15)
def _word(word: str) -> int:
    return _cost(word) if PLAIN.fullmatch(word) else _pieces(word)


def _cost(piece: str) -> int:
    if not piece.isascii():
        return len(piece.encode("utf-8", "surrogatepass"))
    if piece.isspace():
        return len(piece) // 2
    if piece.isupper() or len(piece) > LONGEST_WORD:
        return len(piece)
    alone = sum(map(len, CONSONANT_RUN.findall(piece))) if len(piece) > LETTERS_PER_TOKEN else 0
    return alone - (alone - len(piece)) // LETTERS_PER_TOKEN


def load_token_counter(file: str) -> CountTokens:
    """Counts with the tokenizer in a `tokenizer.json`, or in the folder that holds one. `BadRequest`, `MissingExtra`."""
    return _load_tokenizer(str(Path(file).expanduser()))


@lru_cache(maxsize=2)
def _load_tokenizer(place: str) -> CountTokens:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra("counting with a model's tokenizer", "models") from error
    path = Path(place) / "tokenizer.json" if Path(place).is_dir() else Path(place)
    try:
        made: Any = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"distiller.tokenizer names {place}, which cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise BadRequest(f"distiller.tokenizer names {place}, which is no tokenizer.json") from error
    made.no_truncation()
    made.no_padding()
    return lambda text: len(made.encode(text.encode("utf-8", "replace").decode("utf-8"), add_special_tokens=False))
