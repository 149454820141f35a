"""Pairs of similar records: works that share nearly everything, and one work twice.

Everything is made up from the tables below and a seed. Each class of different works changes one thing that carries meaning, in a title or
in a field; each class of one work changes what catalogues and typists change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from outrider.linkage.judge_pair import judge
from outrider.state.records import Identifiers, Paper

VERSIONS = frozenset({"preprint of", "version of"})
PAIRS = 20
"""Pairs of each class."""
SURNAMES = """
    Abebe Almeida Andersson Banerjee Bianchi Carter Chen Costa Dubois Eriksen Fischer Garcia Haddad Hernandez Ibrahim Ito Jansen Kaya Kim
    Kowalski Lindqvist Mensah Moreau Müller Nakamura Novák Okafor Oliveira Papadopoulos Patel Petrov Rossi Sanchez Santos Schmidt Silva
    Singh Sørensen Suzuki Tanaka Tran Varga Wagner Wang Weber Wilson Yamada Yılmaz Zhang Zimmermann
    """.split()
GIVEN = "Ada Bruno Clara David Elena Farid Grace Hugo Ines Jonas Kaori Laura Marek Nadia Omar Paula Rosa Stefan Tomas Yuki".split()
VENUES = (
    "Annals of Internal Medicine", "Journal of Applied Physics", "IEEE Transactions on Software Engineering", "Journal of Hepatology",
    "Environmental Science and Technology", "Journal of Economic History", "Bulletin of Mathematical Biology", "Clinical Chemistry",
    "American Journal of Epidemiology", "Journal of Educational Psychology", "Materials Letters", "European Journal of Nutrition",
)  # fmt: skip
TOPICS = (
    "bone density in an urban cohort", "recovery after surgery", "the spread of infection in schools", "cell growth in culture",
    "the cost of treatment in hospitals", "soil bacteria under drought", "sleep in shift workers", "memory in old age",
    "the quality of life of patients", "the outcome of transplantation", "crop yield in dry regions", "the risk of stroke",
)  # fmt: skip
SWAPS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "single letters": ("{} and {topic}", (
        ("Vitamin D", "Vitamin E"), ("Vitamin A", "Vitamin C"), ("Hepatitis B", "Hepatitis C"), ("Influenza A", "Influenza B"),
        ("Meningococcal group A vaccine", "Meningococcal group C vaccine"), ("Botulinum toxin A", "Botulinum toxin B"),
        ("Haemophilia A", "Haemophilia B"), ("Protein C deficiency", "Protein S deficiency"), ("Factor X", "Factor V"),
    )),
    "parts": ("Handbook of {topic}. {}", (
        ("Part A", "Part B"), ("Part 1", "Part 2"), ("Part I", "Part II"), ("Volume 3", "Volume 4"), ("Section C", "Section D"),
        ("Book one", "Book two"), ("Part XI", "Part XII"),
    )),
    "Roman numerals": ("Studies on {topic}. {}. Methods and results", (
        ("XI", "XII"), ("XIV", "XVI"), ("XIX", "XXI"), ("IV", "VI"), ("XXXIII", "XXXIV"), ("IX", "XI"), ("XLI", "XLII"),
    )),
    "numbers": ("{} and {topic}", (
        ("Interleukin-1", "Interleukin-2"), ("A phase 2 trial", "A phase 3 trial"), ("Type 1 diabetes", "Type 2 diabetes"),
        ("Aspirin 1.5 mg", "Aspirin 15 mg"), ("CYP2C9 variants", "CYP2C19 variants"), ("Five-year follow-up", "Ten-year follow-up"),
        ("SARS-CoV-1", "SARS-CoV-2"), ("Omega-3 fatty acids", "Omega-6 fatty acids"), ("Web 2.0", "Web 3.0"),
    )),
    "sexes": ("{topic} in {}", (
        ("male mice", "female mice"), ("men", "women"), ("boys", "girls"), ("mothers", "fathers"), ("sons", "daughters"),
    )),
    "times": ("{} care and {topic}", (
        ("Preoperative", "Postoperative"), ("Acute", "Chronic"), ("Short-term", "Long-term"), ("Prenatal", "Postnatal"),
        ("Early", "Late"), ("Primary", "Secondary"), ("Daytime", "Nighttime"),
    )),
    "opposed prefixes": ("{} and {topic}", (
        ("Hyperthyroidism", "Hypothyroidism"), ("Hyponatremia", "Hypernatremia"), ("Hypotension", "Hypertension"),
        ("Intracellular signals", "Extracellular signals"), ("Symptomatic disease", "Asymptomatic disease"),
        ("Microeconomics", "Macroeconomics"), ("Endogenous factors", "Exogenous factors"), ("Bradycardia", "Tachycardia"),
        ("Monozygotic twins", "Dizygotic twins"), ("Underweight", "Overweight"), ("Hypercalcaemia", "Hypocalcaemia"),
    )),
    "chemicals": ("{} exposure and {topic}", (
        ("Methyl mercury", "Ethyl mercury"), ("Nitrate", "Nitrite"), ("Sulphate", "Sulphite"), ("Propane", "Propene"),
        ("Methanol", "Ethanol"), ("Butanol", "Butanal"), ("Benzene", "Toluene"), ("Chlorate", "Chlorite"), ("Cobalt", "Copper"),
    )),
    "drugs": ("{} and {topic}", (
        ("Prednisone", "Prednisolone"), ("Losartan", "Valsartan"), ("Cisplatin", "Carboplatin"), ("Dopamine", "Dobutamine"),
        ("Amlodipine", "Felodipine"), ("Cefotaxime", "Ceftazidime"), ("Chlorpromazine", "Chlorpropamide"), ("Sitagliptin", "Saxagliptin"),
        ("Hydroxyzine", "Hydralazine"), ("Nimodipine", "Nifedipine"),
    )),
    "places": ("{topic} in {}", (
        ("Niger", "Nigeria"), ("Austria", "Australia"), ("Iran", "Iraq"), ("Slovakia", "Slovenia"), ("Guinea", "Guyana"),
        ("North Korea", "South Korea"), ("Gambia", "Zambia"), ("Mali", "Malawi"), ("Dominica", "Dominican Republic"),
        ("Eastern Europe", "Western Europe"),
    )),
    "signs": ("{} and {topic}", (
        ("CD4+ T cells", "CD4- T cells"), ("ER+ tumours", "ER- tumours"), ("HER2-positive cancer", "HER2-negative cancer"),
        ("Gram+ bacteria", "Gram- bacteria"), ("HLA-B27+ patients", "HLA-B27- patients"), ("Rh+ mothers", "Rh− mothers"),
    )),
    "programming languages": ("Memory safety of {} programs: {topic}", (
        ("C", "C++"), ("C++", "C#"), ("C", "C#"), ("Java", "JavaScript"), ("R", "S"), ("F#", "C#"),
    )),
    "Greek letters": ("{} and {topic}", (
        ("Interferon-α", "Interferon-β"), ("TNF-alpha", "TNF-beta"), ("β-carotene", "γ-carotene"), ("PPARδ agonists", "PPARγ agonists"),
        ("ERα expression", "ERβ expression"), ("α-thalassaemia", "β-thalassaemia"),
    )),
    "populations": ("{topic} in {}", (
        ("children", "adults"), ("rats", "mice"), ("dogs", "cats"), ("nurses", "physicians"), ("adolescents", "older adults"),
        ("smokers", "never smokers"), ("urban areas", "rural areas"), ("refugees", "veterans"),
    )),
    "sides and organs": ("{} disease and {topic}", (
        ("Left ventricular", "Right ventricular"), ("Upper airway", "Lower airway"), ("Renal", "Hepatic"), ("Anterior", "Posterior"),
        ("Proximal", "Distal"), ("Aortic valve", "Mitral valve"),
    )),
    "negations": ("{topic} {}", (
        ("with insulin", "without insulin"), ("is preventable", "is not preventable"), ("in treated cases", "in untreated cases"),
        ("before therapy", "after therapy"), ("is reversible", "is irreversible"),
    )),
    "qualifiers": ("Treatment of {} and {topic}", (
        ("women with anaemia", "pregnant women with anaemia"), ("hypertension", "resistant hypertension"), ("asthma", "severe asthma"),
        ("HIV infection", "paediatric HIV infection"), ("pain", "neuropathic pain"),
    )),
    "methods": ("{} for {topic}", (
        ("Supervised learning", "Unsupervised learning"), ("Linear models", "Nonlinear models"),
        ("Parametric tests", "Nonparametric tests"),
        ("Serial algorithms", "Parallel algorithms"), ("Deterministic planning", "Stochastic planning"), ("DFS", "BFS"), ("SVM", "SVD"),
    )),
    "other languages": ("{}", (
        ("Zur Behandlung der Männer mit Diabetes in Deutschland", "Zur Behandlung der Frauen mit Diabetes in Deutschland"),
        ("Étude du nitrate dans les eaux souterraines", "Étude du nitrite dans les eaux souterraines"),
        ("Tratamiento de la hepatitis B en niños de zonas rurales", "Tratamiento de la hepatitis C en niños de zonas rurales"),
        ("男性糖尿病患者的治疗研究", "女性糖尿病患者的治疗研究"), ("术前护理对患者恢复的影响", "术后护理对患者恢复的影响"),
    )),
}  # fmt: skip
"""Class -> title with a gap, and the pairs of fillings that make two works."""
COLUMNS = (
    "Editorial",
    "From the editor",
    "In this issue",
    "Book reviews",
    "News and views",
    "Letter from the president",
    "Research highlights",
)
SERIES = ("World malaria report", "Annual report of the cancer registry", "Global burden of disease study", "Statistics of road deaths",
          "Guidelines for the management of asthma", "Standards of medical care in diabetes")  # fmt: skip
BASES = (
    "Effects of {} on {topic}: a randomised controlled trial", "{} and {topic}", "A systematic review of {} and {topic}",
    "{topic}: the role of {}", "Does {} explain {topic}? Evidence from a longitudinal study",
)  # fmt: skip
CAUSES = (
    "physical exercise", "dietary fibre", "air pollution", "maternal education", "antibiotic resistance", "household income",
    "working memory training", "urban green space", "early screening", "network topology", "genetic variation", "machine translation",
)  # fmt: skip
TRANSLATIONS = (
    ("Clinical study of acupuncture for chronic insomnia", "针灸治疗慢性失眠的临床研究"),
    ("Risk factors of gastric cancer in Northern China", "中国北方胃癌的危险因素分析"),
    ("Treatment of hip fractures in the elderly", "Behandlung der Hüftfraktur beim alten Menschen"),
    ("Epidemiology of tuberculosis in prisons", "Epidemiología de la tuberculosis en las cárceles"),
    ("Prevalence of anaemia among schoolchildren", "Распространённость анемии среди школьников"),
)


@dataclass(frozen=True, slots=True)
class ConfusablePair:
    """Two records, and whether they are one work."""

    kind: str
    same: bool
    one: Paper
    other: Paper


def make_pairs(seed: int = 0) -> list[ConfusablePair]:
    """`PAIRS` pairs of each class; the same for the same seed."""
    random = Random(seed)
    return [*_different(random), *_same(random)]


def is_one_hit(one: Paper, other: Paper) -> bool:
    """Whether a search shows the two records as one hit: they are one work, or a preprint and its publication."""
    judgement = judge(one, other)
    return judgement.verdict == "same" or (judgement.relation is not None and judgement.relation.kind in VERSIONS)


# different works


def _different(random: Random) -> Iterator[ConfusablePair]:
    for kind, (frame, swaps) in SWAPS.items():
        for at in range(PAIRS):
            topic, swap = random.choice(TOPICS), random.choice(swaps) if at >= len(swaps) else swaps[at]
            titles = [_sentence(frame.format(filling, topic=topic)) for filling in random.sample(swap, 2)]
            yield _pair(kind, random, *titles)
    for kind, change in FIELD_CLASSES.items():
        for _ in range(PAIRS):
            yield ConfusablePair(kind, False, *change(random))


def _pair(kind: str, random: Random, title: str, other_title: str) -> ConfusablePair:
    """Two works of one team in one year and journal; sometimes in other pages of one volume, with other DOIs or with one shared DOI."""
    one = _work(random, title)
    update: dict[str, object] = {"title": other_title}
    form = random.choice(("bare", "bare", "pages", "dois", "everything"))
    if form == "bare":
        one = _strip(one)
    if form in {"pages", "everything"}:
        update["pages"] = _pages(random)
    if form in {"dois", "everything"}:
        update["identifiers"] = _doi(random)
    if form == "dois":
        one = one.model_copy(update={"pages": None})
    return ConfusablePair(kind, False, one, one.model_copy(update=update))


def _corrections(random: Random) -> tuple[Paper, Paper]:
    one = _work(random, f"{random.choice(('Correction to: ', 'Erratum: ', 'Corrigendum to '))}{_title(random)}")
    return one, one.model_copy(update={"pages": _pages(random), "identifiers": _doi(random), "issue": str(random.randint(13, 20))})


def _series(random: Random) -> tuple[Paper, Paper]:
    one = _strip(_work(random, random.choice(SERIES))).model_copy(
        update={"authors": (random.choice(("World Health Organization", "WHO", "OECD")),)}
    )
    return one, one.model_copy(update={"year": (one.year or 2000) + random.randint(1, 4)})


def _leading_years(random: Random) -> tuple[Paper, Paper]:
    year = random.randint(1990, 2020)
    one = _strip(_work(random, f"{year} {random.choice(SERIES)}"))
    return one, one.model_copy(update={"title": one.title.replace(str(year), str(year + 1))})


def _columns(random: Random) -> tuple[Paper, Paper]:
    one = _work(random, random.choice(COLUMNS)).model_copy(update={"identifiers": Identifiers(), "abstract": ""})
    one = random.choice((one, one.model_copy(update={"pages": None})))
    return one, one.model_copy(update={"issue": str(random.randint(13, 20)), **({"pages": _pages(random)} if one.pages else {})})


def _two_dois(random: Random) -> tuple[Paper, Paper]:
    one = _work(random, _title(random)).model_copy(update={"pages": None})
    return one, one.model_copy(update={"identifiers": _doi(random)})


def _two_places(random: Random) -> tuple[Paper, Paper]:
    one = _work(random, _title(random)).model_copy(update={"identifiers": Identifiers()})
    return one, one.model_copy(update={"pages": _pages(random)})


def _supplement(random: Random) -> tuple[Paper, Paper]:
    one = _work(random, _title(random))
    return one, one.model_copy(update={"title": _title(random), "pages": random.choice((None, _pages(random)))})


FIELD_CLASSES: dict[str, Callable[[Random], tuple[Paper, Paper]]] = {
    "two corrections of one article": _corrections,
    "reports of one series": _series,
    "leading years": _leading_years,
    "columns in two issues": _columns,
    "one title, two DOIs": _two_dois,
    "two page ranges in one volume": _two_places,
    "a supplement's one DOI": _supplement,
}


# one work


def _same(random: Random) -> Iterator[ConfusablePair]:
    kinds = list(SAME_CLASSES.items())
    for at in range((len(SWAPS) + len(FIELD_CLASSES)) * PAIRS):
        kind, change = kinds[at % len(kinds)]
        one = _work(random, _title(random))
        yield ConfusablePair(kind, True, *change(one, random))


def _typed(one: Paper, random: Random) -> tuple[Paper, Paper]:
    title = one.title
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(title) - 1)
        letter = random.choice("abcdefghijklmnopqrstuvwxyz")
        title = random.choice((
            title[:at] + title[at + 1 :], title[:at] + letter + title[at:], title[:at] + letter + title[at + 1 :],
            title[:at] + title[at + 1] + title[at] + title[at + 2 :],
        ))  # fmt: skip
    return _strip(one), _strip(one).model_copy(update={"title": title})


def _missing(one: Paper, random: Random) -> tuple[Paper, Paper]:
    gaps: dict[str, object] = {"identifiers": Identifiers(), "abstract": "", "pages": None, "volume": None, "issue": None, "year": None}
    names = random.sample(sorted(gaps), 3)
    return one, one.model_copy(update={name: gaps[name] for name in names})


def _named(one: Paper, random: Random) -> tuple[Paper, Paper]:
    names = [name.split(", ") for name in one.authors]
    form = random.choice(("{1} {0}", "{0} {1[0]}", "{1[0]}. {0}", "{0}, {1[0]}."))
    return _strip(one), _strip(one).model_copy(update={"authors": tuple(form.format(*name) for name in names)})


def _translated(one: Paper, random: Random) -> tuple[Paper, Paper]:
    english, other = random.choice(TRANSLATIONS)
    one = one.model_copy(update={"title": english, "abstract": ""})
    return one, one.model_copy(update={"title": other, "pages": random.choice((None, one.pages)), "venue": None})


def _preprinted(one: Paper, random: Random) -> tuple[Paper, Paper]:
    number = random.randint(100_000, 999_999)
    server = random.choice((Identifiers(doi=f"10.1101/{number}"), Identifiers(arxiv=f"2101.0{number % 10_000:04}")))
    gone = {"venue": None, "volume": None, "issue": None, "pages": None, "year": (one.year or 2000) - random.randint(0, 1)}
    return one, one.model_copy(update={"identifiers": server, **gone})


def _marked(one: Paper, random: Random) -> tuple[Paper, Paper]:
    title = one.title.replace(" and ", random.choice((" &amp; ", " and ")))
    title = random.choice((title.upper(), f"{title}.", title.replace(" in ", " <i>in</i> "), title.replace("-", " "), f"[{title}]"))
    return _strip(one), _strip(one).model_copy(update={"title": title})


def _noted(one: Paper, random: Random) -> tuple[Paper, Paper]:
    note = random.choice((
        "[Erratum appears in N Engl J Med 2004 Mar 4;350(10):1051]", "[see comment]", "[Article in Chinese]", "[Review] [45 refs]",
        "[Retraction in Lancet. 2010 Feb 6;375(9713):445]", "[Summary for patients in Ann Intern Med. 2012]", "(preprint)",
    ))  # fmt: skip
    return _strip(one), _strip(one).model_copy(update={"title": f"{one.title}. {note}"})


def _cut(one: Paper, random: Random) -> tuple[Paper, Paper]:
    one = one.model_copy(update={"title": f"{_title(random, BASES[:2]).partition(':')[0]}: results of a national survey"})
    return one, one.model_copy(update={"title": one.title.partition(":")[0], "identifiers": Identifiers(), "abstract": ""})


def _british(one: Paper, random: Random) -> tuple[Paper, Paper]:
    frame = random.choice(("Organization of tumor centers and {}", "Randomized trials of anemia, edema and {}", "Color, behavior and {}"))
    title = _sentence(frame.format(random.choice(TOPICS)))
    other = title
    for american, british in zip("ganiz domiz umor enter nemi edema olor avior".split(),
                                 "ganis domis umour entre naemi oedema olour aviour".split(), strict=True):  # fmt: skip
        other = other.replace(american, british)
    other = other.replace("centres", "centres").replace("entrers", "entres")
    return _strip(one).model_copy(update={"title": title}), _strip(one).model_copy(update={"title": other})


def _abbreviated(one: Paper, random: Random) -> tuple[Paper, Paper]:
    first, _, last = (one.pages or "").partition("-")
    short = f"{first}-{last[-2:]}" if len(first) == len(last) > 2 and first[:-2] == last[:-2] else first
    venue = " ".join(word[:4] for word in (one.venue or "").split() if word[0].isupper())
    bare = one.model_copy(update={"identifiers": Identifiers(), "abstract": ""})
    return bare, bare.model_copy(update={"pages": short, "venue": venue, "year": (one.year or 2000) + random.randint(0, 1)})


SAME_CLASSES: dict[str, Callable[[Paper, Random], tuple[Paper, Paper]]] = {
    "typing errors": _typed,
    "missing fields": _missing,
    "names in other forms": _named,
    "translations": _translated,
    "preprints": _preprinted,
    "case and markup": _marked,
    "catalogue notes": _noted,
    "cut titles": _cut,
    "British spelling": _british,
    "abbreviations": _abbreviated,
}


# records


def _work(random: Random, title: str) -> Paper:
    names = random.sample(SURNAMES, random.randint(1, 5))
    return Paper(
        doc_id="", source="library", title=title, authors=tuple(f"{name}, {random.choice(GIVEN)}" for name in names),
        year=random.randint(1985, 2023), venue=random.choice(VENUES), volume=str(random.randint(1, 90)), issue=str(random.randint(1, 12)),
        pages=_pages(random), identifiers=_doi(random),
    )  # fmt: skip


def _strip(work: Paper) -> Paper:
    """Only title, authors, year and journal."""
    return work.model_copy(update={"volume": None, "issue": None, "pages": None, "identifiers": Identifiers(), "abstract": ""})


def _title(random: Random, frames: Sequence[str] = BASES) -> str:
    return _sentence(random.choice(frames).format(random.choice(CAUSES), topic=random.choice(TOPICS)))


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _pages(random: Random) -> str:
    first = random.randint(100, 2_000)
    return f"{first}-{first + random.randint(3, 15)}"


def _doi(random: Random) -> Identifiers:
    return Identifiers(doi=f"10.{random.randint(1000, 9999)}/j.{random.randint(10**5, 10**7)}")
