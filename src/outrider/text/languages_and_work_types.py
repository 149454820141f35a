"""Languages as two-letter codes, and types of works as one word each.

Language codes and names: ISO 639-1 and 639-2 (both the bibliographic code that libraries use, such as `fre`, and the terminological code,
`fra`, which is also that of ISO 639-3), as the Library of Congress registers them. Of a tag such as `en-GB` (RFC 5646) only the language
counts.

Words for types of works: Crossref (api.crossref.org/types), OpenAlex ("Work types"), PubMed's publication types (MeSH, category V),
Semantic Scholar (`publicationTypes`), Web of Science and Embase (document types), CSL, BibTeX, RIS, EndNote, RefWorks and
JATS. A word in none of the lists below is an unknown type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

NONE = frozenset({"und", "mul", "mis", "zxx"})
"""Undetermined, several languages, a language without a code, no language."""
PLAIN = re.compile(r"[^\W\d_]{2,3}(?=$|[-_])|[^\W\d_][^\W\d_ ]{3,}(?: [^\W\d_]+)*$")
_BETWEEN_LANGUAGES = re.compile(r"[;,/|&\n]|\band\b", re.IGNORECASE)
REGISTER = """
aa aar Afar|ab abk Abkhazian|ae ave Avestan|af afr Afrikaans|ak aka Akan|am amh Amharic|an arg Aragonese|ar ara Arabic|as asm Assamese
av ava Avaric|ay aym Aymara|az aze Azerbaijani|ba bak Bashkir|be bel Belarusian|bg bul Bulgarian|bi bis Bislama|bm bam Bambara
bn ben Bengali|bo bod tib Tibetan|br bre Breton|bs bos Bosnian|ca cat Catalan|ce che Chechen|ch cha Chamorro|co cos Corsican|cr cre Cree
cs ces cze Czech|cu chu Church Slavic|cv chv Chuvash|cy cym wel Welsh|da dan Danish|de deu ger German|dv div Divehi|dz dzo Dzongkha
ee ewe Ewe|el ell gre Greek|en eng English|eo epo Esperanto|es spa Spanish|et est Estonian|eu eus baq Basque|fa fas per Persian
ff ful Fulah|fi fin Finnish|fj fij Fijian|fo fao Faroese|fr fra fre French|fy fry Western Frisian|ga gle Irish|gd gla Scottish Gaelic
gl glg Galician|gn grn Guarani|gu guj Gujarati|gv glv Manx|ha hau Hausa|he heb Hebrew|hi hin Hindi|ho hmo Hiri Motu|hr hrv scr Croatian
ht hat Haitian|hu hun Hungarian|hy hye arm Armenian|hz her Herero|ia ina Interlingua|id ind Indonesian|ie ile Interlingue|ig ibo Igbo
ii iii Sichuan Yi|ik ipk Inupiaq|io ido Ido|is isl ice Icelandic|it ita Italian|iu iku Inuktitut|ja jpn Japanese|jv jav Javanese
ka kat geo Georgian|kg kon Kongo|ki kik Kikuyu|kj kua Kuanyama|kk kaz Kazakh|kl kal Kalaallisut|km khm Khmer|kn kan Kannada|ko kor Korean
kr kau Kanuri|ks kas Kashmiri|ku kur Kurdish|kv kom Komi|kw cor Cornish|ky kir Kirghiz|la lat Latin|lb ltz Luxembourgish|lg lug Ganda
li lim Limburgan|ln lin Lingala|lo lao Lao|lt lit Lithuanian|lu lub Luba-Katanga|lv lav Latvian|mg mlg Malagasy|mh mah Marshallese
mi mri mao Maori|mk mkd mac Macedonian|ml mal Malayalam|mn mon Mongolian|mr mar Marathi|ms msa may Malay|mt mlt Maltese|my mya bur Burmese
na nau Nauru|nb nob Bokmål|nd nde North Ndebele|ne nep Nepali|ng ndo Ndonga|nl nld dut Dutch|nn nno Nynorsk|no nor Norwegian
nr nbl South Ndebele|nv nav Navajo|ny nya Nyanja|oc oci Occitan|oj oji Ojibwa|om orm Oromo|or ori Oriya|os oss Ossetian|pa pan Panjabi
pi pli Pali|pl pol Polish|ps pus Pashto|pt por Portuguese|qu que Quechua|rm roh Romansh|rn run Rundi|ro ron rum Romanian|ru rus Russian
rw kin Kinyarwanda|sa san Sanskrit|sc srd Sardinian|sd snd Sindhi|se sme Northern Sami|sg sag Sango|si sin Sinhala|sk slk slo Slovak
sl slv Slovenian|sm smo Samoan|sn sna Shona|so som Somali|sq sqi alb Albanian|sr srp scc Serbian|ss ssw Swati|st sot Southern Sotho
su sun Sundanese|sv swe Swedish|sw swa Swahili|ta tam Tamil|te tel Telugu|tg tgk Tajik|th tha Thai|ti tir Tigrinya|tk tuk Turkmen
tl tgl Tagalog|tn tsn Tswana|to ton Tonga|tr tur Turkish|ts tso Tsonga|tt tat Tatar|tw twi Twi|ty tah Tahitian|ug uig Uighur
uk ukr Ukrainian|ur urd Urdu|uz uzb Uzbek|ve ven Venda|vi vie Vietnamese|vo vol Volapük|wa wln Walloon|wo wol Wolof|xh xho Xhosa
yi yid Yiddish|yo yor Yoruba|za zha Zhuang|zh zho chi Chinese|zu zul Zulu
"""
"""`two letters, three letters (one or two codes), name`; `scc` and `scr` are codes in old records."""
TYPES = {
    "article": "journalarticle articlejournal articleinpress originalarticle researcharticle jour",
    "review": "systematicreview scopingreview reviewarticle metaanalysis networkmetaanalysis",
    "preprint": "postedcontent",
    "conference": "proceedingsarticle conferencepaper conferencepublication conferenceproceedings inproceedings proceedings cpaper conf "
    "proceedingspaper paperconference meetingabstract conferenceabstract",
    "book": "monograph editedbook edbook ebook referencebook bookwhole",
    "chapter": "bookchapter booksection bookpart inbook incollection chap echap",
    "dissertation": "thesis phdthesis mastersthesis academicdissertation thes",
    "dataset": "data",
    "report": "techreport technicalreport reportcomponent rprt",
    "editorial": "editorialmaterial",
    "letter": "lettersandcomments lettertotheeditor comment",
    "news": "newspaperarticle articlenewspaper",
    "erratum": "publishederratum correction corrigendum",
    "retraction": "retractionnotice retractionofpublication",
    "peer-review": "",
    "reference-entry": "entrydictionary entryencyclopedia",
    "standard": "",
    "trial": "clinicaltrial randomizedcontrolledtrial controlledclinicaltrial",
    "case-report": "casereports",
    "other": "paratext libguides supplementarymaterials grant component",
}
"""Our words, and their synonyms without case and punctuation."""
GENRES = frozenset({"review", "editorial", "letter", "news", "erratum", "retraction", "trial", "case-report"})
"""More specific types that a journal article may have."""


def split_languages(text: str) -> list[str]:
    """The languages of a work as written: two for `English; German` or `eng, ger`. A text with a part that names none stays whole."""
    parts = [part.strip() for part in _BETWEEN_LANGUAGES.split(text) if part.strip()]
    return parts if len(parts) > 1 and all(map(normal_language, parts)) else [text]


def find_spellings(languages: Iterable[str], language: str) -> list[str]:
    """Those of the texts that name this language, in any spelling and beside others; none if it is not known as a language."""
    normal = normal_language(language)
    return [text for text in languages if normal and normal in map(normal_language, split_languages(text))]


def normal_language(language: str) -> str | None:
    """Return `en` for `eng`, `en-US` or `English`; keep a three-letter code without a two-letter one; None where no language is named."""
    match = PLAIN.match(" ".join(language.split()).casefold())
    if match is None or match.group() in NONE:
        return None
    return _language_codes().get(match.group()) or (match.group() if len(match.group()) == 3 and match.group().isascii() else None)


@cache
def _language_codes() -> dict[str, str]:
    entries = [entry.split() for line in REGISTER.split("\n") for entry in line.split("|") if entry]
    codes: dict[str, str] = {}
    for two, *others in entries:
        longer = [other for other in others if other.islower()]
        name = " ".join(others[len(longer) :]).casefold()
        codes |= dict.fromkeys((two, *longer, name), two)
    return codes


def normal_type(name: str) -> str | None:
    """Return our name of a service's type of work, such as `article` for `journal-article` or `Journal Article`; None where unknown."""
    return _TYPE_NAMES.get(_letters(name))


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


_TYPE_NAMES = {_letters(word): name for name, synonyms in TYPES.items() for word in (name, *synonyms.split())}
