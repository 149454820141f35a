"""70 more references that mislead: languages, versions, parts, chapters, data sets, names cut short, fields that a parser mixed up."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.citations.match_references import ReferenceMatcher, make_reference
from outrider.state.records import Identifiers, Paper


def work(title: str, authors: str, year: int | None, venue: str, volume: str = "", pages: str = "", **identifiers: str) -> Paper:
    return Paper(
        doc_id=title,
        title=title,
        authors=tuple(authors.split("; ")),
        year=year,
        venue=venue or None,
        volume=volume or None,
        pages=pages or None,
        identifiers=Identifiers(**identifiers),
    )


def ref(title: str, authors: str, year: int | None, venue: str = "", volume: str = "", pages: str = "") -> dict[str, Any]:
    fields = {"title": title, "authors": authors.split("; "), "year": year, "venue": venue, "volume": volume, "pages": pages}
    return {name: value for name, value in fields.items() if value}


WORKS = {
    "german": work("Zur Elektrodynamik bewegter Körper", "Einstein, A", 1905, "Annalen der Physik", "17", "891-921"),
    "english": work("On the electrodynamics of moving bodies", "Einstein, A", 1952, "The Principle of Relativity", "", "37-65"),
    "spanish boys": work("Sueño y aprendizaje en niños", "García, M; López, R", 2011, "Rev Neurol", "52", "10-18"),
    "russian": work("О сходимости рядов Фурье", "Колмогоров, А", 1926, "Доклады", "1", "3-8"),
    "chinese": work("深度学习综述", "张伟; 李娜", 2018, "计算机学报", "41", "1-20"),
    "colt": work("Learning from noisy examples", "Angluin, D; Laird, P", 1984, "Proc. 4th Workshop on Learning Theory", "", "55-64"),
    "journal": work("Learning from noisy examples", "Angluin, D; Laird, P", 1988, "Machine Learning", "2", "343-370"),
    "report": work("Sorting by swaps in networks", "Knuth, D; Ajtai, M; Szemeredi, E", 1981, "Technical report CS-81-12"),
    "article": work("Sorting by swaps in networks", "Knuth, D; Ajtai, M; Szemeredi, E", 1983, "Combinatorica", "3", "1-19"),
    "thesis": work("The art of parsing", "Gray, L", 1991, "PhD thesis, MIT"),
    "book": work("The art of parsing", "Gray, L", 1992, "MIT Press"),
    "part 1": work("Seismic waves in layered media, I", "Haskell, N; Thomson, W", 1953, "Bull Seism Soc Am", "43", "17-34"),
    "part 2": work("Seismic waves in layered media, II", "Haskell, N; Thomson, W", 1953, "Bull Seism Soc Am", "43", "377-393"),
    "study": work("Vitamin D and falls in the elderly", "Bischoff, H; Conzelmann, M", 2004, "JAMA", "291", "1999-2006"),
    "corrigendum": work("Corrigendum: Vitamin D and falls in the elderly", "Bischoff, H", 2005, "JAMA", "293", "40"),
    "iron men": work("Serum iron in men", "Cook, J; Skikne, B", 1989, "Blood", "73", "100-104"),
    "iron women": work("Serum iron in women", "Cook, J; Skikne, B", 1989, "Blood", "73", "105-109"),
    "whole book": work("Reinforcement learning: an introduction", "Sutton, RS; Barto, AG", 1998, "MIT Press", isbn="9780262193986"),
    "chapter": work(
        "Temporal-difference learning", "Sutton, RS; Barto, AG", 1998, "Reinforcement learning: an introduction", "", "133-160"
    ),
    "paper of data": work(
        "ImageNet: a large-scale hierarchical image database", "Deng, J; Dong, W; Socher, R", 2009, "CVPR", "", "248-255"
    ),
    "software paper": work("Scikit-learn: machine learning in Python", "Pedregosa, F; Varoquaux, G", 2011, "JMLR", "12", "2825-2830"),
    "preprint": work("A fast route to graph coloring", "Moss, T; Hale, U", 2020, "arXiv", arxiv="2001.01234"),
    "team": work("Genome of the honey bee", "Weinstock, G; Robinson, G; Gibbs, R; Worley, K", 2006, "Nature", "443", "931-949"),
    "venue ahead": work("Boosting by majority votes", "Freund, Y; Haussler, D", 1995, "Information and Computation", "121", "256-285"),
    "windows": work("Security of Windows", "Ames, P; Bell, Q", 1998, "Computers and Security", "17", "30-41"),
    "text": work("Training algorithms for linear text classifiers", "Lewis, D; Schapire, R; Callan, J", 1996, "Proc. SIGIR", "", "298-306"),
    "abstract one": work("Outcome of stents in diabetes", "Ray, S; Moe, T", 2003, "Circulation", "108", "IV-12"),
    "double one": work("Maps of the tundra soils", "Orlov, D; Bauer, E", 1970, "Soil Science", "110", "3-11"),
    "double two": work("Maps of the tundra soils", "Orlov, D; Bauer, E", 1970, "Soil Sci.", "110", "3-11"),
    "dated": work("Sampling from sparse maps", "Ito, K; Vogel, B; Lund, S", 1997, "Proc. 14th Conference on Maps", "", "322-330"),
    "undated": work("Sampling from sparse maps", "Ito, K; Vogel, B; Lund, S", None, "Annals of Cartography"),
    "draft": work("Cuts in planar meshes", "Abel, R; Cruz, T", 1995, "Technical report CS-95-3"),
    "printed": work("Cuts in planar meshes", "Abel, R; Cruz, T", 1995, "Proc. 2nd European Symposium on Meshes", "", "23-37"),
    "later": work("Cuts in planar meshes", "Abel, R; Cruz, T", 1997, "Journal of Meshes", "55", "119-139"),
    "own team": work("Typical walks on trees", "Frey, Y; Karl, M; Ross, D; Rubin, R", 1993, "Proc. 25th Symposium on Trees", "", "315-324"),
    "other team": work("Typical walks on trees", "Karl, M; Mann, Y; Ross, D; Rubin, R", 1994, "Proc. 26th Symposium on Trees", "", "27-32"),
    "in the title": work("In deep water, maps fail", "Gerber, M; Zahner, L", 2017, "Ocean Charts", "12", "1-9"),
    "subtitle": work("Echo. In memory of a voice", "Hall, P; Reed, T", 2001, "Acoustics", "8", "1-9"),
    "in mice": work("Effects of Urtica dioica Linn. in mice", "Nair, K; Rao, V", 2008, "Phytomedicine", "15", "30-36"),
    "short name": work("Tides of small lakes", "Fox, AM", 1999, "Limnology", "12", "3-9"),
    "edition 1": work("Principles of optics", "Born, M; Wolf, E", 1959, "Pergamon"),
    "edition 7": work("Principles of optics (7th edition)", "Born, M; Wolf, E", 1999, "Cambridge University Press"),
}

CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    # languages and transliteration
    ("a work in its language", ref("Zur Elektrodynamik bewegter Körper", "Einstein A", 1905, "Ann. Phys."), "german"),
    ("umlauts written out", ref("Zur Elektrodynamik bewegter Koerper", "A. Einstein", 1905, "Ann. d. Phys.", "17", "891"), "german"),
    (
        "another edition of the translation",
        ref("On the electrodynamics of moving bodies", "Einstein A", 1989, "Collected papers", "2", "140-171"),
        "",
    ),
    ("girls for boys in Spanish", ref("Sueño y aprendizaje en niñas", "García M; López R", 2011, "Rev Neurol"), ""),
    ("without accents", ref("Sueno y aprendizaje en ninos", "Garcia M; Lopez R", 2011, "Rev Neurol"), "spanish boys"),
    ("a name in Latin letters", ref("О сходимости рядов Фурье", "Kolmogorov A", 1926, "Доклады", "1", "3-8"), "russian"),
    ("another work in Cyrillic", ref("О расходимости рядов Фурье", "Колмогоров А", 1926, "Доклады"), ""),
    ("Chinese", ref("深度学习综述", "张伟; 李娜", 2018, "计算机学报", "41", "1-20"), "chinese"),
    ("another Chinese survey", ref("强化学习综述", "张伟; 李娜", 2018, "计算机学报"), ""),
    # a talk, a report and an article of one title
    ("the talk by its year", ref("Learning from noisy examples", "Angluin D; Laird P", 1984), "colt"),
    ("the article by volume and year", ref("Learning from noisy examples", "Angluin D; Laird P", 1988, "Mach. Learn.", "2"), "journal"),
    ("talk or article", ref("Learning from noisy examples", "Angluin D; Laird P", 1986), ""),
    ("talk or article without a year", ref("Learning from noisy examples", "Angluin D; Laird P", None), ""),
    (
        "the article by its year and volume in the venue",
        ref("Learning from noisy examples", "Angluin D", None, "Machine Learning, 2(4):343-370"),
        "journal",
    ),
    (
        "a talk where its article and a report are known",
        ref(
            "Sorting by swaps in networks",
            "Knuth D; Ajtai M; Szemeredi E",
            1982,
            "Proc. 15th ACM Symposium on Theory of Computing",
            "",
            "1-9",
        ),
        "article",
    ),
    ("another report", ref("Sorting by swaps in networks", "Knuth D; Ajtai M; Szemeredi E", 1982, "Technical report TR-82-77"), ""),
    ("a thesis or its book", ref("The art of parsing", "Gray L", 1992), ""),
    ("the version of that year, beside one without a year", ref("Sampling from sparse maps", "Ito K; Vogel B; Lund S", 1997), "dated"),
    (
        "the version in that journal, which has no year",
        ref("Sampling from sparse maps", "Ito K; Vogel B; Lund S", 1997, "Ann. Cartography"),
        "undated",
    ),
    ("one of two versions, the year of neither", ref("Sampling from sparse maps", "Ito K; Vogel B; Lund S", 1999), ""),
    ("what was printed in the year of a report", ref("Cuts in planar meshes", "Abel R; Cruz T", 1995, "Springer Lecture Notes"), "printed"),
    ("the report of that year", ref("Cuts in planar meshes", "Abel R; Cruz T", 1995, "Technical report"), "draft"),
    ("a report or print", ref("Cuts in planar meshes", "Abel R; Cruz T", 1995), ""),
    ("the version by that team", ref("Typical walks on trees", "Frey Y; Karl M; Ross D; Rubin R", None), "own team"),
    ("that team in another year", ref("Typical walks on trees", "Frey Y; Karl M; Ross D; Rubin R", 1998), ""),
    # parts and notices
    ("the second part", ref("Seismic waves in layered media, II", "Haskell N; Thomson W", 1953, "Bull Seism Soc Am", "43"), "part 2"),
    ("a third part", ref("Seismic waves in layered media, III", "Haskell N; Thomson W", 1954, "Bull Seism Soc Am"), ""),
    ("parts without a number", ref("Seismic waves in layered media", "Haskell N; Thomson W", 1953, "Bull Seism Soc Am", "43"), ""),
    (
        "a part by another number",
        {"unstructured": "Haskell N, Thomson W (1953) Seismic waves in layered media, III. Bull Seism Soc Am 43: 400-410."},
        "",
    ),
    ("a corrigendum", ref("Corrigendum: Vitamin D and falls in the elderly", "Bischoff H", 2005, "JAMA", "293", "40"), "corrigendum"),
    ("an expression of concern", ref("Expression of concern: Vitamin D and falls in the elderly", "Bischoff H", 2006, "JAMA"), ""),
    ("a protocol", ref("Vitamin D and falls in the elderly: study protocol", "Bischoff H; Conzelmann M", 2003, "Trials"), ""),
    # same authors and year
    ("men for women", ref("Serum iron in children", "Cook J; Skikne B", 1989, "Blood", "73"), ""),
    ("less than either title", ref("Serum iron", "Cook J; Skikne B", 1989, "Blood"), ""),
    (
        "a longer title by the team",
        ref("Boosting by majority votes and by weights", "Freund Y; Haussler D", 1995, "Information and Computation", "121", "286-300"),
        "",
    ),
    (
        "a longer title in a line",
        {"unstructured": "Freund Y, Haussler D (1995) Boosting by majority votes and by weights. Inform Comput 121: 286-300."},
        "",
    ),
    (
        "a line with a subtitle that the work lacks",
        {"unstructured": "Freund Y, Haussler D (1995) Boosting by majority votes: the weighted case. COLT 95: 12-20."},
        "",
    ),
    (
        "a longer title with that end in a line",
        {"unstructured": "Freund Y, Haussler D. Limits of boosting by majority votes. COLT 1995: 286-300."},
        "",
    ),
    (
        "that title in a line",
        {"unstructured": "Freund Y, Haussler D. “Boosting by majority votes.” Inf. Comput. 121 (1995) 256-285."},
        "venue ahead",
    ),
    (
        "a title behind names in full",
        {"unstructured": "Bischoff, Heike / Conzelmann, Martin: Vitamin D and falls in the elderly. In: JAMA 291 (2004), S. 1999-2006."},
        "study",
    ),
    (
        "a subtitle that is another title",
        {"unstructured": "Freund, Yoav / Haussler, David: Voting: Boosting by majority votes. In: COLT 8 (1995), S. 12-20."},
        "",
    ),
    # chapters and books
    (
        "the book for its chapter",
        ref("Temporal-difference learning", "Sutton RS; Barto AG", 1998, "Reinforcement learning: an introduction"),
        "chapter",
    ),
    (
        "another chapter",
        ref("Dynamic programming", "Sutton RS; Barto AG", 1998, "Reinforcement learning: an introduction", "", "89-110"),
        "",
    ),
    ("another edition", ref("Principles of optics (6th edition)", "Born M; Wolf E", 1980, "Pergamon"), ""),
    # data sets and software
    ("the data for the paper", ref("ImageNet", "Deng J", 2012, "Stanford Vision Lab"), ""),
    ("software and its version", ref("scikit-learn 1.2", "Pedregosa F", 2022, "Zenodo"), ""),
    (
        "a release with the title of the paper",
        ref("Scikit-learn: machine learning in Python, version 0.24", "Grisel O; Mueller A", 2021, "Zenodo"),
        "",
    ),
    # preprints
    ("a preprint under another title", ref("Graph coloring in linear time", "Moss T; Hale U", 2021, "J ACM"), ""),
    # names and fields that a parser mixed up
    ("et al.", ref("Genome of the honey bee", "Weinstock G et al.", 2006, "Nature"), "team"),
    ("a full stop behind a short name", ref("Tides of small lakes", "Anna May Fox.", 1999), "short name"),
    ("a full stop behind initials", ref("Tides of small lakes", "Fox AM.", 1999), "short name"),
    (
        "authors in the title",
        ref("and Haussler. Boosting by majority votes", "Freund Y; D", 1995, "Inform. and Comput.", "121"),
        "venue ahead",
    ),
    (
        "the venue in the title",
        ref("Boosting by majority votes. Information and Computation", "Freund Y; Haussler D", 1995, "", "121", "256-285"),
        "venue ahead",
    ),
    (
        "a longer title with words of the venue",
        ref("Boosting by majority votes in computation", "Freund Y; Haussler D", 1995, "Information and Computation", "121"),
        "",
    ),
    (
        "a year and an initial in the title",
        ref("D (1995) Boosting by majority votes", "Freund Y; Haussler", None, "Inf. Comput."),
        "venue ahead",
    ),
    ("a page number in the title", ref("Genome of 12 the honey bee", "Weinstock G; Robinson G; Gibbs R; Worley K", 2006, "Nature"), "team"),
    (
        "editors behind the title",
        ref(
            "Training algorithm for linear text classi fiers. In A. Holt and D. Meyer, editors",
            "Lewis D; Schapire R; Callan J",
            1996,
            "",
            "",
            "298",
        ),
        "text",
    ),
    (
        "a book behind a title without capitals",
        ref("boosting by majority votes. in machines and logic", "Freund Y; Haussler D", 1995),
        "venue ahead",
    ),
    ("a year, and a title that begins with In", ref("L. (2017). In deep water, maps fail", "Gerber, M; Zahner", None), "in the title"),
    ("a year without brackets before it", ref("L., 2017. In deep water, maps fail", "Gerber, M; Zahner", None), "in the title"),
    ("a subtitle that begins with In", ref("Echo. In memory of a voice", "Hall P; Reed T", 2001), "subtitle"),
    ("another subtitle", ref("Echo. In search of a voice", "Hall P; Reed T", 2001, "Acoustics"), ""),
    ("a stop that ends an abbreviation", ref("Effects of Urtica dioica Linn. in rats", "Nair K; Rao V", 2008, "Phytomedicine"), ""),
    ("a name for the title", ref("Worley", "G. Weinstock; G. Robinson; R. Gibbs", 2006, "Nature", "443, 931"), "team"),
    ("a name for the title, another page", ref("Worley", "G. Weinstock; G. Robinson; R. Gibbs", 2006, "Nature", "443, 932"), ""),
    ("another title on that page", ref("Beekeeping", "G. Weinstock; G. Robinson; R. Gibbs", 2006, "Nature", "443", "931"), ""),
    ("another title of that book", ref("Boosting by votes. In Machines and Logic", "Freund Y; Haussler D", 1995), ""),
    ("another system", ref("Security of Windows 95", "Ames P; Bell Q", 1998, "Computers and Security"), ""),
    (
        "a lost word, same page",
        ref("Training algorithms for linear classifiers", "Lewis D; Schapire R; Callan J", 1996, "Proc. SIGIR", "", "298"),
        "text",
    ),
    ("a lost word, no page", ref("Outcome of stents", "Ray S; Moe T", 2003, "Circulation", "108"), ""),
)


@pytest.fixture(scope="module")
def matcher() -> ReferenceMatcher:
    return ReferenceMatcher(WORKS)


def test_there_are_more_than_forty() -> None:
    assert len(CASES) == 70


@pytest.mark.parametrize(("fields", "key"), [pytest.param(fields, key, id=name) for name, fields, key in CASES])
def test_no_reference_that_misleads_makes_a_false_edge(matcher: ReferenceMatcher, fields: dict[str, Any], key: str) -> None:
    match = matcher.match(make_reference(fields))
    assert (match.key if match else "") == key


def test_of_two_records_of_one_work_one_is_taken(matcher: ReferenceMatcher) -> None:
    match = matcher.match(make_reference(ref("Maps of the tundra soils", "Orlov D; Bauer E", 1970, "Soil Science", "110", "3-11")))
    assert match is not None
    assert match.key == "double one"


def test_a_work_does_not_cite_itself_but_its_talk_of_the_same_title(matcher: ReferenceMatcher) -> None:
    reference = make_reference(ref("Learning from noisy examples", "Angluin D; Laird P", None))
    assert matcher.match(reference) is None
    match = matcher.match(reference, citing="journal")
    assert match is not None
    assert match.key == "colt"


def test_an_equal_title_is_preferred_to_one_with_another_word() -> None:
    works = {
        "talk": work("On the strength of weak learnability", "Schapire, R", 1989, "Proc. 30th Symposium on Foundations", "", "28-33"),
        "article": work("The strength of weak learnability", "Schapire, R", 1990, "Machine Learning", "5", "197-227"),
    }
    match = ReferenceMatcher(works).match(make_reference(ref("The strength of weak learnability", "Schapire R", None)))
    assert match is not None
    assert match.key == "article"
