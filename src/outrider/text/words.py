"""Words and stems of any script, for ranking in memory and for exact search.

`words` and `stems` are for ranking; `tokens` gives the words in order as the library's exact indexes hold them.

`tokens` folds the text first (`fold`), as the indexes hold it. They split it by ICU and at everything that is neither letter nor digit
(`base_tokenizer="icu/split"`), lower each character and fold it to ASCII where its compatibility form is a Latin letter or a digit. The
rules were read from Lance's tokenizer and measured on every assigned character; `tests/text/test_words.py` compares them with an index.
Scripts that are written without spaces differ on purpose: the index cuts them by a dictionary, here each character is a word, so that a
term matches wherever it stands (`UNSEGMENTED`).
"""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from functools import cache, lru_cache
from typing import Any, NamedTuple

from outrider.text.content_cache import ContentCache
from outrider.text.strip_markup import fold_text

WORD = re.compile(r"[^\W_]+")
PARTED = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256))
"""For `bytes.translate`: ASCII characters other than letters and digits become a space."""
CONTINUOUS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
"""Scripts written without spaces: Han, kana, Thai. Their runs are cut into overlapping pairs of characters."""

# English function words: articles, pronouns, prepositions, conjunctions, auxiliaries, and what contractions leave when
# they are split at the apostrophe. No content word, however frequent: BM25's idf takes care of those.
STOP_WORDS = frozenset(
    """
    a an the this that these those such same other own
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves one
    who whom whose which what when where why how
    and or nor but if because as while than then so also though although whether either neither both
    of at by for with about against between into through during before after above below to from up down in out on off
    over under again further until upon within without onto toward towards via per among
    am is are was were be been being have has had having do does did doing done can could may might must shall should
    will would ought
    not no only just very too more most few some any all each every here there now once ever
    s t d m ll re ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn shan shouldn couldn mustn needn mightn ain
    """.split()
)
"""Also given to the ranking index: LanceDB's own list for its `icu` tokenizer mixes many languages and drops `ai`, `cat`, `dog`
and `war` from English text.
"""

OTHER_FUNCTION_WORDS = frozenset(
    """
    der die das des dem ein eine einen einem einer eines und oder aber nicht kein keine keinen mit von vom zum zur bei
    aus auf für über unter
    nach vor zwischen durch gegen ohne ist sind waren wird werden wurde wurden worden sein seine seinen seiner haben
    hatte hatten kann können
    muss soll sich auch nur noch schon sehr wie wer warum wann welche welcher welches dass weil wenn als dann damit
    sowie sondern diese dieser
    dieses diesem jede jeder jedes ihr ihre ihren ich wir sie uns
    les une dans sur avec est sont était étaient être avoir ont avait que qui quoi dont cette ces cet ses leur leurs aux
    entre chez pas nous vous
    ils elle elles donc ainsi aussi mais comme sans lors
    los las una unos unas del para por sobre desde hasta pero como quien cual donde cuando este esta estos estas sus fue
    fueron muy también
    gli dei delle della dello degli nel nella nelle che chi cui quando sono erano stato stata questo questa questi
    queste anche più non
    das uma umas pelo pela pelos pelas com não quem qual onde são foi foram muito seus suas
    een het voor niet zijn werd naar ook maar bij uit deze dit dat wordt
    """.split()
)
"""Function words of German, French, Spanish, Italian, Portuguese and Dutch that are hardly ever content words of English. The ranking index
has them, since a text of another language may be all that a library holds, but none of them names a topic.
"""

_stemming = threading.Lock()
UNSEGMENTED = re.compile(
    "[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\u1780-\u17d3\u17d7\u17dc\u1950-\u19c9\u1a20-\u1a74\u1aa7"  # Myanmar, Khmer, Tai
    "\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaadf\U00011700-\U0001172f\U00011740-\U00011746"
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d\U0001aff0-\U0001b2ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00016fe2-\U00018dff\U00020000-\U0003ffff]"  # Han, Tangut, Khitan
)
"""Characters that the index groups by a dictionary: a part of such a run cannot be searched."""
FOLDED = {
    "\u00df": "ss", "\u00e6": "ae", "\u0153": "oe", "\u00f8": "o", "\u0142": "l", "\u0111": "d", "\u00f0": "d", "\u00fe": "th",
    "\u0127": "h", "\u0167": "t", "\u014b": "n", "\u0131": "i", "\u0138": "k", "\u017f": "s",
}  # fmt: skip
"""Lower-case letters without a decomposition that are folded nevertheless."""
_CIRCLED = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_ALPHABETIC_MARKS = """
    345 363-36f 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e4 6e7-6e8 6ed 711 730-73f 7a6-7b0 816-817
    81b-823 825-827 829-82c 8d4-8df 8e3-8e9 8f0-903 93a-93b 93e-94c 94e-94f 955-957 962-963 981-983 9be-9c4 9c7-9c8 9cb-9cc 9d7
    9e2-9e3 a01-a03 a3e-a42 a47-a48 a4b-a4c a51 a70-a71 a75 a81-a83 abe-ac5 ac7-ac9 acb-acc ae2-ae3 afa-afc b01-b03 b3e-b44 b47-b48
    b4b-b4c b56-b57 b62-b63 b82 bbe-bc2 bc6-bc8 bca-bcc bd7 c00-c04 c3e-c44 c46-c48 c4a-c4c c55-c56 c62-c63 c81-c83 cbe-cc4 cc6-cc8
    cca-ccc cd5-cd6 ce2-ce3 d00-d03 d3e-d44 d46-d48 d4a-d4c d57 d62-d63 d81-d83 dcf-dd4 dd6 dd8-ddf df2-df3 e31 e34-e3a e4d eb1
    eb4-eb9 ebb-ebc ecd f71-f83 f8d-f97 f99-fbc 102b-1036 1038 103b-103e 1056-1059 105e-1060 1062-1064 1067-106d 1071-1074 1082-108d
    108f 109a-109d 1712-1713 1732-1733 1752-1753 1772-1773 17b6-17c8 1885-1886 18a9 1920-192b 1930-1938 1a17-1a1b 1a55-1a5e 1a61-1a74
    1abf-1ac0 1acc-1ace 1b00-1b04 1b35-1b43 1b80-1b82 1ba1-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1dd3-1df4 2de0-2dff a674-a67b a69e-a69f
    a802 a80b a823-a827 a880-a881 a8b4-a8c3 a8c5 a8ff a926-a92a a947-a952 a980-a983 a9b4-a9bf a9e5 aa29-aa36 aa43 aa4c-aa4d aa7b-aa7d
    aab0 aab2-aab4 aab7-aab8 aabe aaeb-aaef aaf5 abe3-abea fb1e 10376-1037a 10a01-10a03 10a05-10a06 10a0c-10a0f 10d24-10d27
    10eab-10eac 11000-11002 11038-11045 11073-11074 11080-11082 110b0-110b8 110c2 11100-11102 11127-11132 11145-11146 11180-11182
    111b3-111bf 111ce-111cf 1122c-11234 11237 1123e 112df-112e8 11300-11303 1133e-11344 11347-11348 1134b-1134c 11357 11362-11363
    11435-11441 11443-11445 114b0-114c1 115af-115b5 115b8-115be 115dc-115dd 11630-1163e 11640 116ab-116b5 1171d-1172a 1182c-11838
    11930-11935 11937-11938 1193b-1193c 11940 11942 119d1-119d7 119da-119df 119e4 11a01-11a0a 11a35-11a39 11a3b-11a3e 11a51-11a5b
    11a8a-11a97 11c2f-11c36 11c38-11c3e 11c92-11ca7 11ca9-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d41 11d43 11d47 11d8a-11d8e
    11d90-11d91 11d93-11d96 11ef3-11ef6 16f4f 16f51-16f87 16f8f-16f92 16ff0-16ff1 1bc9e 1e000-1e006 1e008-1e018 1e01b-1e021
    1e023-1e024 1e026-1e02a 1e947
"""
"""Marks with Unicode's property Other_Alphabetic (vowel signs, points): part of a word. Accents, viramas and nuktas part words instead."""
_ASCII = bytes(byte if byte > 127 else ord(chr(byte).lower()) if chr(byte).isalnum() else 32 for byte in range(256))
"""For `bytes.translate`: ASCII letters lowered, what is neither letter nor digit a blank; other characters stay for `_TABLE`."""
_OTHERS = re.compile(r"[^\x00-\x7f]+")


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    """The name of a field in lower case, with `_` for spaces and punctuation."""
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_") or name.strip()


def words(text: str) -> list[str]:
    """Lower-case words in order; a run of Han, kana or Thai becomes its overlapping character pairs."""
    if text.isascii():  # several times as fast as the regular expression, which it equals there
        return text.encode("ascii").translate(_ASCII).decode("ascii").split()
    parted = text.lower().encode("utf-8", "surrogatepass").translate(PARTED).decode("utf-8", "surrogatepass").split()
    for at in reversed([at for at, is_plain in enumerate(map(str.isascii, parted)) if not is_plain]):
        parted[at : at + 1] = _runs(parted[at])
    return parted


def _runs(part: str) -> list[str]:
    runs: list[str] = WORD.findall(part)
    if not CONTINUOUS.search(part):
        return runs
    return [
        piece
        for run in runs
        for piece in (([run[at : at + 2] for at in range(len(run) - 1)] or [run]) if CONTINUOUS.search(run) else (run,))
    ]


@lru_cache(maxsize=4_096)
def title_words(title: str) -> tuple[str, ...]:
    """The words of the folded title; kept, since several steps of a search compare the titles of its records."""
    return tuple(words(fold_text(title)))


def content_words(text: str) -> list[str]:
    """Words of the folded text that are not stop words; all of them where nothing else is left ("to be or not to be")."""
    every = words(fold_text(text))
    return [word for word in every if word not in STOP_WORDS] or every


def stems(text: str) -> list[str]:
    """Content words, stemmed (Snowball English, Porter 2001); words of other languages mostly stay as they are."""
    return [stem(word) for word in content_words(text)]


class StemmedText(NamedTuple):
    """A text as one string of its stems in order, each as `<stem>`: `count` of strings finds one, or two that follow each other."""

    line: str
    length: int
    """Number of words."""


def _stem_text(text: str) -> StemmedText:
    parted = words(fold_text(text))
    return StemmedText(f"<{'><'.join(map(stem, parted))}>" if parted else "", len(parted))


STEMMED_BYTES = 16 * 2**20
"""Of kept texts: six thousand abstracts."""
stem_text = ContentCache(_stem_text, lambda stemmed: sys.getsizeof(stemmed.line), STEMMED_BYTES)
"""All words of a text, stemmed; kept, since searches rank the same records again."""


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of one lower-case word; cached."""
    with _stemming:  # a Stemmer object is not safe to share between threads
        stemmed: str = _stemmer().stemWord(word)
    return stemmed


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english", 0)  # without a cache of its own, which takes longer than stemming: `stem` has one


def tokens(text: str) -> list[str]:
    """The words of `text` in order, as the exact index holds them."""
    return separate_words(fold_text(text)).split()


def separate_words(text: str) -> str:
    """The words of a folded text with one blank or more between them, and before and behind them where something stood there."""
    plain = text.encode("utf-8", "surrogatepass").translate(_ASCII).decode("utf-8", "surrogatepass")
    return plain if plain.isascii() else _OTHERS.sub(lambda match: match.group().translate(_TABLE), plain)


class _Table(dict[int, str]):
    """What each character becomes; a blank parts words."""

    def __missing__(self, point: int) -> str:
        char = chr(point)
        if not (unicodedata.category(char)[0] in "LN" or point in _OTHER_ALPHABETIC):
            text = " "
        else:
            folded = "".join(map(_fold, char.lower())).replace(" ", "_")
            alone = UNSEGMENTED.match(char) or (unicodedata.category(char) == "No" and char != "\u19da")
            text = f" {folded} " if alone else folded
        self[point] = text
        return text


def _fold(char: str) -> str:
    if char.isascii() or char in FOLDED:
        return FOLDED.get(char, char)
    parts = unicodedata.normalize("NFKD", char)
    return "".join(FOLDED.get(part, part if part.isascii() else "") for part in parts) or char


_ENDS = [part.split("-") for part in _ALPHABETIC_MARKS.split()]
_OTHER_ALPHABETIC = frozenset(
    point for first, last in (*((int(ends[0], 16), int(ends[-1], 16)) for ends in _ENDS), *_CIRCLED) for point in range(first, last + 1)
)
_TABLE = _Table()
