"""Differences between titles: which carry meaning, and which are spelling."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spellchecker import SpellChecker

from outrider.linkage import spelling
from outrider.linkage.names_and_titles import parse_title, roman_number
from outrider.linkage.spelling import are_near, are_opposed, is_misspelt, load_dictionary, one_form
from outrider.linkage.title_differences import compare_titles

TITLES = st.lists(
    st.sampled_from(
        "vitamin D E 2 II XII CD4+ CD4- C++ C# the of in before after not pregnant women α-blockers 男性 study (part 3) 1.5".split()
    ),
    max_size=8,
).map(" ".join)


def levels(one: str, other: str) -> dict[str, str]:
    return dict(compare_titles(parse_title(one), parse_title(other)))


@pytest.mark.parametrize(
    ("one", "other", "field", "level"),
    [
        ("Vitamin D in winter", "Vitamin E in winter", "numbers", "differ"),
        ("Vitamin A in winter", "Vitamin D in winter", "numbers", "differ"),
        ("Papers of the society XXXIII", "Papers of the society XXXIV", "numbers", "differ"),
        ("Interferon-β in colitis", "Interferon-γ in colitis", "numbers", "differ"),
        ("Aspirin 1.5 mg daily", "Aspirin 15 mg daily", "numbers", "differ"),
        ("2019 guidelines on asthma", "2020 guidelines on asthma", "numbers", "differ"),
        ("CD4+ cells in mice", "CD4− cells in mice", "numbers", "differ"),
        ("ER+ tumours", "ER- tumours", "numbers", "differ"),
        ("CD4<sup>+</sup> cells in mice", "CD4<sup>-</sup> cells in mice", "numbers", "differ"),
        ("Safety of C programs", "Safety of C++ programs", "numbers", "differ"),
        ("Safety of C# programs", "Safety of C++ programs", "numbers", "differ"),
        ("Handbook of methods", "Handbook of methods. Part B", "numbers", "one has more"),
        ("Care of men", "Care of women", "words", "differ"),
        ("Poverty in Niger", "Poverty in Nigeria", "words", "differ"),
        ("Methyl mercury in fish", "Ethyl mercury in fish", "words", "differ"),
        ("Hyponatraemia in adults", "Hypernatraemia in adults", "words", "differ"),
        ("Sulphate in rivers", "Sulfite in rivers", "words", "differ"),
        ("Intramuscular adrenaline", "Intravascular adrenaline", "words", "differ"),
        ("Cough before surgery", "Cough after surgery", "words", "differ"),
        ("HIV in prisons", "HBV in prisons", "words", "differ"),
        ("Springs in Hubei", "Springs in Hebei", "words", "alike"),
        ("Dust in Shanxi", "Dust in Shaanxi", "words", "alike"),
        ("Pregnenolone in blood", "Pregnanolone in blood", "words", "alike"),
        ("Ligase activity in herring", "Lipase activity in herring", "words", "alike"),
        ("Ertapenem in sepsis", "Meropenem in sepsis", "words", "differ"),
        ("Scheduling in LTE networks", "Scheduling in 5G networks", "words", "differ"),
        ("Escolas de meninos em Lisboa", "Escolas de meninas em Lisboa", "words", "alike"),
        ("Treaties of the thirteenth century", "Treaties of the fourteenth century", "numbers", "differ"),
        ("治疗男性患者", "治疗女性患者", "words", "differ"),
        ("Falls in adults ≥65 years", "Falls in adults ≤65 years", "numbers", "differ"),
        ("Falls in adults &gt;65 years", "Falls in adults &lt;65 years", "numbers", "differ"),
        ("Growth of ♂ mice", "Growth of ♀ mice", "numbers", "differ"),
        ("Women with anaemia at work", "Pregnant women with anaemia at work", "words", "one has more"),
        ("Pain is preventable", "Pain is not preventable", "telling words", "differ"),
        ("Pain with aspirin", "Pain without aspirin", "telling words", "differ"),
    ],
)
def test_a_difference_that_carries_meaning(one: str, other: str, field: str, level: str) -> None:
    assert levels(one, other)[f"title's {field}"] == level


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Treatment of anaemia in labour", "Treatment of anemia in labor"),
        ("Randomised trials in heart failure", "Randomized trials in heart failrue"),
        ("Part II: results", "Part 2: results"),
        ("The second world war", "The 2nd world war"),
        ("TNF-α in sepsis", "TNF-alpha in sepsis"),
        ("TNF-a in sepsis", "TNF-alpha in sepsis"),
        ("CD4+ cells", "CD4-positive cells"),
        ("In vitro studies of health care", "Invitro studies of healthcare"),
        ("K<sub>Ca</sub>3.1 channels", "KCa3.1 channels"),
        ("Pre- and postoperative care", "Pre and postoperative care"),
        ("A cohort of 1,500 nurses", "A cohort of 1500 nurses"),
        ("Falls in adults ≥65 years", "Falls in adults >=65 years"),
        ("Falls in adults ≥65 years", "Falls in adults 65 years"),
        ("Growth of ♂ mice", "Growth of male mice"),
        ("Patients' views on care", "Patient views on care"),
        ("Growth o cells in the dark", "Growth of cells in the dark"),
        ("A new boosting algorithm", "A new boosting algorithm: experiments with noisy data"),
        ("A new boosting algorithm", "Schapire, R. (1996). A new boosting algorithm"),
        ("Care of the elderly [Article in Chinese]", "Care of the elderly"),
        ("Care of the elderly. [Erratum appears in Lancet 2004 Mar 4;350(10):51] [see comments]", "Care of the elderly"),
        ("Über die Behandlung", "Ueber die Behandlung"),
        ("Øresund og dens fisk", "Oresund og dens fisk"),
        ("Role of NF-&kappa;B in muscle", "Role of NF-κB in muscle"),
        ("Cohomology of $\\mathbb{Z}_p$-extensions", "Cohomology of Zp-extensions"),
        ("Ageing and judgement in pilots", "Aging and judgment in pilots"),
        ("Smoking in 1990-95", "Smoking, 1990–1995"),
        ("The 19th-century novel", "The nineteenth-century novel"),
        ("Sensors for NO 2 monitoring", "Sensors for NO2 monitoring"),
        ("Extracts of Camelia leaves", "Extracts of Camellia leaves"),
        ("Intraoperatrive monitoring", "Intraoperative monitoring"),
        ("A bridge of 3 um", "A bridge of 3 μm"),
        ("Honey in wound care [Systematic Review]", "Honey in wound care"),
        ("Zinc for colds [with consumer summary]", "Zinc for colds"),
        (
            f"{'Long-term outcomes of patients with chronic ischaemia of the limbs ' * 2}treated by revasc",
            f"{'Long-term outcomes of patients with chronic ischaemia of the limbs ' * 2}treated by revascularisation in Japan",
        ),
    ],
)
def test_a_difference_of_spelling(one: str, other: str) -> None:
    assert levels(one, other) == {}


@given(TITLES, TITLES)
def test_symmetric_and_silent_about_equal_titles(one: str, other: str) -> None:
    assert levels(one, other) == levels(other, one)
    assert levels(one, one) == {}


@given(st.sampled_from("treatment hypertension randomized children hospital algorithm".split()), st.data())
def test_two_letters_in_the_wrong_order_make_no_other_word(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 2))
    typed = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    assert one_form(word, typed) or (are_near(word, typed) and is_misspelt(word, typed))


@pytest.mark.parametrize(
    ("one", "other"),
    [("male", "female"), ("methyl", "ethyl"), ("hypotension", "hypertension"), ("nitrate", "nitrite"), ("mouse", "house"), ("p53", "p63")],
)
def test_words_that_are_alike_are_two_words(one: str, other: str) -> None:
    assert not one_form(one, other)
    assert not (are_near(one, other) and is_misspelt(one, other))


def test_opposed_prefixes_and_endings() -> None:
    assert are_opposed("intranasal", "internasal")
    assert are_opposed("palmitate", "palmitite")
    assert not are_opposed("nasal", "nasale")


@given(st.integers(1, 89))
def test_roman_numerals(number: int) -> None:
    tens = ["", "x", "xx", "xxx", "xl", "l", "lx", "lxx", "lxxx"][number // 10]
    ones = ["", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"][number % 10]
    assert roman_number(tens + ones) == number
    assert roman_number("mild") is None


def test_the_dictionary_is_that_of_pyspellchecker() -> None:
    words, dictionary = load_dictionary(), SpellChecker(language="en").word_frequency.dictionary
    assert all(word in words for word in dictionary)
    others = {change(word) for word in dictionary for change in (lambda word: word[:-1], lambda word: f"{word}'", lambda word: f'{word}"')}
    assert not any(word in words for word in others.difference(dictionary))


LINES = sorted([*(f'"word{number:04}": 1' for number in range(1_000)), '"café": 1', '"tea": 2'])


@pytest.mark.parametrize(
    "text",
    [
        '{"caf\\u00e9": 1, "tea": 2}',
        '{\n"caf\\u00e9": 1,\n"tea": 2\n}',
        '{\n"tea": 2,\n"café": 1\n}',
        "{\n" + ",\n".join(LINES) + "\n}",
        "{\n" + ",\n".join(reversed(LINES)) + "\n}",
    ],
)
def test_a_dictionary_in_another_form_is_read(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "en.json.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(spelling, "files", lambda package: tmp_path)
    words = load_dictionary.__wrapped__()
    assert ["café" in words, "tea" in words, "te" in words, "" in words] == [True, True, False, False]
