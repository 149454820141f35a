"""`outrider library check --retractions`: the library's records, looked up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from outrider.interfaces.cli.options import wait_for
from outrider.interfaces.cli.terminal import INTERRUPTION_REPORTED, Progress, console, count, note, one_line, plain, print_json
from outrider.state.notices import is_alarming

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.usecases.check_notices import NoticeReport

INCOMPLETE = 3


def check_retractions(services: Services, *, as_json: bool) -> int:
    """Run the check with a progress bar, and print what changed, also after an interruption."""
    from outrider.usecases.check_notices import NoticeCheck

    with Progress("looking the records up", quiet=as_json) as bar:
        check = NoticeCheck(services, lambda done, total: bar.show("looking the records up", done, total))
        try:
            wait_for(check.run())
        except KeyboardInterrupt:
            interrupted = True
        else:
            interrupted = False
        finally:
            services.close()
    if as_json:
        print_json(check.report)
    else:
        _show(check.report)
    if interrupted:
        note(f"Interrupted after {check.done:,} of {count(check.records, 'record')}. The changes above are saved.")
        raise typer.Exit(INTERRUPTION_REPORTED)
    return 0 if check.report.complete else INCOMPLETE


def _show(report: NoticeReport) -> None:
    out = console()
    for change in report.changes:
        out.print(plain(one_line(change.title) or change.doc_id, "bold"), plain(f"({change.doc_id})", "dim"), soft_wrap=True)
        for notice in change.added:
            out.print(plain(f"new: {notice.describe()}", "bold red" if is_alarming(notice) else "yellow", indent=2), soft_wrap=True)
        for notice in change.gone:
            out.print(plain(f"no longer reported: {notice.describe()}", "green", indent=2), soft_wrap=True)
    out.print(plain(f"{report.checked:,} of {count(report.records, 'record')} checked, {len(report.changes):,} changed.", "bold"))
    for service in report.services:
        problem = f"; {service.failed:,} not checked: {one_line(service.problem)}" if service.failed else ""
        note(f"{service.name}: {service.asked:,} asked, {service.known:,} known{problem}")
    if report.unidentified:
        note(f"{count(report.unidentified, 'record')} without DOI, PMID or arXiv number cannot be looked up")
