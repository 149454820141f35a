"""`outrider learning`: what was learned from use of a library, and how to forget it."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_services
from outrider.interfaces.cli.terminal import console, note, plain, print_json, table

learning_app = typer.Typer(help="See and forget what was learned from use of your library.", no_args_is_help=True)


@learning_app.command()
def status(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show what was learned, and whether leave-one-out over your own searches proves that it helps."""
    from outrider.usecases.learning import show_learning

    shown = call_services(show_learning, library)
    if as_json:
        print_json(shown)
        return
    listing = table("feature", "weight")
    for one in shown.weights:
        listing.add_row(plain(one.feature), f"{one.weight:+.2f}")
    if shown.weights:
        console().print(listing)
    note(f"{_count(shown.searches, 'search')} with feedback; {'it orders the hits' if shown.used else 'not used'}: {shown.why}")


@learning_app.command()
def reset(
    history: Annotated[bool, typer.Option("--history", help="Forget past queries instead of feedback.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget what was kept, opened and dropped in searches of a library; or, with --history, past queries."""
    from outrider.usecases.learning import clear_history, reset_learning

    number = call_services(clear_history if history else reset_learning, library)
    feedback = f"feedback on {_count(number, 'search')}"
    if as_json:
        print_json({"forgotten": number, "what": "queries" if history else "searches"})
    else:
        note(f"Forgotten: {_count(number, 'past quer', 'y', 'ies') if history else feedback}")


def _count(number: int, noun: str, one: str = "", more: str = "es") -> str:
    return f"{number:,} {noun}{one if number == 1 else more}"
