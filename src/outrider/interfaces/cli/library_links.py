"""`outrider library links`: the code of papers, the papers of repositories, and why."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.interfaces.cli.options import JsonOption, LibraryOption, call_services
from outrider.interfaces.cli.terminal import Progress, console, count, note, one_line, plain, print_json
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outrider.services import Services
    from outrider.state.code_links import LinkEvidence
    from outrider.usecases.code_links import WorkLinks

STYLES = {"alive": "green", "quiet": "yellow", "dead": "red", "unknown": "dim"}


def links(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of records, DOIs, arXiv numbers, owner/name, or addresses of repositories."),
    ] = None,
    read: Annotated[
        bool, typer.Option("--read", help="Queue a background job that reads the works' repositories at GitHub for more evidence.")
    ] = False,
    import_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Store the links of a JSON file in the form of Papers with Code.")
    ] = None,
    scan: Annotated[bool, typer.Option("--scan", help="Read all records again for links, as after an update of Outrider.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the repositories of a paper, or the papers of a repository, with the evidence and whether the code is alive."""
    from outrider.usecases import code_links

    if sum(map(bool, (targets, import_file, scan))) != 1 or (read and not targets):
        raise BadRequest("name works, or give --from FILE or --scan; --read goes with works")
    if not targets:
        doing = "storing links" if import_file else "reading records"
        with Progress(f"reading {one_line(import_file.name)}" if import_file else doing, quiet=as_json) as bar:
            show = partial(bar.show, doing)
            report = call_services(
                lambda opened: code_links.import_links(opened, import_file, show) if import_file else code_links.scan_links(opened, show),
                library,
            )
        if as_json:
            print_json(report)
            return
        what = "row" if import_file else "record"
        console().print(plain(f"{count(report.rows, what)} read, {count(report.evidence, 'link')} stored."))
        for problem in report.problems:
            note(problem)
        if report.left_out:
            note(f"{count(report.left_out, 'row')} left out")
        return
    if read:
        number = call_services(lambda opened: code_links.queue_code_links(opened, targets), library)
        if as_json:
            print_json({"job": number})
        else:
            console().print(plain(f"Job {number} is queued; to run it: outrider jobs run"))
        return

    async def read_all(services: Services) -> list[WorkLinks]:
        return [await code_links.get_code_links(services, target) for target in targets]

    found = call_services(read_all, library)
    if as_json:
        print_json([one.model_dump(mode="json") for one in found] if len(found) > 1 else found[0])
        return
    for one in found:
        _show(one)


def _show(work: WorkLinks) -> None:
    out = console()
    out.print(plain(one_line(work.title) or work.doc_id, "bold"), plain(f"({work.doc_id})", "dim"), soft_wrap=True)
    if work.liveness:
        out.print(plain(f"{work.liveness}: {work.why}", STYLES[work.liveness], indent=2), soft_wrap=True)
    for code in work.code:
        agree = ", both name each other" if code.agree else ""
        out.print(plain(f"{code.kind}: {code.name} ({code.confidence:.2f}{agree})", indent=2), soft_wrap=True)
        out.print(plain(f"{code.liveness}: {code.why}", STYLES[code.liveness], indent=4), soft_wrap=True)
        _show_evidence(code.evidence)
    for paper in work.papers:
        agree = ", both name each other" if paper.agree else ""
        title = f" {one_line(paper.title)}" if paper.title else ""
        out.print(plain(f"{paper.kind}: {paper.name}{title} ({paper.confidence:.2f}{agree})", indent=2), soft_wrap=True)
        _show_evidence(paper.evidence)
    for link in (*work.pages, *work.mentions):
        out.print(plain(f"{link.kind}: {link.work} - {link.target}", "dim", indent=2), soft_wrap=True)
    if not (work.code or work.papers or work.pages or work.mentions):
        out.print(plain("No link is known; --read asks GitHub for the files of its repositories.", "dim", indent=2))


def _show_evidence(evidence: Iterable[LinkEvidence]) -> None:
    for one in evidence:
        place = ", ".join(filter(None, (one.place, one.field, f"line {one.line}" if one.line else "")))
        console().print(plain(f'{place}: "{one_line(one.words)}"', "dim", indent=4), soft_wrap=True)
