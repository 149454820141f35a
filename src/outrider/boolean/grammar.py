"""The grammar that PubMed's and Ovid's queries share once their words are found, and what it says where they break it.

Each syntax has a scanner of its own (`pubmed.py`, `ovid.py`): what a word, a quotation or a field is depends on what stands around it. The
scanners give the same kinds of tokens, and this grammar (LALR(1), read by lark) says how they may follow each other. Operators are taken
from left to right, as PubMed does; only proximity binds tighter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from outrider.boolean.diagnostics import BooleanSyntaxError

if TYPE_CHECKING:
    from lark import Lark, Tree

GRAMMAR = """
start: chain
chain: lead joined*
lead: NOT? item
joined: (AND | OR)? NOT? item
item: unit (ADJ unit)*
unit: LPAR chain RPAR FIELD?   -> group
    | (TEXT | QUOTED) FIELD?   -> term
    | (TEXT | QUOTED) FIELD? COLON (TEXT | QUOTED) FIELD   -> range
    | READY                    -> ready
%declare AND OR NOT ADJ LPAR RPAR FIELD TEXT QUOTED COLON READY
"""

MAX_DEPTH = 100
"""Parentheses inside each other. The deepest of the shared topics has five."""
MAX_CHARS = 200_000
MAX_TERMS = 20_000

_SHOWN = {
    "AND": "AND", "OR": "OR", "NOT": "NOT", "ADJ": "a proximity operator", "LPAR": "“(”", "RPAR": "“)”", "FIELD": "a field",
    "TEXT": "a term", "QUOTED": "a term", "READY": "a term", "COLON": "“:” and a second date", "$END": "the end",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token with its place. `value` is what the scanner made of it: words, an operator's distance, fields, a node."""

    kind: str
    value: Any
    start: int
    end: int


def parse_tokens(lexemes: Sequence[Lexeme], text: str, end: int) -> Tree[Any]:
    """The tree of the tokens; its leaves are the lexemes. `end` is where the query (or the line) ends.

    Lark gets their numbers instead of them: it would write each out as text.
    """
    from lark import Token
    from lark.exceptions import UnexpectedToken

    balanced(lexemes, text)
    try:
        tree: Tree[Any] = _parser().parse([Token(one.kind, place) for place, one in enumerate(lexemes)])
    except UnexpectedToken as error:
        expected = sorted({_SHOWN[name] for name in error.expected} - {"a proximity operator", "“:” and a second date"})
        if error.token.type == "$END":
            raise BooleanSyntaxError("the query ends too early", text, end, expected) from None
        one = lexemes[error.token.value]
        raise BooleanSyntaxError(f"“{text[one.start : one.end]}” cannot stand here", text, one.start, expected) from None
    for part in tree.iter_subtrees():
        part.children = [lexemes[child.value] if isinstance(child, Token) else child for child in part.children]
    return tree


def balanced(lexemes: Iterable[Lexeme], text: str) -> None:
    """Every parenthesis has its other half, and they are not nested too deeply."""
    opened: list[int] = []
    for one in lexemes:
        if one.kind == "LPAR":
            opened.append(one.start)
            if len(opened) > MAX_DEPTH:
                raise BooleanSyntaxError(f"more than {MAX_DEPTH} parentheses inside each other", text, one.start)
        elif one.kind == "RPAR":
            if not opened:
                raise BooleanSyntaxError("this parenthesis was never opened", text, one.start)
            opened.pop()
    if opened:
        raise BooleanSyntaxError("this parenthesis is never closed", text, opened[-1], ["“)”"])


@cache
def _parser() -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    class Given(Lexer):
        """Hands on tokens that were found before."""

        def __init__(self, _: object) -> None:
            pass

        def lex(self, data: Any) -> Iterator[Any]:  # type: ignore[override]
            return iter(data)

    return Lark(GRAMMAR, parser="lalr", lexer=Given)
