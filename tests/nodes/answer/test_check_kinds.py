"""Cases of other kinds: software, German, French, Chinese, medicine, law, energy.

They were written after the rules and run once before anything was mended: of the first 51 the checks decided 46 as expected, and of the
second 24, after that, all. `LIMITS` are what the checks get wrong, so that a change shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from outrider.nodes.answer.check import SourceUnit, check_answer

Texts = Mapping[str, tuple[str, str, str]]
"""Key, title and text of each unit."""
Cases = Sequence[tuple[str, str, str | None]]
"""A sentence, the unit that it cites, and the reason to remove it."""
FIRST_TEXTS: Texts = {
    "u1": (
        "[1]",
        "jd/tenacity",
        (
            "Tenacity is an Apache 2.0 licensed general-purpose retrying library, written in Python, to simplify the "
            "task of adding retry behavior to just about anything."
        ),
    ),
    "u2": (
        "[1]",
        "jd/tenacity",
        (
            "By default, the decorator retries forever without waiting between attempts; use stop_after_attempt(7) to "
            "stop after 7 attempts, or stop_after_delay(10) to stop after 10 seconds."
        ),
    ),
    "u3": (
        "[2]",
        "psf/requests",
        (
            "Requests 2.32.3 officially supports Python 3.8+, and does not support Python 2.7 any longer. It is "
            "downloaded around 30M times a week."
        ),
    ),
    "u4": (
        "[3]",
        "encode/httpx",
        (
            "HTTPX is a fully featured HTTP client for Python 3, which provides sync and async APIs. HTTP/2 support is"
            " not enabled by default: install httpx[http2]."
        ),
    ),
    "u5": (
        "[4]",
        "Metformin and cancer in adults with type 2 diabetes",
        (
            "Neither metformin nor placebo lowered cancer incidence over a median of 3.7 years (hazard ratio 1.02, 95%"
            " CI 0.91 to 1.14; n = 10,251)."
        ),
    ),
    "u6": (
        "[4]",
        "Metformin and cancer in adults with type 2 diabetes",
        (
            "HbA1c fell from 8.1% to 7.4%, and weight decreased by two to three kilograms; only one in twenty patients"
            " stopped because of nausea."
        ),
    ),
    "u7": (
        "[5]",
        "Schlaf und Gedächtnis",
        ("Die Studie fand keinen Einfluss von Schlaf auf das Gedächtnis bei 48 Kindern, aber die Reaktionszeit sank um 12,5 ms."),
    ),
    "u8": ("[6]", "睡眠研究", "睡眠不足没有影响记忆，但反应时间增加了15%。"),
    "u9": (
        "[7]",
        "Soil carbon",
        (
            "The authors call biochar “a promising, yet unproven, sink”, since fewer than half of the trials lasted "
            "longer than 10 years and yields ranged from -4 to +12 per cent."
        ),
    ),
}
FIRST: Cases = (
    ("Tenacity is a retrying library for Python under Apache 2.0.", "u1", None),
    ("Tenacity simplifies adding retries and is Apache licensed.", "u1", None),
    ("Tenacity is licensed under Apache 2.1.", "u1", "number"),
    ("By default tenacity retries forever and doesn't wait between attempts.", "u2", None),
    ("By default it waits between attempts.", "u2", "negation"),
    ("stop_after_attempt(7) stops after seven attempts.", "u2", None),
    ("stop_after_delay(10) stops after 10 minutes.", "u2", "number"),
    ("stop_after_attempt(10) stops after 10 attempts and stop_after_delay(8) after 8 seconds.", "u2", "number"),
    ("Use `stop_after_attempt(7)` to limit the attempts.", "u2", None),
    ("Requests 2.32.3 supports Python 3.8 and later.", "u3", None),
    ("Requests 2.31.0 supports Python 3.8 and later.", "u3", "number"),
    ("Requests supports Python 2.7.", "u3", "negation"),
    ("Requests no longer supports Python 2.7.", "u3", None),
    ("Requests is downloaded about 30 million times a week.", "u3", None),
    ("Requests is downloaded about 300M times a week.", "u3", "number"),
    ("HTTPX has sync and async APIs.", "u4", None),
    ("HTTPX enables HTTP/2 by default.", "u4", "negation"),
    ("HTTPX has no async API.", "u4", "negation"),
    ("Requests provides sync and async APIs.", "u4", "other_work"),
    ("HTTPX supports HTTP/3.", "u4", "negation"),
    ("Metformin did not lower cancer incidence (HR 1.02, 0.91-1.14).", "u5", None),
    ("Metformin lowered cancer incidence.", "u5", "negation"),
    ("In 10251 patients, cancer incidence was not lowered by metformin.", "u5", None),
    ("In 10,521 patients cancer incidence was not lowered.", "u5", "number"),
    ("The hazard ratio was 1.2.", "u5", "number"),
    ("HbA1c dropped from 8.1 % to 7.4 %.", "u6", None),
    ("Weight fell by 2-3 kg.", "u6", None),
    ("Weight fell by 2-3 g.", "u6", "number"),
    ("One in 20 patients stopped because of nausea.", "u6", None),
    ("One in ten patients stopped because of nausea.", "u6", "number"),
    ("Schlaf hatte bei 48 Kindern keinen Einfluss auf das Gedächtnis.", "u7", None),
    ("Schlaf hatte Einfluss auf das Gedächtnis.", "u7", "negation"),
    ("Die Reaktionszeit sank um 12.5 ms.", "u7", None),
    ("Die Reaktionszeit sank um 125 ms.", "u7", "number"),
    ("Sleep had no influence on memory in 48 children.", "u7", None),
    ("睡眠不足没有影响记忆。", "u8", None),
    ("反应时间增加了51%。", "u8", "number"),
    ("Biochar is called “a promising, yet unproven, sink”.", "u9", None),
    ("Biochar is called 'a promising, yet unproven sink'.", "u9", "quote"),
    ('Biochar is called "a promising sink".', "u9", "quote"),
    ("Biochar is a proven sink.", "u9", "negation"),
    ("Fewer than half of the trials lasted more than ten years.", "u9", None),
    ("Yields ranged from −4 % to 12 %.", "u9", None),
    ("Yields ranged from 4% to 12%.", "u9", "number"),
    ("Trials lasted at most 10 years.", "u9", "number"),
    ("[7] reports yields of -4 to +12 per cent.", "u9", None),
    ("[6] reports yields of -4 to +12 per cent.", "u9", "other_work"),
)
SECOND_TEXTS: Texts = {
    "u1": (
        "[1]",
        "Vaccine trial in older adults",
        (
            "Vaccine efficacy was 86·4% (95% CI 79·9–90·8) against confirmed infection in 15,203 participants aged 65 "
            "years or older; no vaccine-related deaths were recorded."
        ),
    ),
    "u2": (
        "[1]",
        "Vaccine trial in older adults",
        "Fever occurred in 4 of 100 recipients and never lasted more than three days, although local pain wasn't rare.",
    ),
    "u3": (
        "[2]",
        "pallets/click",
        (
            "Click parses arguments lazily and cannot handle unicode surrogates; pass `max_content_width=120` to widen"
            " help pages beyond 80 characters."
        ),
    ),
    "u4": (
        "[3]",
        "Energy of data centres",
        ("Data centres used 460 TWh in 2022, i.e. nearly 2% of global demand, and could use more than 1,000 TWh in 2026."),
    ),
    "u5": (
        "[4]",
        "Voting in two chambers",
        "“No taxation without representation” was repeated by 9 of the 13 colonies; the other four remained silent.",
    ),
    "u6": ("[5]", "Rust error handling", "The `?` operator returns early if a Result<T, E> is an Err; it does not panic, unlike unwrap()."),
    "u7": ("[6]", "Sommeil", "Le traitement n'a pas réduit la durée du sommeil (7,5 h contre 7,4 h)."),
}
SECOND: Cases = (
    ("Efficacy was 86.4 percent.", "u1", None),
    ("Efficacy was 84.6%.", "u1", "number"),
    ("The vaccine protected 15 203 people aged at least 65 years.", "u1", None),
    ("No vaccine-related deaths were seen.", "u1", None),
    ("There were vaccine-related deaths.", "u1", "negation"),
    ("Fever occurred in 4% of recipients.", "u2", "number"),
    ("Fever lasted more than three days.", "u2", "negation"),
    ("Local pain was rare.", "u2", "negation"),
    ("Local pain was not rare.", "u2", None),
    ("Click can't handle surrogates.", "u3", None),
    ("Click handles unicode surrogates.", "u3", "negation"),
    ("Set `max_content_width=120` to widen help pages.", "u3", None),
    ("Set `max_content_width=140` to widen help pages.", "u3", "number"),
    ("Data centres consumed 460 TWh in 2022, close to 2 % of demand.", "u4", None),
    ("Data centres consumed 460 TWh in 2023.", "u4", "number"),
    ("They could use over 1000 TWh in 2026.", "u4", None),
    ("They could use less than 1,000 TWh in 2026.", "u4", "number"),
    ('Nine of thirteen colonies repeated "No taxation without representation".', "u5", None),
    ('Nine of thirteen colonies repeated "No taxation with representation".', "u5", "quote"),
    ("Four colonies did not repeat it.", "u5", None),
    ("The ? operator returns early on an Err of Result<T, E> and doesn't panic.", "u6", None),
    ("The ? operator panics on Err.", "u6", "negation"),
    ("Le traitement n'a pas réduit le sommeil (7,5 h).", "u7", None),
    ("Le traitement a réduit la durée du sommeil.", "u7", "negation"),
    ("The treatment did not shorten sleep (7.5 h vs 7.4 h).", "u7", None),
    ("Sleep took 7.5 hours, click here: http://x.y/z", "u7", "markup"),
)
LIMITS: Cases = (
    ("In HTTPX, HTTP/2 has to be enabled by installing httpx[http2].", "u4", "negation"),
    ("HbA1c dropped from 7.4% to 8.1%.", "u6", None),
    ("睡眠不足影响记忆。", "u8", None),
    ("More than half of the trials lasted longer than 10 years.", "u9", None),
)
"""Of `FIRST_TEXTS`: a right sentence that is removed, and wrong ones that pass: figures swapped, `half`, a negation in Chinese."""
LIMITS_OF_SECOND: Cases = (
    ("Fever lasted at most 3 days.", "u2", "number"),
    ("unwrap() doesn't panic.", "u6", None),
)
"""A right one that is removed (`never more than`), and a wrong one that passes."""


def check(texts: Texts, text: str, unit: str) -> str | None:
    units = [SourceUnit(name, key, key, 0, len(own), own, title) for name, (key, title, own) in texts.items()]
    return next(iter(check_answer([(text, [unit])], units, 5).removed), None)


@pytest.mark.parametrize(("text", "unit", "reason"), [*FIRST, *LIMITS])
def test_cases_of_the_first_set(text: str, unit: str, reason: str | None) -> None:
    assert check(FIRST_TEXTS, text, unit) == reason


@pytest.mark.parametrize(("text", "unit", "reason"), [*SECOND, *LIMITS_OF_SECOND])
def test_cases_of_the_second_set(text: str, unit: str, reason: str | None) -> None:
    assert check(SECOND_TEXTS, text, unit) == reason
