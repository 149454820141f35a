"""Questions over structured texts: the best units first, nothing where nothing answers, and the same with an embedding model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.distiller import Distiller
from outrider.distiller.engines.answering import FEATURES, Answering, compute_features, load_weights, shortlist
from outrider.distiller.engines.by_kind_of_text import ByKindOfText, shift_by_rank
from outrider.distiller.engines.closeness import TOKEN_FEATURES, compute_closeness
from outrider.distiller.engines.lexical import Lexical
from outrider.distiller.engines.question_cues import CUES, find_answer_marks, find_definition, find_quantity, share_of_marks
from outrider.distiller.engines.select import make_engine
from outrider.distiller.engines.shortlist import share_tokens
from outrider.distiller.selection import NOISE, THRESHOLD, SelectionSettings
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading
from outrider.state.embedding import TextRole
from outrider.state.errors import ModelUnavailable
from support.distiller_fakes import Fixed, texts
from support.token_embedder import TokenEmbedder
from support.word_embedder import WordEmbedder

GUIDE = """# Kettle

A small server for tea rooms.

## Installation

Kettle needs Python 3.11 or later. Install it with pip:

```
pip install kettle[steam]
```

## Limits

- A request may take 30 seconds.
- Uploads of more than 5 MB are refused.

## History

The name was found in a cafe. Who knows?
"""


class Endpoint(WordEmbedder):
    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        raise ModelUnavailable("an endpoint gives no token vectors")


def segment(text: str = GUIDE) -> SegmentedText:
    return segment_text(Reading("a", text))


@pytest.mark.parametrize("embedder", [None, TokenEmbedder(), Endpoint()])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which Python does Kettle need?", "Kettle needs Python 3.11 or later."),
        ("How do I install it with steam?", "pip install kettle[steam]"),
        ("How many seconds may a request take?", "A request may take 30 seconds."),
    ],
)
def test_the_unit_that_answers_is_first(embedder: WordEmbedder | None, question: str, answer: str) -> None:
    its = segment()
    (scores,) = Answering(embedder).scores(question, [its])  # type: ignore[arg-type]
    assert its.text(max(range(len(scores)), key=scores.__getitem__)) == answer


def test_a_question_that_nothing_answers_scores_below_noise() -> None:
    (scores,) = Answering().scores("Does it support encrypted databases in Oracle clusters?", [segment()])
    assert max(scores) < NOISE


def test_an_endpoint_without_token_vectors_gives_the_scores_by_words() -> None:
    question = "How many seconds may a request take?"
    assert Answering(Endpoint()).scores(question, [segment()]) == Answering().scores(question, [segment()])  # type: ignore[arg-type]


@given(st.text(max_size=40), st.lists(texts, max_size=3))
def test_scores_are_probabilities_one_for_each_unit(query: str, bodies: list[str]) -> None:
    cuts = [segment(body) for body in bodies]
    for engine in (Answering(), Answering(TokenEmbedder())):  # type: ignore[arg-type]
        scores = engine.scores(query, cuts)
        assert [len(own) for own in scores] == [len(its.units) for its in cuts]
        assert all(0 <= score <= 1 for own in scores for score in own)


def test_each_weight_has_its_feature() -> None:
    question, its = "How many seconds may a request take?", segment()
    (asked,) = TokenEmbedder().token_vectors([question], "query")
    (row, *_), (more, *_) = compute_features(question, its), compute_closeness(TokenEmbedder(), asked, its, [0, 2])  # type: ignore[arg-type]
    assert (len(row), len(more)) == (len(FEATURES), len(TOKEN_FEATURES))
    assert len(load_weights("words").unit) == len(FEATURES) + 1
    assert len(load_weights("tokens").unit) == len(FEATURES) + len(TOKEN_FEATURES) + 1


def test_an_answer_without_a_word_of_the_question_is_found_by_tokens() -> None:
    """The vectors say that fee and price are one thing."""

    class Synonyms(TokenEmbedder):
        def vector(self, text: str) -> np.ndarray:
            return super().vector(text.casefold().replace("fee", "price"))

    text = "\n\n".join(f"# Part {k}\n\nThe {word} of the room is blue." for k, word in enumerate("wall door lamp roof desk".split()))
    its = segment(f"{text}\n\n# Part 9\n\nThe price stands here.")
    (scores,) = Answering(Synonyms()).scores("fee", [its])  # type: ignore[arg-type]
    assert its.text(max(range(len(scores)), key=scores.__getitem__)) == "The price stands here."


@given(st.integers(0, 2_000), st.lists(st.integers(0, 900), min_size=1, max_size=12), st.integers(1, 900))
def test_the_texts_of_a_call_share_its_tokens_the_first_most(budget: int, wanted: list[int], most: int) -> None:
    shares = share_tokens(budget, len(wanted), 60, most)
    share, given_out, used = next(shares), [], 0
    for at, want in enumerate(wanted):
        given_out.append(share)
        used += min(want, share)
        if at < len(wanted) - 1:
            share = shares.send(min(want, share))
    assert used <= budget
    assert max(given_out) <= most
    if all(want >= most for want in wanted):
        assert all(later <= earlier + 1 for earlier, later in pairwise(given_out))


@given(st.integers(0, 400), st.sampled_from(["How many seconds may a request take?", "xylophone", "Kettle"]))
def test_the_model_reads_no_more_than_the_budget(tokens: int, question: str) -> None:
    its = segment(GUIDE * 3)
    places, used = shortlist(its, compute_features(question, its), tokens)
    assert used <= tokens
    assert places == sorted(set(places))
    assert not places or max(places) < len(its.units)


def test_a_shortlist_without_a_shared_word_is_spread_over_the_text() -> None:
    its = segment("\n\n".join(f"# Part {k}\n\nThe room is blue. It was painted. Nobody was there." for k in range(60)))
    places, _ = shortlist(its, compute_features("xylophone", its), 300)
    assert places[0] < len(its.units) / 5
    assert places[-1] > len(its.units) * 4 / 5
    assert sum(at % 3 == 0 for at in places) > len(places) / 2


def test_texts_beyond_the_budget_are_scored_by_words() -> None:
    question, cuts = "How many seconds may a request take?", [segment(GUIDE * 4), segment(), segment()]
    scores = Answering(TokenEmbedder(), 150).scores(question, cuts)  # type: ignore[arg-type]
    assert scores[2] == Answering().scores(question, cuts)[2]
    assert scores[0] != Answering().scores(question, cuts)[0]


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("What does it cost?", "It is free for private use.", "It has a lid."),
        ("Why is it slow?", "This is because each page is read twice.", "Each page has a number."),
        ("May I sell what I build with it?", "You can, but must name us.", "Kettles boil water."),
    ],
)
def test_an_answer_has_marks_of_its_kind(question: str, answer: str, other: str) -> None:
    marks = find_answer_marks(question)
    assert share_of_marks(answer, marks) > share_of_marks(other, marks)


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("how many classes of enzymes are there?", "There are four classes.", "Several classes of enzymes are known since 1998."),
        (
            "how many paper nodes does the graph have?",
            "This gives 37M paper nodes.",
            "It links papers since 2018.",
        ),
        ("How many countries took part?", "Sites in 14 countries enrolled.", "In 2014 some countries took part."),
        ("how old must a senator be?", "No one who is below the age of thirty years.", "A senator has 1 vote."),
        ("when does the shop open?", "It opens on 3 May.", "The shop opens when the snow has gone."),
        ("how tall was she?", "She was only ten inches high.", "She was 8."),
        ("what percentage recovered?", "A third, or 34 %, recovered.", "34 patients were seen."),
        ("how much does it cost?", "It is €4 a month.", "It has 4 parts."),
    ],
)
def test_a_quantity_has_the_unit_that_is_asked_for(question: str, answer: str, other: str) -> None:
    quantity = find_quantity(question)
    assert quantity is not None
    assert quantity.search(answer)
    assert not quantity.search(other)


@pytest.mark.parametrize(
    "question", ["Who presides when he is ill?", "how do I know when it is done?", "why?", "", "how many", "how many are there"]
)
def test_other_questions_ask_for_no_quantity(question: str) -> None:
    assert find_quantity(question) is None


@pytest.mark.parametrize(
    ("question", "definition", "other"),
    [
        ("what is white-box monitoring?", "White-box monitoring is a way of watching.", "White-box monitoring is essential."),
        ("What is MmPPOX?", "We tested an oxadiazolone, named MmPPOX.", "MmPPOX alters growth."),
        ("what are microservices", "Microservices (small programs) are the parts.", "Many use microservices."),
        ("what does TSC stand for?", "TSC stands for Technical Steering Committee.", "The TSC meets weekly."),
        ("what is a C++ module.", "A C++ module is a unit.", "C++ modules compile."),
        ("who was Ada Nkemelu?", "Ada Nkemelu, an engineer from Lagos, was the first.", "Ada Nkemelu left in 1998."),
    ],
)
def test_a_definition_says_what_the_term_is(question: str, definition: str, other: str) -> None:
    form = find_definition(question)
    assert form is not None
    assert form.search(definition)
    assert not form.search(other)


@pytest.mark.parametrize("question", ["What is it for?", "what is this about", "how is it done?", "what is", "", "who pays for the gate?"])
def test_other_questions_ask_for_no_definition(question: str) -> None:
    assert find_definition(question) is None


def test_the_first_sentence_below_its_term_defines_it() -> None:
    text = "# Terms\n\n## Slow start\n\nMore and more packets at once. A loss ends slow start.\n\n## Loss\n\nA packet that never arrives.\n"
    segmented = segment_text(Reading("a", text))
    defines = FEATURES.index("defines")
    assert [row[defines] for row in compute_features("what is slow start?", segmented)] == [1.0, 0.0, 0.0]


def test_the_sentence_before_counts_within_a_section_only() -> None:
    text = "# Water\n\nThe leak was mended. It has stopped.\n\n# Paint\n\nGreen is best.\n"
    rows = compute_features("who mended the leak?", segment_text(Reading("a", text)))
    assert [row[FEATURES.index("before")] > 0 for row in rows] == [False, True, False]


@given(st.text(alphabet="how many ofthewasd?.,()-' 12"))
def test_any_question_has_forms_that_compile(question: str) -> None:
    for form in (find_quantity(f"how many {question}"), find_definition(f"what is {question}?")):
        assert form is None or form.search("") is None or form.pattern


def test_no_mark_is_slow_on_a_long_line() -> None:
    every = [mark for question, _ in CUES for mark in find_answer_marks(question)]
    asked = ("how many cats", "how long", "when", "how tall", "how hot", "what percentage", "how much does it cost")
    every += [form for question in asked if (form := find_quantity(question))]
    every += [form for term in ("a", "aa aa", "1") if (form := find_definition(f"what is {term}?"))]
    for text in ("," * 300_000, "a" * 300_000, "1 " * 150_000, "1" * 300_000, "1," * 150_000, "a " * 150_000, "aa(" * 100_000):
        start = time.thread_time()
        share_of_marks(text, every)
        assert time.thread_time() - start < 5


@pytest.mark.parametrize("asked", ["what is ", "what does ", "how many ", "who is the "])
@pytest.mark.parametrize(
    "rest", ["a" * 950 + ",b", "a " * 450 + ",b", "a-" * 450 + ",b", " " * 900 + ",", "a.b/" * 220 + "(", "the " * 200]
)
def test_no_question_is_slow(asked: str, rest: str) -> None:
    start = time.thread_time()
    find_quantity(asked + rest)
    find_definition(asked + rest)
    assert time.thread_time() - start < 1


def test_abstracts_go_to_one_engine_and_other_texts_to_the_other() -> None:
    abstract, guide, query = segment("Aspirin harms the liver. Mice sleep."), segment(), "does aspirin harm the liver"
    engine = ByKindOfText(Lexical(), Answering())
    assert (abstract.is_abstract(), guide.is_abstract()) == (True, False)
    assert engine.scores(query, [guide, abstract, guide]) == [
        *Answering().scores(query, [guide]),
        *Lexical().scores(query, [abstract]),
        *Answering().scores(query, [guide]),
    ]
    assert engine.name == "lexical / answering"
    assert engine.revision != ByKindOfText(Lexical(), Lexical()).revision


@pytest.mark.parametrize(
    ("query", "kept", "certain"),
    [
        ("does aspirin harm the liver", True, True),
        ("does aspirin harm the kidneys of small children", True, False),
        ("what is the capital of France", False, False),
        ("Wie wird das Wetter", False, False),
    ],
)
def test_an_abstract_on_another_subject_does_not_answer(query: str, kept: bool, certain: bool) -> None:
    """One of its sentences always is the best; the words that it shares with the question show what that is worth."""
    text = "We examined whether drugs change the course of the disease. In all trials, high doses of aspirin harm the liver."
    engine = ByKindOfText(Fixed([0.2, 0.9]), Fixed([0.9]))
    settings = SelectionSettings(max_units=3, max_units_first=3)
    result = Distiller(engine, selection=settings).distil(query, [Reading("a", text, "A trial")])
    assert (bool(result.units), any(unit.why == "relevant" for unit in result.units)) == (kept, certain)
    assert result.unanswered == (() if kept else ("a",))
    assert Distiller(engine).distil(query, [Reading("a", text, "A trial")]).units  # by a threshold, which the scores are fitted to


def test_a_sentence_with_most_words_of_the_question_answers_for_certain() -> None:
    engine, settings = ByKindOfText(Fixed([0.2]), Fixed([0.9])), SelectionSettings(max_units=3, max_units_first=3)
    for text, why in (("Aspirin harms the liver at high doses.", "relevant"), ("Aspirin is well known for the liver.", "best")):
        (unit,) = Distiller(engine, selection=settings).distil("does aspirin harm the liver of adults", [Reading("a", text)]).units
        assert unit.why == why


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Wie viel wog eine Votivkerze?", "Eine Votivkerze wog meist 250 Gramm. Der Preis stieg nach der Pest um das Dreifache."),
        ("Where in town do friars buy wax candles?", "Friars buy wax here. Nobody knows why."),
    ],
)
def test_a_short_abstract_that_has_most_words_of_the_question_in_one_sentence_may_answer(query: str, text: str) -> None:
    settings = SelectionSettings(max_units=3, max_units_first=3)
    result = Distiller(make_engine("words"), selection=settings).distil(query, [Reading("a", text)])
    assert result.units[0].start == 0
    assert result.unanswered == ()


@given(st.text(max_size=60), st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_the_scores_of_an_abstract_keep_their_proportion(query: str, scores: list[float]) -> None:
    abstract = segment("Aspirin harms the liver. Mice sleep.")
    (judged,) = ByKindOfText(Lexical(), Answering()).judge_texts(query, [abstract], [scores])
    assert judged[0] * scores[1] == pytest.approx(judged[1] * scores[0])
    assert max(judged) <= max(THRESHOLD, *scores)


@given(st.integers(0, 50), st.lists(st.floats(0, 1), max_size=4))
def test_the_place_of_a_hit_decides_what_is_certain_and_not_what_is_kept(rank: int, scores: list[float]) -> None:
    """A better place never lowers the scores; their order and proportion stay, as does whether anything is kept."""
    shifted, behind = shift_by_rank(rank, scores), shift_by_rank(max(rank, 1) + 1, scores)
    assert all(one >= other for one, other in zip(shifted, behind, strict=True))
    assert (max(shifted, default=0) >= NOISE) is (max(scores, default=0) >= NOISE)
    assert all(one * scores[0] == pytest.approx(shifted[0] * score) for one, score in zip(shifted, scores, strict=True))


def test_the_first_hit_is_doubted_less_than_the_fifth() -> None:
    engine, settings = ByKindOfText(Lexical(), Fixed([0.3])), SelectionSettings(max_units=3, max_units_first=3)
    readings = [Reading(str(rank), f"- It retries {rank} calls.", rank=rank) for rank in (1, 5)]
    assert [unit.why for unit in Distiller(engine, selection=settings).distil("retry", readings).units] == ["relevant", "best"]


@pytest.mark.parametrize(
    ("question", "units", "scores", "certain"),
    [
        ("how many members does it have?", ["The members are listed.", "Two of 14 members left."], [0.9, 0.3], True),
        ("how many members does it have?", ["The members are listed.", "It has rules."], [0.9, 0.3], False),
        ("how many members does it have?", ["The members are listed.", "Two of 14 members left."], [0.9, 0.1], False),
        ("how long does it take?", ["It takes a while.", "It is slow."], [0.9, 0.3], False),
        ("when was it founded?", ["It was founded by Ann.", "It is old."], [0.9, 0.3], False),
        ("when is a file skipped?", ["A file is skipped if it is empty.", "It is old."], [0.9, 0.3], True),
        ("who pays for it?", ["The members are listed.", "It has rules."], [0.9, 0.3], True),
    ],
)
def test_nothing_is_certain_without_the_quantity_that_is_asked_for(
    question: str, units: list[str], scores: list[float], certain: bool
) -> None:
    text = "# Club\n\n" + "\n\n".join(units) + "\n\n# More\n\nEnd.\n"
    given = [*scores, 0.0]
    (judged,) = ByKindOfText(Lexical(), Answering()).judge_texts(question, [segment_text(Reading("a", text))], [given])
    assert (max(judged) >= THRESHOLD) is certain
    assert [round(one / judged[0], 6) for one in judged] == [round(one / given[0], 6) for one in given]


def test_code_below_here_is_how_answers_as_much_as_the_sentence() -> None:
    text = "The tool signs data. Here is how you sign a token.\n\n```\nx = make(key)\n```\n\nIt is fast."
    cut = segment_text(Reading("a", text))
    asked_how, asked_what = (Answering().scores(query, [cut])[0] for query in ("how do I sign a token?", "who may sign a token?"))
    assert cut.text(2) == "x = make(key)"
    assert asked_how[2] == asked_how[1] > 0
    assert asked_what[2] < asked_what[1]
