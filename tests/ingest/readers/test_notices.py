"""Notices in exports of reference databases, read by their readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.readers.select_reader import NoReader, select_reader
from outrider.state.notices import is_retracted, list_notices

NBIB = """PMID- 111
OWN - NLM
TI  - Ileal hyperplasia.
PT  - Journal Article
PT  - Retracted Publication
RIN - Lancet. 2010 Feb 6;375(9713):445. doi: 10.1016/S0140-6736(10)60175-4. PMID: 20137807
ECI - Lancet. 2004 Mar 6;363(9411):750. PMID: 15016483

PMID- 222
OWN - NLM
TI  - Retraction--Ileal hyperplasia.
PT  - Retraction of Publication
ROF - Lancet. 1998 Feb 28;351(9103):637-41. PMID: 111

PMID- 333
OWN - NLM
TI  - Sound.
PT  - Journal Article
CIN - Lancet. 1998 Feb 28;351(9103):611-2. PMID: 9500313
"""
RIS = """TY  - JOUR
TI  - RETRACTED ARTICLE: Ileal hyperplasia
ER  -

TY  - JOUR
TI  - Retraction Note to: Ileal hyperplasia
ER  -

TY  - JOUR
TI  - Sound
N1  - Retracted data were left out.
ER  -
"""
WEB_OF_SCIENCE = """FN Clarivate Analytics Web of Science
VR 1.0
PT J
TI Ileal hyperplasia (Retracted article. See vol. 375, pg. 445, 2010)
DT Article; Retracted Publication
PY 1998
ER

PT J
TI Retraction of vol 351, pg 637, 1998
DT Retraction
PY 2010
ER

PT J
TI Sound
DT Article
PY 1998
ER

EF
"""
SCOPUS = """Authors,Title,Year,Source title,DOI,Document Type,Source
"Doe, J.",Ileal hyperplasia,1998,Lancet,10.1000/a,Retracted,Scopus
"Doe, J.",Erratum: Ileal hyperplasia,1999,Lancet,10.1000/b,Erratum,Scopus
"Doe, J.",Sound,1998,Lancet,10.1000/c,Article,Scopus
"""
OPENALEX = """id,doi,title,publication_year,is_retracted
https://openalex.org/W1,https://doi.org/10.1000/a,Ileal hyperplasia,1998,True
https://openalex.org/W2,https://doi.org/10.1000/b,Retraction: Ileal hyperplasia,2010,true
https://openalex.org/W3,https://doi.org/10.1000/c,Sound,1998,False
"""
FILES = {
    "x.nbib": (NBIB, [["retracted", "expression of concern"], ["retraction notice"], []]),
    "x.ris": (RIS, [["retracted"], ["retraction notice"], []]),
    "wos.txt": (WEB_OF_SCIENCE, [["retracted"], ["retraction notice"], []]),
    "scopus.csv": (SCOPUS, [["retracted"], ["correction notice"], []]),
    "openalex.csv": (OPENALEX, [["retracted"], ["retraction notice"], []]),
}


@pytest.mark.parametrize("name", FILES)
def test_an_export_carries_its_notices(name: str, tmp_path: Path) -> None:
    """The first work is retracted, the second is a notice, the third is sound."""
    text, expected = FILES[name]
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    reader = select_reader(file)
    assert not isinstance(reader, NoReader)
    records = [entry.record for entry in reader.read(file, ReadOptions()) if isinstance(entry, Entry)]
    assert [[notice.kind for notice in list_notices(record)] for record in records] == expected
    assert [is_retracted(list_notices(record)) for record in records] == [True, False, False]
