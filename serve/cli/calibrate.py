"""`outrider library calibrate-distiller`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.serve.cli.options import JsonOption, LibraryOption, services, wait_for
from outrider.serve.cli.progress import Progress
from outrider.serve.cli.terminal import console, note, plain, table
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.retrieval.distil.calibration import Calibration
    from outrider.retrieval.distil.labelled import Labelled
    from outrider.services import Services

FORM = '{"query": "...", "text": "...", "answers": ["a sentence", [start, end], ...]}'


def calibrate_distiller(
    judgements: Annotated[Path | None, typer.Option("--judgements", metavar="FILE", help=f"Your labelled texts, as JSONL: {FORM}.")] = None,
    engine: Annotated[str | None, typer.Option("--engine", "-e", metavar="NAME", help="Whose threshold. Default: the settings'.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Folder or hub name of that engine's model.")] = None,
    keep_rate: Annotated[float, typer.Option("--keep-rate", help="Share of texts in which all that answers is to be kept.")] = 0.95,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the distiller's threshold, so that what answers is kept as often as promised; without a file, show what is in use.

    By split conformal prediction: it holds for texts and questions like those that it was fitted on. It is kept in the library and used
    from then on.
    """
    made = services(library)
    if judgements is None:
        _show_used(wait_for(_used(made, engine or "")), as_json=as_json)
        return
    labelled = read_labelled(judgements)
    found = wait_for(_fitted(made, labelled, judgements.name, engine or "", model or "", keep_rate, quiet=as_json))
    if as_json:
        sys.stdout.write(json.dumps(dataclasses.asdict(found), ensure_ascii=False) + "\n")
    else:
        _show(found)


def read_labelled(file: Path) -> list[Labelled]:
    """`BadRequest` where the file cannot be read or understood."""
    from outrider.retrieval.distil.labelled import labelled_lines

    try:
        text = file.expanduser().read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadRequest(f"{file}: {error.strerror or error}; --judgements takes a file of lines like {FORM}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{file} is no text in UTF-8; --judgements takes a file of lines like {FORM}") from error
    try:
        return labelled_lines(text.splitlines())
    except BadRequest as error:
        raise BadRequest(f"{file}: {error}") from error


async def _fitted(
    made: Services, labelled: list[Labelled], name: str, engine: str, model: str, keep_rate: float, *, quiet: bool
) -> Calibration:
    from outrider.services.distilling import calibrated

    with Progress("loading", quiet=quiet) as bar:

        def draw(done: int, of: int) -> None:
            bar.show("scoring", done, of)

        return await calibrated(made, labelled, name, engine=engine, model=model, keep_rate=keep_rate, progress=draw)


async def _used(made: Services, engine: str) -> list[dict[str, Any]]:
    from outrider.services.distilling import calibrations_in_use

    found = await calibrations_in_use(made, engine)
    return [
        {"engine": one.engine, "from": one.where, "calibration": dataclasses.asdict(one.calibration) if one.calibration else None}
        for one in found
    ]


def _show_used(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False) + "\n")
        return
    listing = table("engine", "kept whole", "left out", "threshold", "texts", "fitted on", "from")
    for row in rows:
        said = row["calibration"]
        figures = ("no promise", "", "0.4", "", "") if said is None else _figures(said)
        listing.add_row(*(plain(cell) for cell in (row["engine"], *figures, row["from"])))
    console().print(listing)
    note("Fit it on your own texts with --judgements FILE.")


def _figures(said: dict[str, Any]) -> tuple[str, ...]:
    return f"{said['keep_rate']:.0%}", f"{said['removed']:.0%}", f"{said['threshold']:.3f}", f"{said['pairs']:,}", said["fitted_on"]


def _show(found: Calibration) -> None:
    what = f"{found.engine}: threshold {found.threshold:.3f}, fitted on {found.pairs:,} texts of {found.fitted_on}"
    console().print(plain(what, "bold"))
    console().print(plain(f"All that answers is kept in {found.keep_rate:.0%} of such texts; {found.removed:.0%} of them was left out."))
    if not found.threshold:
        note("With so few texts nothing can be left out at that rate: label more, or promise less with --keep-rate.")
