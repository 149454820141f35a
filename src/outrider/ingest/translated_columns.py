"""Names of table columns in other languages than English, such as Titel and 期刊.

Compared without case, accents, spaces and punctuation. They count only for fields that no column names in English: `Journal` wins over
`Revue`, which then stays in the metadata.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from outrider.text.words import fold_name

TRANSLATIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "German": {
        "title": ("Titel", "Artikeltitel", "Aufsatztitel"),
        "abstract": ("Zusammenfassung", "Kurzfassung"),
        "authors": ("Autoren", "Autor", "Autor(en)", "Autorinnen", "Autor*innen", "Verfasser"),
        "journal": ("Zeitschrift", "Fachzeitschrift", "Zeitschriftentitel", "Name der Zeitschrift"),
        "year": ("Jahr", "Erscheinungsjahr", "Publikationsjahr", "Veröffentlichungsjahr"),
        "volume": ("Band",),
        "issue": ("Heft", "Heftnummer"),
        "pages": ("Seiten",),
        "keywords": ("Schlagwörter", "Schlagworte", "Schlüsselwörter", "Stichwörter", "Stichworte"),
    },
    "French": {
        "title": ("Titre", "Titre de l'article"),
        "abstract": ("Résumé",),
        "authors": ("Auteurs", "Auteur", "Auteur(s)"),
        "journal": ("Revue", "Titre de la revue", "Nom de la revue"),
        "year": ("Année", "Année de publication"),
        "volume": ("Tome",),
        "issue": ("Numéro",),
        "keywords": ("Mots-clés", "Mots clefs"),
    },
    "Spanish": {
        "title": ("Título", "Título del artículo"),
        "abstract": ("Resumen",),
        "authors": ("Autores", "Autor", "Autor(es)"),
        "journal": ("Revista", "Título de la revista", "Nombre de la revista"),
        "year": ("Año", "Año de publicación"),
        "volume": ("Volumen",),
        "issue": ("Número",),
        "pages": ("Páginas",),
        "keywords": ("Palabras clave",),
    },
    "Portuguese": {
        "title": ("Título", "Título do artigo"),
        "abstract": ("Resumo",),
        "authors": ("Autores", "Autor", "Autor(es)"),
        "journal": ("Revista", "Periódico", "Título da revista", "Título do periódico"),
        "year": ("Ano", "Ano de publicação"),
        "issue": ("Número",),
        "pages": ("Páginas",),
        "keywords": ("Palavras-chave",),
    },
    "Italian": {
        "title": ("Titolo", "Titolo dell'articolo"),
        "abstract": ("Riassunto", "Sommario"),
        "authors": ("Autori", "Autore", "Autore/i"),
        "journal": ("Rivista", "Titolo della rivista"),
        "year": ("Anno", "Anno di pubblicazione"),
        "issue": ("Numero", "Fascicolo"),
        "pages": ("Pagine",),
        "keywords": ("Parole chiave",),
    },
    "Chinese": {
        "title": ("题名", "标题", "篇名", "題名", "標題"),
        "abstract": ("摘要",),
        "authors": ("作者",),
        "journal": ("期刊", "刊名", "期刊名称", "期刊名"),
        "year": ("年份", "年", "出版年", "发表年份"),
        "volume": ("卷",),
        "issue": ("期",),
        "pages": ("页码", "頁碼"),
        "keywords": ("关键词", "关键字", "關鍵詞", "關鍵字"),
    },
    "Japanese": {
        "title": ("タイトル", "論文タイトル", "題名", "論題", "標題"),
        "abstract": ("要旨", "抄録"),
        "authors": ("著者", "著者名"),
        "journal": ("雑誌", "雑誌名", "掲載誌"),
        "year": ("年", "発行年", "出版年"),
        "volume": ("巻",),
        "issue": ("号",),
        "pages": ("ページ", "頁"),
        "keywords": ("キーワード",),
    },
}  # fmt: skip
AMBIGUOUS = frozenset("titre resume revue tome numero band heft anno ano sommario periodico 年 卷 期 巻 号 頁".split())
"""Names that mean something else in other tables, such as a titre of antibodies: they count only beside another name of their language."""


MAX_NAME_CHARS = 60
"""A longer cell is no name: the first lines of a damaged file may be megabytes."""


class _Translation(NamedTuple):
    field: str
    languages: frozenset[str]


@lru_cache(maxsize=4096)
def fold_accents(name: str) -> str:
    """As `fold_name`, and without accents."""
    if name.isascii():
        return fold_name(name)
    return fold_name("".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char)))


def _list_translations() -> dict[str, _Translation]:
    known: dict[str, _Translation] = {}
    for language, fields in TRANSLATIONS.items():
        for field, names in fields.items():
            for name in map(fold_accents, names):
                earlier = known.get(name, _Translation(field, frozenset()))
                known[name] = _Translation(earlier.field, earlier.languages | {language})
    return known


_FIELD_OF = _list_translations()


def translate_columns(names: Iterable[str]) -> dict[str, str]:
    """The field of each column that is named in another language. Ambiguous names count where another field is in the same language."""
    known = {name: _FIELD_OF[folded] for name in names if len(name) <= MAX_NAME_CHARS and (folded := fold_accents(name)) in _FIELD_OF}
    fields: defaultdict[str, set[str]] = defaultdict(set)
    for field, languages in known.values():
        for language in languages:
            fields[language].add(field)
    return {
        name: field
        for name, (field, languages) in known.items()
        if fold_accents(name) not in AMBIGUOUS or any(fields[language] - {field} for language in languages)
    }
