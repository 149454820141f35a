"""Token counts of texts, by a model's tokenizer or by an upper estimate without one."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from outrider.state.errors import BadRequest, MissingExtra

CountTokens = Callable[[str], int]
LETTERS_PER_TOKEN = 3
"""English words average over four letters a token in common vocabularies; rare words are split further."""
LONGEST_WORD = 25
"""A longer run is assumed to be a key, hash, sequence or address, in which each character counts."""
SHORT_LINE = 4_000
"""Maximum length of lines whose counts are cached, because each line is counted alone and again within the whole text."""
PIECE = re.compile(r"[A-Za-z0-9+/=_-]{26,}|[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|[ \t\r\f\v]{2,}|[^\x00-\x7f]+|[^ \t\r\f\v]")
"""Pieces within a line. A single space costs nothing and is not a piece."""
PLAIN = re.compile(r"[a-z]{1,25}")
"""A word that is a single piece."""
CONSONANT_RUN = re.compile(r"[bcdfghjklmnpqrstvwxz]{4,}")
"""Runs that occur in keys, hashes and some gene names, but not in words. Vocabularies have few tokens for them."""


def estimate_tokens(text: str) -> int:
    """An upper estimate: one token for every three letters of a word, rounded up; for every capital letter, letter in a consonant run,
    letter in an overlong run, digit, other sign and line break; and for every byte of other scripts.

    It is not a strict bound: a vocabulary with few tokens for Latin letters can need more. Spaces count with the next word.
    """
    lines = text.split("\n")
    return len(lines) - 1 + sum(_line(line) if len(line) <= SHORT_LINE else _sum(line) for line in lines)


def _sum(line: str) -> int:
    if "  " in line or not line.isprintable():
        return _pieces(line)
    return sum(map(_word, line.split(" ")))  # looking up cached words takes half the time


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
    """A counter that uses a `tokenizer.json` or the folder that contains it. Raises `BadRequest`, `MissingExtra`."""
    return _load_tokenizer(str(Path(file).expanduser()))


@lru_cache(maxsize=2)
def _load_tokenizer(place: str) -> CountTokens:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra("counting with a model's tokenizer", "models") from error
    path = Path(place) / "tokenizer.json" if Path(place).is_dir() else Path(place)
    try:
        tokenizer: Any = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"distiller.tokenizer is {place}, which cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise BadRequest(f"distiller.tokenizer is {place}, which is not a tokenizer.json") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text.encode("utf-8", "replace").decode("utf-8"), add_special_tokens=False))
