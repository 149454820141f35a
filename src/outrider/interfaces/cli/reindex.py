"""`outrider library reindex`."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, wait_for
from outrider.interfaces.cli.terminal import Progress, console, going_on, note, plain

if TYPE_CHECKING:
    from outrider.library.reindex import Reindexed


def reindex(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="Embed with this model: a hub name or a folder. Default: that of the settings."),
    ] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Embed every record that has no vector yet, or all of them with another model.

    The library can be searched and written meanwhile; the old vectors answer until the new ones are complete. What was
    interrupted goes on where it stopped when it is run again.
    """
    from outrider.settings.load import load

    loaded = load({"library.uri": library})
    configured, where = loaded.settings.embedding.model_name, loaded.origins["embedding.model_name"]
    with going_on():
        done = wait_for(_reindex(library, model, quiet=as_json))
    if as_json:
        sys.stdout.write(json.dumps(dataclasses.asdict(done), ensure_ascii=False) + "\n")
    else:
        _show(done)
    if model is not None and configured not in ("auto", model):
        note(f"The settings still name {configured} ({where}); make embedding.model_name {model} or auto there.")


async def _reindex(library: str | None, model: str | None, *, quiet: bool) -> Reindexed:
    from outrider.usecases.reindex import areindex

    with Progress("loading the model", quiet=quiet) as bar:
        return await areindex(library, model, lambda now: bar.show(now.stage, now.done, now.total))


def _show(done: Reindexed) -> None:
    vectors = f"{done.records - done.without:,} of {done.records:,} records have a vector of {done.model}"
    how = "every vector is compared" if done.recall is None else f"index {done.index}, recall {done.recall:.3f}"
    console().print(plain(f"{vectors}; {done.embedded:,} were embedded now, {done.cut:,} of them in part; {how}.", "bold"))
    if done.before is not None:
        console().print(plain(f"The vectors of {done.before} were replaced."))
    for name, vectors_of in done.dropped.items():
        note(f"{vectors_of:,} vectors of {name}, of a reindex that was interrupted, were dropped.")
    for reason in done.reasons:
        note(f"Without vector: {reason}")
    if done.without > len(done.reasons):
        note(f"and {done.without - len(done.reasons):,} more")
