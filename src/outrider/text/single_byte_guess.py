"""Guess of the single-byte encoding of a text from the letters that it would have.

Read in a wrong encoding, a text has signs and capitals inside its words, letters of two scripts in one word, or letters that no one
language has together. The cost of an encoding counts these for the cheapest language, relative to the characters beyond ASCII. The
alphabets are those of the languages' Wikipedia articles on their orthography.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache

LANGUAGES = {
    "Western": {
        "French": "àâæçéèêëîïôœùûüÿ", "German": "äöüß", "Spanish": "áéíñóúü", "Portuguese": "àáâãçéêíóôõúü", "Italian": "àèéìíòóùú",
        "Dutch": "áèéêëïóöü", "Danish": "æøåéóäö", "Swedish": "åäöéü", "Icelandic": "áðéíóúýþæö", "Catalan": "àçèéíïòóúü",
    },
    "Central European": {
        "Polish": "ąćęłńóśźż", "Czech": "áčďéěíňóřšťúůýž", "Slovak": "áäčďéíĺľňóôŕšťúýž", "Hungarian": "áéíóöőúüű", "Romanian": "ăâîșțşţ",
        "Croatian": "čćđšž", "German": "äöüß",
    },
    "Turkish": {"Turkish": "çğıöşüâîû"},
    "Baltic": {"Lithuanian": "ąčęėįšųūž", "Latvian": "āčēģīķļņšūž", "Estonian": "äõöüšž"},
    "Cyrillic": {"Russian": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "Ukrainian": "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
                 "Serbian": "абвгдђежзијклљмнњопрстћуфхцчџш"},
    "Greek": {"Greek": "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ"},
    "Hebrew": {"Hebrew": "אבגדהוזחטיךכלםמןנסעףפץצקרשת"},
    "Arabic": {"Arabic": "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي" + "ًٌٍَُِّْ", "Persian": "ءآأؤئابپتثجچحخدذرزژسشصضطظعغفقکگلمنهوي"},
}  # fmt: skip
ENCODINGS = {
    "cp1252": "Western", "cp1250": "Central European", "iso8859_2": "Central European", "cp1255": "Hebrew",
    "cp1251": "Cyrillic", "koi8_r": "Cyrillic", "cp1254": "Turkish", "cp1257": "Baltic", "cp1253": "Greek", "cp1256": "Arabic",
    "mac_roman": "Western", "cp850": "Western", "cp866": "Cyrillic", "iso8859_5": "Cyrillic",
}  # fmt: skip
"""The most likely first: it wins where several fit alike. Hebrew read as Cyrillic would be letters only, not the other way round."""
SIGNS = frozenset("\xa0°±µ×÷§©®™–—‘’“”„‚•…€£«»‹›¿¡ª²³¹º½¼¾·†‡‰´")
INSIDE_WORDS = frozenset("\xa0’‘´–—·…×/")
CONTEXT = re.compile(r"(?=(.[^\x00-\x7f].))", re.DOTALL)
ALL_LETTERS_COST = 0.1
"""Of a text whose letters no single language of the encoding has, as a bibliography's names: between a pure text and a wrong reading."""
BOUNDED_BYTES = 2**14


def guess_single_byte(sample: bytes) -> str:
    """The encoding of `ENCODINGS` in which the sample looks most like a text."""
    costs = {name: _rate(sample[:BOUNDED_BYTES].decode(name, errors="replace"), group) for name, group in ENCODINGS.items()}
    return min(costs, key=costs.__getitem__)  # the first of equals


def _rate(text: str, group: str) -> float:
    contexts = Counter(CONTEXT.findall(f" {text} "))
    count = contexts.total()
    if not count:
        return 0.0
    faults = sum(times for context, times in contexts.items() if _is_fault(context))
    letters: Counter[str] = Counter()
    for context, times in contexts.items():
        if context[1].isalpha() and context[1] not in SIGNS:
            letters[context[1].lower()[0]] += times
    total = letters.total()
    cost = min(total - sum(letters[letter] for letter in alphabet) for alphabet in LANGUAGES[group].values())
    every = total - sum(letters[letter] for letter in _join_alphabets(group)) + ALL_LETTERS_COST * total
    return (faults + min(cost, every)) / count


@cache
def _join_alphabets(group: str) -> frozenset[str]:
    return frozenset("".join(LANGUAGES[group].values()))


@cache
def _is_fault(context: str) -> bool:
    """Whether the character in the middle cannot stand between its neighbours in a text."""
    before, char, after = context[0], context[1], context[2]
    if char in SIGNS:
        return before.isalpha() and after.isalpha() and char not in INSIDE_WORDS
    if not char.isalpha():  # a point of Hebrew or Arabic stands on a letter or on another point
        return unicodedata.category(char)[0] != "M" or not (before.isalpha() or unicodedata.category(before)[0] == "M")
    if char.isupper() and before.islower():
        return True
    if before.isdigit() and after.isdigit():
        return True
    return any(other.isalpha() and _find_script(other) != _find_script(char) for other in (before, after))


@cache
def _find_script(char: str) -> str:
    return "LATIN" if char.isascii() else unicodedata.name(char, "").partition(" ")[0]
