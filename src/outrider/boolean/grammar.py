"""Common grammar of all query languages, over scanned tokens.

Each family has its own scanner (`pubmed_parser`, `ovid_parser`, `platform_parser`), since words, quotations and fields depend on their
context. The scanners give the same kinds of tokens, and this grammar (LALR(1), parsed by lark) orders them. A field stands before its term
(PREFIX) or after it (FIELD). Proximity binds tightest; the order of AND, OR and NOT differs between platforms, so that `tree_builder`
applies it.
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
unit: PREFIX? LPAR chain RPAR FIELD?   -> group
    | PREFIX? (TEXT | QUOTED) FIELD?   -> term
    | (TEXT | QUOTED) FIELD? COLON (TEXT | QUOTED) FIELD   -> range
    | READY                    -> ready
%declare AND OR NOT ADJ LPAR RPAR PREFIX FIELD TEXT QUOTED COLON READY
"""

MAX_DEPTH = 100
"""Nested parentheses. The deepest of the shared topics has five."""
MAX_CHARS = 200_000
MAX_TERMS = 20_000

_TOKEN_NAMES = {
    "AND": "AND", "OR": "OR", "NOT": "NOT", "ADJ": "a proximity operator", "LPAR": "“(”", "RPAR": "“)”", "FIELD": "a field",
    "TEXT": "a term", "QUOTED": "a term", "READY": "a term", "COLON": "“:” and a second date", "$END": "the end",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token with its place. `value` is the scanner's result: words, an operator's distance, fields, a node."""

    kind: str
    value: Any
    start: int
    end: int


def parse_tokens(lexemes: Sequence[Lexeme], text: str, end: int) -> Tree[Any]:
    """The tree of the tokens; its leaves are the lexemes. `end` is the end of the query (or of the line)."""
    from lark import Token
    from lark.exceptions import UnexpectedToken

    check_parentheses(lexemes, text)
    try:
        # lark gets the numbers of the lexemes, since it would convert each lexeme to text
        tree: Tree[Any] = _make_parser().parse([Token(lexeme.kind, number) for number, lexeme in enumerate(lexemes)])
    except UnexpectedToken as error:
        names = error.expected - {"ADJ", "COLON", "PREFIX"}
        expected = sorted({_TOKEN_NAMES[name] for name in names})
        if error.token.type == "$END":
            raise BooleanSyntaxError("the query ends too early", text, end, expected) from None
        lexeme = lexemes[error.token.value]
        raise BooleanSyntaxError(f"“{text[lexeme.start : lexeme.end]}” is not allowed here", text, lexeme.start, expected) from None
    for part in tree.iter_subtrees():
        part.children = [lexemes[child.value] if isinstance(child, Token) else child for child in part.children]
    return tree


def check_parentheses(lexemes: Iterable[Lexeme], text: str) -> None:
    """Raise `BooleanSyntaxError` for a parenthesis without its partner, and for too many levels."""
    open_offsets: list[int] = []
    for lexeme in lexemes:
        if lexeme.kind == "LPAR":
            open_offsets.append(lexeme.start)
            if len(open_offsets) > MAX_DEPTH:
                raise BooleanSyntaxError(f"more than {MAX_DEPTH} parentheses inside each other", text, lexeme.start)
        elif lexeme.kind == "RPAR":
            if not open_offsets:
                raise BooleanSyntaxError("this parenthesis was never opened", text, lexeme.start)
            open_offsets.pop()
    if open_offsets:
        raise BooleanSyntaxError("this parenthesis is never closed", text, open_offsets[-1], ["“)”"])


@cache
def _make_parser() -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    class TokenLexer(Lexer):
        """Passes on tokens that were scanned before."""

        def __init__(self, _: object) -> None:
            pass

        def lex(self, data: Any) -> Iterator[Any]:  # type: ignore[override]
            return iter(data)

    return Lark(GRAMMAR, parser="lalr", lexer=TokenLexer)
