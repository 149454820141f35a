"""`outrider.distill` and calibration over real libraries, and the substitute for a missing engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.distiller.calibration import LabelledText
from outrider.distiller.token_counter import estimate_tokens
from outrider.library.library import Library
from outrider.models.embed.embedder import Embedder
from outrider.services import Services
from outrider.services.distiller import prepare_distillers
from outrider.settings.model import DistillerSettings, LibrarySettings, Settings
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, LibraryMissing, ModelUnavailable
from outrider.state.records import Paper
from outrider.usecases.distill import calibrate_distiller, find_engine_calibrations
from support.distiller_fakes import ODD
from support.extras import needs
from support.fakes import NOON
from support.small_library import RECORDS
from support.tiny_embedder import make_tiny_embedder
from support.word_embedder import WordEmbedder

WORDS = re.compile(r"\w\W*\w\W*\w")
"""What a unit has at least."""
PROSE = (
    "The weather in the north was fine on that day, and we were there for a while with all of them. Aspirin harms the liver of adults "
    "at high doses, as the study found. It was not seen in mice, and it was in the barn for most of the time. The sea was as blue as ever. "
    "They had to go back to the house before it was dark, and so did the others who were with us at the time."
)


def services(folder: Path, **distiller: Any) -> Services:
    settings = Settings(library=LibrarySettings(uri=str(folder)), distiller=DistillerSettings(**distiller))
    return Services(settings, clock=lambda: NOON)


def distil(texts: Any, tmp_path: Path, query: str = "does aspirin harm the liver", distiller: Any = None, **options: Any) -> Any:
    return outrider.distill(query, texts, services=services(tmp_path / "none", **(distiller or {})), **options)


def test_the_answer_is_kept_with_its_position_and_keep_rate(tmp_path: Path) -> None:
    context = distil([PROSE], tmp_path, bypass=False)
    assert "Aspirin harms the liver of adults at high doses" in context.text
    assert all(unit.text == PROSE[unit.start : unit.end] and unit.doc_id == "1" for unit in context.units)
    assert (context.engine, context.calibrated, context.verbatim) == ("lexical + rhetoric / answering", True, True)
    assert 0 < context.removed < 1
    assert context.keep_rate == 0.95 or context.no_promise
    assert "SciFact" in context.fitted_on


def test_texts_are_strings_mappings_records_and_hits(tmp_path: Path) -> None:
    many = [
        PROSE,
        {"text": PROSE.replace("Aspirin", "Ibuprofen"), "id": "b", "title": "T"},
        Paper(doc_id="c", title="P", abstract="Liver."),
    ]
    context = distil(many, tmp_path, bypass=False)
    assert {unit.doc_id for unit in context.units} <= {"1", "b", "c"}
    assert distil(PROSE, tmp_path) == distil([PROSE], tmp_path)


@pytest.mark.parametrize("texts", [[1], [{"body": "x"}], 7, [{"text": "a", "id": "x"}, {"text": "b", "id": "x"}]])
def test_input_that_is_no_text_is_an_error(texts: Any, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="text"):
        distil(texts, tmp_path)


@pytest.mark.parametrize("options", [{"query": " "}, {"max_tokens": -1}, {"max_tokens": True}, {"engine": "deberta"}])
def test_other_bad_input_is_an_error(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        distil([PROSE], tmp_path, **options)


def test_short_texts_pass_unchanged_unless_forced(tmp_path: Path) -> None:
    short = "  Aspirin harms the liver.\nThe weather was fine. "
    context = distil([short], tmp_path)
    assert [(unit.text, unit.why) for unit in context.units] == [(short.strip(), "passed")]
    assert "short" in context.bypassed
    assert (context.removed, context.engine) == (0.0, "")
    assert distil([short], tmp_path, bypass=False).bypassed == ""
    assert distil([short], tmp_path, max_tokens=10).bypassed == ""
    assert distil([short], tmp_path, distiller={"bypass": False}).bypassed == ""


def test_texts_whose_distillation_costs_more_than_it_saves_pass_unchanged(tmp_path: Path) -> None:
    cheap = {"engine": "classifier", "model_name": "/no/such/folder", "token_ms": 0.001}
    context = distil([PROSE], tmp_path, distiller=cheap)
    assert "worth" in context.bypassed
    assert context.units[0].text == PROSE


def test_a_failing_engine_of_the_settings_is_replaced_and_reported(tmp_path: Path) -> None:
    settings = {"engine": "classifier+", "model_name": "/no/such/folder", "token_ms": 0.0}
    context = distil([PROSE], tmp_path, distiller=settings, bypass=False)
    assert context.engine == "lexical + rhetoric / answering"
    assert [note.partition(":")[0] for note in context.notes] == ["classifier+", "ensemble"]


def test_a_failing_engine_of_the_call_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no model at /no/such/folder"):
        distil([PROSE], tmp_path, engine="classifier", model="/no/such/folder", bypass=False)


def test_without_the_compression_model_everything_stays_verbatim(tmp_path: Path) -> None:
    context = distil([PROSE], tmp_path, distiller={"compress": True, "llmlingua_model": "/no/such/folder"}, bypass=False)
    assert context.verbatim
    assert context.units
    assert "no model at" in context.notes[0]


@pytest.mark.parametrize("most", [0, 30, 60, 10_000])
def test_the_budget_includes_the_frame(most: int, tmp_path: Path) -> None:
    context = distil([PROSE, PROSE.replace("Aspirin", "Ibuprofen")], tmp_path, max_tokens=most)
    assert estimate_tokens(context.text) == context.tokens <= most


@pytest.mark.parametrize("text", [text for text in ODD if len(text) < 20_000], ids=str.__len__)
def test_odd_texts_go_through_the_public_function(text: str, tmp_path: Path) -> None:
    context = distil([text], tmp_path, query="word نص 😀", distiller={"threshold": 0.0, "max_context_tokens": 1_000_000}, bypass=False)
    assert all(unit.text == text[unit.start : unit.end] for unit in context.units)
    assert bool(context.units) == bool(WORDS.search(text))
    if "\ud800" not in text:  # half a character, which JSON cannot express
        assert context.model_validate_json(context.model_dump_json()) == context


def test_a_million_characters_on_one_line_are_distilled(tmp_path: Path) -> None:
    text = "word " * 200_000
    context = distil([text], tmp_path, query="word")
    assert all(unit.text == text[unit.start : unit.end] for unit in context.units)


async def test_a_calibration_is_stored_shown_and_used(tmp_path: Path) -> None:
    fitted_services = services(tmp_path)
    (await fitted_services.new_library()).close()
    assert [one.where for one in await find_engine_calibrations(fitted_services)] == ["shipped with the engine"]
    fitted = await calibrate_distiller(fitted_services, [LABELLED] * 30, "mine", keep_rate=0.9)
    assert (fitted.engine, fitted.keep_rate, fitted.pairs) == ("lexical + rhetoric / answering", 0.9, 30)
    assert [(one.where, one.calibration) for one in await find_engine_calibrations(fitted_services)] == [("the library", fitted)]
    context = await outrider.adistill("does aspirin harm the liver", [PROSE], services=fitted_services, bypass=False, max_units=0)
    assert (context.fitted_on, context.keep_rate, context.threshold) == ("mine", 0.9, fitted.threshold)
    await calibrate_distiller(fitted_services, [LABELLED] * 40, "mine again")
    assert [one.calibration.pairs for one in await find_engine_calibrations(fitted_services) if one.calibration] == [40]
    fitted_services.close()


async def test_a_calibration_needs_a_library(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing):
        await calibrate_distiller(services(tmp_path / "none"), [LABELLED] * 30, "mine")


@pytest.mark.blocking
async def test_the_embedding_engine_uses_the_model_of_the_services(tmp_path: Path) -> None:
    fitted_services = Services(Settings.model_validate({"embedding": {"model_name": "words"}}), embedder=WordEmbedder())  # type: ignore[arg-type]
    (one,) = await prepare_distillers(fitted_services, engine="ensemble", bypass=False)
    assert one.distil("liver", [Reading("a", PROSE)]).engine == "lexical + rhetoric + embedding words / answering words"


@needs("sentence_transformers")
@pytest.mark.blocking
async def test_auto_reads_sections_with_the_model_of_the_library_if_numpy_runs_it(tmp_path: Path) -> None:
    """A tiny BERT with random weights."""
    folder = make_tiny_embedder(tmp_path / "tiny", 16)
    library = await Library.open(tmp_path / "library", create=True)
    await library.upsert(RECORDS)
    (words,) = await prepare_distillers(services(tmp_path / "library"), bypass=False)
    await library.reindex(Embedder(str(folder), device="cpu"))
    library.close()
    with_model, without = await prepare_distillers(services(tmp_path / "library"), bypass=False)
    assert [words.engine, with_model.engine, without.engine] == ["words", "words+", "words"]
    readme = "# Aspirin\n\nAspirin harms the liver of adults at high doses.\n\n## Mice\n\nIt was not seen in mice.\n"
    result = with_model.distil("does aspirin harm the liver", [Reading("a", readme)])
    assert result.engine == "lexical + rhetoric / answering tiny"
    settings = services(tmp_path / "library").settings
    for other in (WordEmbedder(), Gone()):
        (one,) = await prepare_distillers(Services(settings, clock=lambda: NOON, embedder=other), bypass=False)  # type: ignore[arg-type]
        assert one.engine == "words"


class Gone(WordEmbedder):
    @property
    def without_torch(self) -> bool:
        raise ModelUnavailable("its folder is gone")


LABELLED = LabelledText("does aspirin harm the liver", Reading("a", PROSE), ((PROSE.index("Aspirin"), PROSE.index("Aspirin") + 65),))
