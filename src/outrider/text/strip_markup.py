r"""Text without markup and invisible characters, the form that searches compare.

Exact evaluator, exact indexes, ranking index and queries fold alike, so `K<sub>Ca</sub>`, `K&lt;sub&gt;Ca&lt;/sub&gt;` and `$K_{Ca}$` are
one word, `KCa`. The stored record keeps its text. A change of this module changes the words that an index holds: raise
`library.schema.FORMAT` and `library.versions.TOKENIZER`.

Sources: HTML 5 named character references; the inline elements of HTML, JATS 1.3, MathML 3 and Elsevier's DTD; Unicode's normal forms
(UAX 15) and Default_Ignorable_Code_Point (Unicode 15, DerivedCoreProperties.txt). Time is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from html import unescape
from html.entities import html5

ENTITY = re.compile(r"&(?:amp;)*((?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[A-Za-z][A-Za-z\d]{1,31});)")
"""Services escape twice, too: `&amp;lt;`."""
_ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'=<>]+))*\s*"""
TAG = re.compile(rf"<(/?)([A-Za-z][\w.]*:)?([A-Za-z][A-Za-z\d-]*){_ATTRIBUTES}/?>")
MATHML = frozenset(
    "maction menclose merror mfenced mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms msqrt mstyle "
    "msub msubsup msup mtable mtd mtext mtr munder munderover semantics".split()
)
INLINE = MATHML | frozenset(
    "a abbr acronym b bdi bdo big bold cite code del dfn em email emphasis ext-link fixed-case font i inf inline-formula ins "
    "italic kbd mark math monospace named-content overline q roman ruby s samp sans-serif sansserif sc scp small small-caps span "
    "strike strong styled-content sub sup tex-math tt u underline uri var".split()
)
"""Elements inside a line: their tags leave nothing behind, so that a word stays whole."""
EMPHASIS = frozenset("b bold em emphasis i italic strong".split())
"""Crossref and OpenAlex lose the spaces around these: `schemes for<i>ab initio</i>total energy`."""
WORD_BEFORE, WORD_AFTER = re.compile(r"[^\W_]+\Z"), re.compile(r"[^\W_]+")
MAX_WORD_CHARS = 40
MIN_AFTER_CAPITALS = 5
"""Letters of a word that may stand behind an emphasized abbreviation; fewer are its ending: `<i>ATP</i>ases`."""
BLOCK = frozenset(
    "abstract abstracttext annotation annotation-xml article blockquote body br caption cross-ref dd disp-formula div dl dt fig figcaption "
    "footer h1 h2 h3 h4 h5 h6 header hr hsp html label li list list-item mspace nav ol p para pre sec section simple-para table "
    "tbody td th thead title tr ul vsp xref".split()
)
"""Elements that part words."""
_MATHML_NAMES = "|".join(sorted(MATHML | {"math"}))
SECTION = re.compile(r"<!\[CDATA\[|\]\]>|<!--.{0,1000}?-->", re.DOTALL)
"""Marks of literal text, and comments."""
MATHML_GAP = re.compile(rf"(<(?!/(?:\w+:)?math\b)/?(?:\w+:)?(?:{_MATHML_NAMES})\b[^<>]*>)\s+(?=</?(?:\w+:)?(?:{_MATHML_NAMES})\b)")
"""White space between elements of a formula has no meaning."""

MAX_MATH_CHARS = 400
MATH_SIGN = re.compile(r"\\[A-Za-z]|[_^]\s*\{|\^")
_FONTS = (
    "math(?:rm|bf|it|sf|tt|cal|bb|frak|scr|normal)|text(?:it|bf|rm|sc|sf|sl|tt|up|md|normal|superscript|subscript)?|operatorname|emph"
    "|mbox|hbox|ensuremath|boldsymbol|bm|ce|underline|overline|bar|hat|tilde|vec|uppercase|lowercase"
)
_SWITCHES = "rm|it|bf|sf|tt|sc|sl|em|cal|left|right|displaystyle|textstyle|scriptstyle|limits"
MATH_FONT = re.compile(rf"\\(?:{_FONTS}|{_SWITCHES})(?![A-Za-z])\s*")
FONT = re.compile(rf"\\(?:{_FONTS})\s*\{{([^{{}}]*)\}}|\{{\\(?:{_SWITCHES})\s++([^{{}}]*)\}}")
FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
COMMAND = re.compile(r"\\([A-Za-z]+)\s*|\\.")
PARENTHESES = re.compile(r"\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
SCRIPT = re.compile(r"(?<=[^\W_])[_^]\{([^{}]{1,60})\}")
PROTECTED = re.compile(r"\{(?=[a-z\d]*[A-Z])([^\W_]+(?:[- ][^\W_]+)*)\}")
r"""BibTeX's braces around what keeps its capitals: `{K}a`, `{mRNA}`."""
_LETTER = r"\\[ij](?![A-Za-z])|[A-Za-z]"
ACCENT = re.compile(
    rf"""\{{\\(?P<a>['`^"~=.]|[cvuHkrdbt](?=[\s{{\\]))\s*(?:\{{(?P<al>{_LETTER})\}}|(?P<am>{_LETTER}))\}}"""
    rf"""|\\(?P<b>['`^"~=.cvuHkrdbt])\s*\{{(?P<bl>{_LETTER})\}}"""
    rf"""|\\(?P<c>['`^"~=.])(?P<cl>[aeiouyAEIOUYcCzZ]|\\[ij](?![A-Za-z])|(?<=[A-Za-z]..)[nNsSgG](?=[A-Za-z])|(?<=[A-Za-z]..)n)""",
)
r"""`{\'e}`, `\'{e}`, `\'e`. Without braces only before letters that have such an accent: `don\'t` and `it\'s` are escaped apostrophes."""
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307", "c": "\u0327", "v": "\u030c",
    "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a", "d": "\u0323", "b": "\u0331", "t": "\u0361",
}  # fmt: skip
LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "i": "ı", "j": "j",
    "dh": "ð", "DH": "Ð", "th": "þ", "TH": "Þ", "dj": "đ", "DJ": "Đ", "ng": "ŋ", "NG": "Ŋ",
}  # fmt: skip
_LETTER_NAMES = "|".join(sorted(LETTERS, key=len, reverse=True))
LETTER = re.compile(rf"\{{\\({_LETTER_NAMES})\s*\}}|\\({_LETTER_NAMES})(?![A-Za-z])(?:\{{\}}|[ ])?")
GREEK = dict(
    zip(
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega"
        ).split(),
        "αβγδεζηθικλμνξοπρστυφχψω",
        strict=True,
    )
)
GREEK |= {f"var{name}": GREEK[name] for name in ("epsilon", "theta", "kappa", "pi", "rho", "phi")} | {"varsigma": "ς"}
GREEK |= {f"text{name}": letter for name, letter in GREEK.items()} | {f"up{name}": letter for name, letter in GREEK.items()}
GREEK |= {name.capitalize(): letter.upper() for name, letter in GREEK.items() if not name.startswith(("var", "text", "up"))}
FUNCTIONS = frozenset("arg cos det dim exp gcd inf ker lim ln log max min mod sin sup tan".split())
GREEK_NAME = re.compile(rf"\\({'|'.join(sorted(GREEK, key=len, reverse=True))})(?![A-Za-z])")
DISCRETIONARY = re.compile(r"(?<=[^\W\d_])\\-(?=[^\W\d_])")
MAX_NESTED_FONTS = 4

BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Default_Ignorable_Code_Point: soft hyphens, zero-width spaces and joiners, marks of direction, selectors of variants."""
_ASCII = bytes(range(128))
JAMO = re.compile("[\u1160-\u11ff]")
"""Vowels and finals of Korean, which compose though they are no marks."""
LOOSE_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+")
"""Accents that are part of no character after composition. Accents are not compared."""


def fold_text(text: str) -> str:
    """The text as searches compare it; itself where it is plain ASCII without markup. Case and composed accents stay."""
    if not text.isascii():
        text = _fold_characters(text)
    plain = text
    # `in` is many times as fast as a search of a regular expression, and most texts hold none of these
    if "&" in text and ";" in text:
        text = ENTITY.sub(lambda match: unescape(f"&{match[1]}") if match[1].startswith("#") else html5.get(match[1], match[0]), text)
    if "<" in text and ">" in text:
        text = _strip_tags(text)
    if "\\" in text or "$" in text or "{" in text:
        text = _set_latex(text)
    # entities and LaTeX bring in further characters
    return text if text == plain or text.isascii() else _fold_characters(text)


def _strip_tags(text: str) -> str:
    """The text without tags of known elements. What only looks like a tag stays: `p<a and b>c`, `<LOD>`, `<https://...>`."""
    closed: dict[str, bool] = {}

    def replace(match: re.Match[str]) -> str:
        closing, prefix, name = match[1], match[2], match[3].lower()
        if name in BLOCK:
            return " "
        if name not in INLINE:
            return match[0]
        if len(name) == 1 and not closing and not prefix:  # `a<b>c` compares three values where nothing closes the element
            if name not in closed:
                closed[name] = re.search(rf"</{name}\s*>", text, re.IGNORECASE) is not None
            if not closed[name]:
                return match[0]
        return " " if name in EMPHASIS and _parts_words(text, match.start(), match.end(), is_closing=bool(closing)) else ""

    if "<!" in text:
        text = SECTION.sub("", text)
    return TAG.sub(replace, MATHML_GAP.sub(r"\1", text) if "<m" in text or ":m" in text else text)


def _parts_words(text: str, start: int, end: int, *, is_closing: bool) -> bool:
    """Whether a tag of emphasis stands where a space was lost: between two words, not inside one as in `<i>Eco</i>RI` and `<i>n</i>th`."""
    before, after = WORD_BEFORE.search(text[max(0, start - MAX_WORD_CHARS) : start]), WORD_AFTER.match(text, end)
    if before is None or after is None:
        return False
    left, right = before.group(), after.group()[:MAX_WORD_CHARS]
    if not is_closing:  # the left one is outside
        return left[1:].islower() and (left[0].islower() or len(left) > 2)
    if len(left) == 1 and left.isupper():  # an initial
        return False
    return right[1:].islower() and len(right) > 2 and (not left.isupper() or len(right) >= MIN_AFTER_CAPITALS)


def _set_latex(text: str) -> str:
    """The text without LaTeX: formulas, accents, letters, fonts, protecting braces. Commands that are not known stay."""
    if "$" in text:
        text = _set_formulas(text.replace("\\$", " ").replace("$$", "$"))
    if "\\" in text:
        text = PARENTHESES.sub(lambda match: _set_formula(match[1] or match[2]), text)
        text = ACCENT.sub(_set_accent, text)
        text = LETTER.sub(lambda match: LETTERS[match[1] or match[2]], text)
        text = DISCRETIONARY.sub("", GREEK_NAME.sub(lambda match: GREEK[match[1]], text))
        for _ in range(MAX_NESTED_FONTS):  # from the inside to the outside
            text, count = FONT.subn(lambda match: match[1] or match[2] or "", text)
            if not count:
                break
    if "{" in text:
        text = PROTECTED.sub(r"\1", SCRIPT.sub(r"\1", text))
    return text


def _set_formulas(text: str) -> str:
    """A pair of `$` is a formula where it holds LaTeX, or else by pandoc's rule: no blank inside its ends, and no digit follows."""
    parts: list[str] = []
    start, first = 0, text.find("$")
    while first >= 0 and (last := text.find("$", first + 1)) >= 0:
        inside = text[first + 1 : last] if last - first <= MAX_MATH_CHARS else ""
        is_tight = inside.strip() == inside and not text[last + 1 : last + 2].isdigit()
        if inside and "\n\n" not in inside and (is_tight or MATH_SIGN.search(inside)):
            parts += [text[start:first], _set_formula(inside)]
            start = last + 1
            first = text.find("$", start)
        else:
            first = last
    return "".join((*parts, text[start:]))


def _set_formula(inside: str) -> str:
    """The letters and digits of a formula; indices and exponents join what they belong to, signs become commas."""
    inside = MATH_FONT.sub("", FRACTION.sub(r" \1 \2 ", ACCENT.sub(_set_accent, inside)))
    inside = COMMAND.sub(_set_command, inside)
    return re.sub(r"\s*[{}]\s*", "", re.sub(r"\s*[_^]\s*", "", inside))


def _set_command(match: re.Match[str]) -> str:
    name = match[1] or ""
    return "l" if name == "ell" else f" {name}," if name in FUNCTIONS else GREEK.get(name, ",")


def _set_accent(match: re.Match[str]) -> str:
    accent = match["a"] or match["b"] or match["c"]
    letter = match["al"] or match["am"] or match["bl"] or match["cl"]
    return letter.removeprefix("\\") + ACCENTS[accent]


def _fold_characters(text: str) -> str:
    """Invisible characters go, compatible letters and digits (`ﬁ`, `²`, `Ａ`) become plain, accents are composed (NFC)."""
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    if not others.translate(_CHANGING):  # most texts hold a dash or an accented letter, and nothing that changes
        return text
    text = BEYOND_ASCII.sub(lambda match: match.group().translate(_CHARACTERS), text)
    return LOOSE_MARKS.sub("", unicodedata.normalize("NFC", text))


class _Characters(dict[int, str]):
    """What each character becomes. Signs keep their form: `™` would else become letters of the word before it."""

    def __missing__(self, point: int) -> str:
        char = chr(point)
        category, form = unicodedata.category(char), unicodedata.decomposition(char).partition(" ")[0]
        if IGNORABLE.match(char):
            text = ""
        elif form.startswith("<") and (
            category[0] in "LM" or category in ("Nd", "Nl") or (category == "No" and form in ("<super>", "<sub>")) or form == "<square>"
        ):
            text = unicodedata.normalize("NFKC", char)
        else:
            text = char
        self[point] = text
        return text


class _Changing(dict[int, str]):
    """Characters that folding changes, or that composition joins with the one before them; nothing for others."""

    def __missing__(self, point: int) -> str:
        char = chr(point)
        is_stable = _CHARACTERS[point] == char and unicodedata.is_normalized("NFC", char)
        self[point] = "" if is_stable and unicodedata.category(char)[0] != "M" and not JAMO.match(char) else char
        return self[point]


_CHARACTERS, _CHANGING = _Characters(), _Changing()
