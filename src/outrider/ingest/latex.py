r"""LaTeX in bibliographies, both ways: `M{\"u}ller` to text and text to what LaTeX sets as that text.

Decoding is pylatexenc's, told what bibliographies mean: `%` and `&` are themselves (few exporters escape them), `~` is a
blank, math stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

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
NAMED = {
    "textbraceleft": "{", "textbraceright": "}", "textasciicircum": "^", "textquotesingle": "'", "textquotedbl": '"',
    "textasciigrave": "`", "url": "%s", "LaTeX": "LaTeX", "TeX": "TeX", "BibTeX": "BibTeX",
}  # fmt: skip


def decode(text: str) -> str:
    """The text that LaTeX would set; as it is where the markup cannot be read."""
    plain = ESCAPED.sub(r"\1", text)
    if not MARKUP.search(plain):
        return plain  # pylatexenc takes milliseconds for an abstract, and most hold no more than `\%`
    if _depth(text) > MAX_BRACES:
        return text
    try:
        return _decoder()(BARE.sub(r"\\\1", text))
    except (IndexError, ValueError):  # pylatexenc on macros that end too early (LatexWalkerError is a ValueError)
        return text


def encode(text: str) -> str:
    """Braces come out balanced, so that BibTeX, which counts them, is not led astray."""
    return SPECIAL.sub(lambda found: ESCAPES[found.group()], LIGATURE.sub("\0", text)).replace("\0", "{}")


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "{[") - (char in "}]")
        deepest = max(deepest, depth)
    return deepest


@lru_cache(maxsize=1)
def _decoder() -> Callable[[str], str]:
    from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, SpecialsTextSpec, get_default_latex_context_db

    context = get_default_latex_context_db()
    macros = [MacroTextSpec(name, shown) for name, shown in NAMED.items()]
    specials = [SpecialsTextSpec("&", "&"), SpecialsTextSpec("~", " ")]
    context.add_context_category("bibliographies", prepend=True, macros=macros, specials=specials)
    to_text: Callable[[str], str] = LatexNodes2Text(latex_context=context, math_mode="verbatim", keep_comments=True).latex_to_text
    return to_text
