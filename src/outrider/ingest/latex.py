r"""LaTeX in bibliographies: `M{\"u}ller` to text, and text to the LaTeX that sets it.

Decoding uses pylatexenc, adapted to bibliographies: `%` and `&` stand for themselves (few exporters escape them), `~` is a blank,
math stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate

MARKUP = re.compile(r"[\\{}$~]|--|``|''|!`|\?`")
ESCAPED = re.compile(r"(?<!\\)\\([%&#_])")
BARE = re.compile(r"(?<!\\)([%#])")
MAX_BRACES = 50
ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "%": r"\%", "&": r"\&", "#": r"\#", "_": r"\_", "$": r"\$",
}  # fmt: skip
SPECIAL = re.compile(r"[\\{}~^%&#_$]")
LIGATURE = re.compile(r"(?<=-)(?=-)|(?<=`)(?=`)|(?<=')(?=')|(?<=[!?])(?=`)")
MACROS = {
    "textbraceleft": "{", "textbraceright": "}", "textasciicircum": "^", "textquotesingle": "'", "textquotedbl": '"',
    "textasciigrave": "`", "url": "%s", "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX",
    "textless": "<", "textgreater": ">", "textbar": "|", "textpercent": "%", "textunderscore": "_", "textperiodcentered": "·",
    "slash": "/", "mbox": "%s", "textmd": "%s", "textsf": "%s", "texttt": "%s", "textup": "%s",
}  # fmt: skip
"""Macros that pylatexenc would drop or mistake."""


def decode(text: str) -> str:
    """The text that LaTeX would set; the input unchanged if its markup cannot be parsed."""
    plain = ESCAPED.sub(r"\1", text)
    if not MARKUP.search(plain):
        return plain  # pylatexenc takes milliseconds for an abstract, and most hold no more than `\%`
    if max(accumulate((char in "{[") - (char in "}]") for char in text)) > MAX_BRACES:
        return text  # pylatexenc recurses
    try:
        return _load_decoder()(BARE.sub(r"\\\1", text))
    except (IndexError, ValueError):  # pylatexenc on macros that end too early (LatexWalkerError is a ValueError)
        return text


def encode(text: str) -> str:
    """The text with LaTeX's special characters escaped. Braces come out balanced, since BibTeX counts them."""
    return SPECIAL.sub(lambda match: ESCAPES[match.group()], LIGATURE.sub("\0", text)).replace("\0", "{}")


@lru_cache(maxsize=1)
def _load_decoder() -> Callable[[str], str]:
    from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, SpecialsTextSpec, get_default_latex_context_db
    from pylatexenc.latexwalker import LatexMacroNode

    context = get_default_latex_context_db()
    macros = [MacroTextSpec(name, text) for name, text in MACROS.items()]
    specials = [SpecialsTextSpec("&", "&"), SpecialsTextSpec("~", " ")]
    context.add_context_category("bibliographies", prepend=True, macros=macros, specials=specials)

    def read_unknown(node: LatexMacroNode) -> str:
        r"""`\textbeta` as `\beta`; nothing for others."""
        spec = context.get_macro_spec(node.macroname.removeprefix("text"))
        return spec.simplify_repl if isinstance(spec.simplify_repl, str) and "%" not in spec.simplify_repl else ""

    context.set_unknown_macro_spec(MacroTextSpec("", read_unknown))
    to_text: Callable[[str], str] = LatexNodes2Text(latex_context=context, math_mode="verbatim", keep_comments=True).latex_to_text
    return to_text
