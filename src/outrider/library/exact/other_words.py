"""The column of words that no other exact index holds: names, numbers and kinds, so that all that a query may ask for is indexed.

A candidate for a leaf is a row with the leaf's words in the leaf's columns. That loses nothing as long as the index cuts a text as the
evaluator does. Over `REGULAR` characters it does, which was measured on each of them and on random mixtures
(`tests/retrieval/exact/test_regular.py`); a record that holds others carries `ODD` and is a candidate for every query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.boolean.document import normal_doi, texts
from outrider.boolean.field_values import initials_of
from outrider.state.boolean import Field
from outrider.state.records import BaseRecord

ODD = "xqoddqx"
SEPARATOR = "\nxqsepqx\n"
"""Stands between joined parts in the exact indexes, as a word: a phrase does not run from one keyword into the next."""
_IRREGULAR = re.compile(
    "[^\x00-\x7f\u00a0-\u02af\u0370-\u0373\u0376-\u0482\u048a-\u052f\u1e00-\u1fff"  # Latin, Greek, Cyrillic
    "\u2010-\u2027\u2030-\u205e\u2070-\u209c\u20a0-\u20bf\u2190-\u22ff\u2460-\u2473\u25a0-\u25ff"  # punctuation, numbers, signs
    "\u3001-\u3007\u3041-\u3096\u30a1-\u30fa\u30fc\u3400-\u4dbf\u4e00-\u9fff"  # kana, Han
    "\uac00-\ud7a3\ufb00-\ufb06\uff01-\uff5e]"  # Hangul, ligatures, full width
)
_ASKED = (
    Field.AUTHOR, Field.JOURNAL, Field.PUBLICATION_TYPE, Field.PMID, Field.DOI, Field.VOLUME, Field.ISSUE, Field.PAGES,
)  # fmt: skip
_INDEXED_APART = (Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.BODY)


def other_words(record: BaseRecord) -> str:
    """Every text that is in no other exact column, with the forms in which it may be asked for; never NULL, but empty for none."""
    said = list(_said(record))
    indexed_apart = (text for name in _INDEXED_APART for text in texts(record, name))
    if any(map(irregular, (*said, *indexed_apart))):
        said.append(ODD)
    return SEPARATOR.join(said)


def irregular(text: str) -> bool:
    """Whether the index may cut the text otherwise than the evaluator does."""
    return not text.isascii() and _IRREGULAR.search(text) is not None


def _said(record: BaseRecord) -> Iterator[str]:
    for name in _ASKED:
        yield from texts(record, name)
    qualified = record.metadata.get("mesh_qualified")
    if isinstance(qualified, list | tuple):
        yield from (text for text in qualified if isinstance(text, str))
    for author in texts(record, Field.AUTHOR):
        yield " ".join(initials_of(author))
    for number in texts(record, Field.PMID):
        yield number.lstrip("0")
    for doi in texts(record, Field.DOI):
        yield normal_doi(doi)
