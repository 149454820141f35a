"""`outrider library`: inspect, tag, label, remove, reindex, index; decide on duplicates.

`dedup`, `split`, `merge` and `decisions` record which records of the library are one work. No record changes.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import typer

from outrider.interfaces.cli.options import (
    AddressOption,
    FiltersOption,
    JsonOption,
    LibraryOption,
    OfflineOption,
    OnOption,
    call_library,
    open_services,
    parse_filters,
    wait_for,
)
from outrider.interfaces.cli.terminal import (
    BAD_INPUT,
    Progress,
    console,
    count,
    data_output,
    note,
    one_line,
    plain,
    print_json,
    resumable,
    show_work,
    table,
)
from outrider.state.errors import BadRequest, did_you_mean, shorten

if TYPE_CHECKING:
    from outrider.library.browse import Order
    from outrider.library.library import Library
    from outrider.library.reindex import ReindexProgress
    from outrider.library.search_engine import Engine
    from outrider.state.records import Record

library_app = typer.Typer(help="Inspect and maintain the library.", no_args_is_help=True)
RECORD_NODE = "doc:"
"""Prefix of a record's node in the graph, followed by its id."""


@library_app.command()
def info(library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Show what the library holds, and where it is."""
    facts = dataclasses.asdict(call_library(library, lambda opened: opened.info()))
    if as_json:
        print_json(facts)
        return
    listing = table("", "")
    for name, value in facts.items():
        no_vectors = name == "vectors" and value is None
        listing.add_row(name, plain("none; embed with: outrider library reindex" if no_vectors else _format(value)))
    console().print(listing)


@library_app.command()
def check(
    retractions: Annotated[
        bool, typer.Option("--retractions", help="Ask the services again which records are retracted or corrected, and mark them.")
    ] = False,
    offline: OfflineOption = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read every record and list the problems. Exit code 3 if there are any.

    With --retractions, Crossref, PubMed, OpenAlex and arXiv are asked about every record with a DOI, PMID or arXiv number instead. Changes
    are listed, and the records are marked; Ctrl-C keeps what is done. Exit code 3 if some records could not be checked.
    """
    if retractions:
        from outrider.interfaces.cli.library_notices import check_retractions

        return check_retractions(open_services(library, offline=offline), as_json=as_json)
    problems = call_library(library, lambda opened: opened.check())
    if as_json:
        print_json({"sound": not problems, "problems": list(problems)})
    else:
        for problem in problems:
            console().print(plain(problem, "red"))
        if not problems:
            console().print("The library is sound.")
    return 3 if problems else 0


@library_app.command("list")
def list_records(
    filters: FiltersOption = None,
    phrase: Annotated[str | None, typer.Option("--phrase", help="Only records with exactly these words in this order.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many to list.")] = 20,
    offset: Annotated[int, typer.Option("--offset", min=0, help="How many to skip first.")] = 0,
    text: Annotated[
        str, typer.Option("--text", "-t", help="Only records with all these words in title, authors, keywords, labels, year or origin.")
    ] = "",
    label: Annotated[str, typer.Option("--label", help="Only records with this label.")] = "",
    order: Annotated[str, typer.Option("--order", help="id, title, year (newest first) or added (last written first).")] = "id",
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List records, ordered by id unless --order says otherwise."""
    from outrider.library.browse import RecordQuery
    from outrider.state.filters import Compare, combine, parse_filter
    from outrider.state.notices import list_notices
    from outrider.text.words import words
    from outrider.usecases.library import list_records as list_stored

    where = parse_filter(parse_filters(filters) or {})
    if phrase is not None:
        if not words(phrase):
            raise BadRequest("--phrase has no letter or digit to search for")
        ids = call_library(library, lambda opened: opened.match(phrase, where=where))
        where = combine(where, Compare("doc_id", "$in", tuple(ids)))
    query = RecordQuery(text, label, where, parse_order(order))
    found = wait_for(list_stored(open_services(library), query, limit, offset))
    if as_json:
        rows = [
            record.model_dump(mode="json", exclude={"text"}, exclude_defaults=True)
            | {"kind": record.kind}
            | ({"labels": list(found.labels[record.doc_id])} if record.doc_id in found.labels else {})
            | _dump_notices(record)
            for record in found.records
        ]
        print_json({"total": found.total, "offset": offset, "records": rows})
        return
    heads = ("id", "kind", "year", "title", "labels")[: 5 if found.labels else 4]
    listing = table(*heads)
    for record in found.records:
        labels = ", ".join(found.labels.get(record.doc_id, ()))
        notices = ", ".join(dict.fromkeys(notice.label for notice in list_notices(record)))
        cells = [record.doc_id, record.kind, str(record.year or ""), record.title or record.full_text()[:80], labels, notices]
        if console().is_terminal:
            cells[3] += f" [{notices}]" if notices else ""
            listing.add_row(*map(plain, cells[: len(heads)]))
        else:  # for programs such as `cut` and `head`: a record is a line; notices stand behind the columns that were always there
            data_output().write("\t".join(map(one_line, cells if notices else cells[:-1])) + "\n")
    if console().is_terminal:
        console().print(listing)
    note(f"{len(found.records):,} of {found.total:,} records" + (f", from {offset:,}" if offset else ""))


def _dump_notices(record: Record) -> dict[str, Any]:
    from outrider.state.notices import list_notices

    notices = [notice.model_dump(mode="json", exclude_defaults=True) for notice in list_notices(record)]
    return {"notices": notices} if notices else {}


def parse_order(name: str) -> Order:
    """Raises `BadRequest`."""
    from outrider.library.browse import Order

    orders = get_args(Order)
    if name not in orders:
        raise BadRequest(f"--order takes {', '.join(orders)}, not {name!r}{did_you_mean(name, orders)}")
    return cast("Order", name)


@library_app.command()
def show(
    doc_id: Annotated[
        str, typer.Argument(metavar="ID", help="A record's id, as `outrider library list` shows it, its DOI, PMID or arXiv number.")
    ],
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one record whole."""
    from outrider.state.notices import describe_notices, list_notices
    from outrider.usecases.library import read_record

    stored = wait_for(read_record(open_services(library), doc_id))
    labels = ({"labels": list(stored.labels)} if stored.labels else {}) | _dump_notices(stored.record)
    fields = stored.record.model_dump(mode="json", exclude_defaults=True) | {"kind": stored.record.kind} | labels
    vector = stored.vector
    if as_json:
        print_json(fields | {"embedded": vector and vector._asdict()})
        return
    fields |= {"notices": describe_notices(notices)} if (notices := list_notices(stored.record)) else {}
    embedded = "no"
    if vector is not None:
        embedded = "yes" if vector.tokens is None or vector.of is None else f"{vector.tokens:,} of {vector.of:,} tokens"
    for name, value in (fields | {"embedded": embedded}).items():
        console().print(plain(name, "bold"), plain(str(value) if name == "year" else _format(value)), sep="  ", soft_wrap=True)


@library_app.command()
def remove(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Records to remove.")],
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove records. Ingesting their files again restores them; a tagged version keeps them. Exit code 2 if none of them exists."""
    from outrider.usecases.library import remove_records

    removed = wait_for(remove_records(open_services(library), doc_ids))
    if as_json:
        print_json({"removed": len(removed.titles), "unknown": list(removed.unknown)})
    else:
        console().print(f"{len(removed.titles):,} removed")
        if removed.unknown:
            note(f"Not in the library: {', '.join(removed.unknown)}")
    return 0 if removed.titles else BAD_INPUT


@library_app.command()
def label(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Records to label.")],
    add: Annotated[list[str] | None, typer.Option("--add", help="A label to add; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", help="A label to remove; may be repeated.")] = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give records labels of your own, or take them away. Records do not change, and reading their files again keeps labels.

    `outrider library list --label NAME` lists them. Exit code 2 if none of the records exists.
    """
    if not add and not remove:
        raise BadRequest("name a label: --add NAME or --remove NAME")
    from outrider.usecases.library import label_records

    labels = wait_for(label_records(open_services(library), doc_ids, add or (), remove or ()))
    if not labels:
        raise BadRequest(f"not in the library: {', '.join(doc_ids)}")
    if as_json:
        print_json(labels)
    else:
        for doc_id, names in labels.items():
            console().print(plain(f"{doc_id}: {', '.join(names) or 'no label'}"))
        if unknown := [doc_id for doc_id in doc_ids if doc_id not in labels]:
            note(f"Not in the library: {', '.join(unknown)}")


@library_app.command()
def duplicates(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many to list.")] = 20,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List pairs of records that may be one work and stay apart, the most likely first.

    Decide with `outrider library merge ID ID` (one work) or `outrider library split ID ID` (different works).
    """
    from outrider.usecases.deduplicate import find_unsure_pairs

    services = open_services(library)
    with Progress("reading", quiet=as_json) as bar:
        pairs = wait_for(find_unsure_pairs(services, bar.show))
    if as_json:
        print_json([{"ids": [pair.one, pair.other], "score": round(pair.score, 2), "why": pair.why} for pair in pairs[:limit]])
        return
    shown = pairs[:limit]
    ids = list(dict.fromkeys(doc_id for pair in shown for doc_id in (pair.one, pair.other)))
    records = {record.doc_id: record for record in call_library(library, lambda opened: opened.brief(ids))} if ids else {}
    listing = table("id", "year", "title", "why")
    for pair in shown:
        for doc_id, why in ((pair.one, pair.why), (pair.other, "")):
            if record := records.get(doc_id):
                listing.add_row(plain(doc_id), str(record.year or ""), plain(record.title), plain(why))
    if shown:
        console().print(listing)
    note(f"{count(len(pairs), 'pair')} in doubt" + (f"; the first {limit:,} are listed" if len(pairs) > limit else ""))


@library_app.command()
def tag(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The tag. Without it, all tags are listed.")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag instead.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tag the library's present version, so that clean-up keeps it; list the tags, or remove one."""
    if delete and name is None:
        raise BadRequest("--delete needs the name of a tag")

    async def change(opened: Library) -> dict[str, int]:
        if name is not None:
            await (opened.untag(name) if delete else opened.tag(name))
        return dict(await opened.tags())

    tags = call_library(library, change)
    if as_json:
        print_json(tags)
        return
    listing = table("tag", "version")
    for tag_name, version in tags.items():
        listing.add_row(plain(tag_name), str(version))
    console().print(listing)


def _format(value: Any) -> str:
    if isinstance(value, dict):
        parts = {name: _format(part) if isinstance(part, dict) else part for name, part in value.items() if part not in (None, {})}
        return ", ".join(f"{name} {part}" for name, part in parts.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@library_app.command()
def reindex(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="Embed with this model: a hub name or a folder. Default: that of the settings."),
    ] = None,
    on: OnOption = "",
    address: AddressOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Embed every record that has no vector yet, or all of them with another model.

    The library can be searched and written meanwhile; the old vectors are used until the new ones are complete. After an interruption,
    run the same command to continue. With --on ray the workers of a cluster embed; they need not see the library.
    """
    from outrider.settings.load import load
    from outrider.usecases.ingest import areindex

    loaded = load({"library.uri": library})
    configured, origin = loaded.settings.embedding.model_name, loaded.origins["embedding.model_name"]
    with resumable(), Progress("loading the model", quiet=as_json) as bar:

        def show(progress: ReindexProgress) -> None:
            bar.show(progress.stage, progress.done, progress.total)

        result = wait_for(areindex(library, model, show, on=on, address=address))
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        vectors = f"{result.records - result.without:,} of {result.records:,} records have a vector of {result.model}"
        search = "every vector is compared" if result.recall is None else f"index {result.index}, recall {result.recall:.3f}"
        console().print(plain(f"{vectors}; {result.embedded:,} were embedded now, {result.cut:,} of them in part; {search}.", "bold"))
        if result.before is not None:
            console().print(plain(f"The vectors of {result.before} were replaced."))
        for name, number in result.dropped.items():
            note(f"{number:,} vectors of {name}, from an interrupted reindex, were dropped.")
        for reason in result.reasons:
            note(f"Without vector: {reason}")
        if result.without > len(result.reasons):
            note(f"and {result.without - len(result.reasons):,} more")
    if model is not None and configured not in ("auto", model):
        note(f"The settings still name {configured} ({origin}); change embedding.model_name to {model} or auto there.")


@library_app.command()
def optimize(on: OnOption = "", address: AddressOption = None, library: LibraryOption = None, as_json: JsonOption = False) -> None:
    """Compact the files of the library, complete its indexes, and drop versions older than a week.

    `outrider ingest` does that where it is due, so it is seldom needed. Searches go on; writers wait. With --on ray the workers of a
    cluster compact the records and build indexes that miss most of them; they must see the library under the same address.
    """
    from outrider.cluster.task_map import check_on
    from outrider.usecases.library import optimize_library

    check_on(on, address)
    services = open_services(library, address=address)
    with Progress("compacting", quiet=as_json) as bar:
        info = wait_for(optimize_library(services, on, lambda done, total: bar.show("compacting and indexing", done, total)))
    if as_json:
        print_json({"records": info.records, "unindexed": info.unindexed_rows, "size_bytes": info.size_bytes})
    else:
        console().print(plain(f"{count(info.records, 'record')}, {info.unindexed_rows:,} of them not indexed.", "bold"))


@library_app.command()
def index(
    late_interaction: Annotated[
        bool, typer.Option("--late-interaction", help="The token vectors of every record, compressed, at most 12 KiB a record.")
    ] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Delete them instead.")] = False,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute what a reranker reads, so that it need not compute it for each search. Only new and changed records are read.

    With token vectors, late interaction reorders the first works within a fraction of a second; `outrider library probe` tells whether
    that helps. After an interruption, run the same command to continue.
    """
    from outrider.usecases.ingest import index_tokens

    if not late_interaction:
        raise BadRequest("name what to compute: --late-interaction")
    if drop:
        dropped = call_library(library, lambda opened: opened.drop_tokens())
        if as_json:
            print_json({"dropped": dropped})
        else:
            console().print(plain(f"The token vectors of {count(dropped, 'record')} were deleted."))
        return
    with resumable(), Progress("loading the model", quiet=as_json) as bar:
        result = wait_for(index_tokens(open_services(library), lambda done, total: bar.show("embedding", done, total)))
    if as_json:
        print_json(dataclasses.asdict(result))
        return
    sizes = f"{result.mean_bytes / 1024:.1f} KiB each on average"
    console().print(
        plain(f"{count(result.records, 'record')} with token vectors of {result.model}, {sizes}; {result.indexed:,} are new.", "bold")
    )
    if result.dropped:
        note(f"{result.dropped:,} of missing records or another model were deleted.")


@library_app.command()
def neighbours(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_ID", help="An entity (aspirin, mesh:aspirin, 'Knuth, D') or a record's id.")],
    kind: Annotated[str | None, typer.Option("--type", "-t", help="List connected entities of this type (mesh, author) instead.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many to list.")] = 20,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the records connected with a record or an entity, or with --type the entities that share records with it."""
    services = open_services(library)

    async def find() -> list[dict[str, Any]]:
        engine = await services.engine()
        nodes: tuple[str, ...] = (name,)
        if await engine.library.content_hashes([name]):
            if kind is not None:
                nodes = (RECORD_NODE + name,)
        elif not (nodes := await engine.graph.named(name)):
            known = [entity.partition(":")[2] for entity in await engine.graph.alike(name)]
            wrong = name.partition(":")[2] or name
            raise BadRequest(f"the library has no record and no entity {shorten(name)}{did_you_mean(wrong.casefold(), known)}")
        return await _find_records(engine, nodes, limit) if kind is None else await _find_entities(engine, nodes, kind, limit)

    rows = wait_for(find())
    if as_json:
        print_json(rows)
        return
    listing = table(*(("id", "title", "why") if kind is None else ("entity", "records", "such as")))
    for row in rows:
        if kind is None:
            listing.add_row(plain(row["doc_id"]), plain(row["title"]), plain(row["why"]))
        else:
            listing.add_row(plain(row["entity"]), f"{len(row['records']):,}", plain(", ".join(row["records"][:3])))
    if rows:
        console().print(listing)
    elif kind is not None:
        note(f"No record of {name} names anything of type {kind}.")
    note(f"{len(rows):,} shown; --limit shows more" if len(rows) == limit else f"{len(rows):,} found")


async def _find_records(engine: Engine, nodes: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
    from outrider.library.graph_neighbours import explain_paths

    places = await engine.graph.around(nodes, limit)
    records = {record.doc_id: record for record in await engine.library.fetch([place.doc_id for place in places])}
    return [
        {
            "doc_id": place.doc_id,
            "title": records[place.doc_id].title,
            "score": place.score,
            "why": explain_paths(place.paths, of=""),
            "paths": [{"anchor": path.anchor, "relation": path.relation, "through": path.through} for path in place.paths],
        }
        for place in places
        if place.doc_id in records
    ]


async def _find_entities(engine: Engine, nodes: tuple[str, ...], kind: str, limit: int) -> list[dict[str, Any]]:
    """Those with most shared records first, ties by name."""
    shared: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for entity, doc_ids in await engine.graph.connected(node, kind, limit):
            shared[entity].update(doc_ids)
    ranked = sorted(shared.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:limit]
    return [{"entity": entity, "records": sorted(doc_ids)} for entity, doc_ids in ranked]


WhyOption = Annotated[str, typer.Option("--why", help="The reason, stored with the decision.")]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides. Default: your user name.")]


def dedup_library(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which records would be one work.")] = False,
    on: OnOption = "",
    address: AddressOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find records of the library that are one work, and remember it for later searches. No record changes.

    Records that were split by hand stay apart. Undo it with `outrider library split ID` or `outrider library decisions --forget ID`.
    """
    from outrider.cluster.task_map import open_task_map
    from outrider.usecases.deduplicate import remember_works, resolve_library

    services = open_services(library)
    with Progress("reading", quiet=as_json) as bar:
        wait_for(services.library())  # a missing one is told before a cluster is started
        with open_task_map(on, address) as tasks, resolve_library(bar.show, tasks) as source:
            wait_for(source.read(services))
            works = list(source.works())
    new = sum(not work.remembered for work in works)
    if not dry_run:
        wait_for(remember_works(services, works))
    if as_json:
        groups, reasons = [work.ids for work in works], [work.reasons for work in works]
        print_json({"records": source.records, "remembered": 0 if dry_run else new, "groups": groups, "reasons": reasons})
        return

    async def read_titles() -> dict[str, str]:
        opened = await services.library()
        return {record.doc_id: record.title for record in await opened.brief([work.ids[0] for work in works])}

    titles = wait_for(read_titles())
    for work in works:
        remembered = " (remembered)" if work.remembered else ""
        show_work((titles.get(work.ids[0]) or "without a title") + remembered, work.ids, work.reasons)
    _report_works(source.records, sum(len(work.ids) for work in works), len(works), new, dry_run=dry_run)


def _report_works(records: int, shared: int, works: int, new: int, *, dry_run: bool) -> None:
    """Of `records`, `shared` describe `works`, of which `new` are not remembered yet."""
    if not works:
        few = f"The library has {count(records, 'record')}, so there is nothing to compare."
        console().print(plain(few if records < 2 else f"No two of {records:,} records describe one work.", "bold"))
        return
    console().print(plain(f"{shared:,} of {count(records, 'record')} describe {count(works, 'work')}.", "bold"))
    if not new:
        note("The library remembers all of this already" + ("; nothing would change." if dry_run else "."))
    elif dry_run:
        them = "it" if new == 1 else "each"
        note(f"Nothing was stored. Without --dry-run the library remembers {count(new, 'new work')}, and searches show {them} as one hit.")
    else:
        verb, them = ("is", "it") if new == 1 else ("are", "one")
        note(f"{count(new, 'new work')} {verb} remembered; `outrider library split ID` undoes {them}.")


def split(
    doc_id: Annotated[str, typer.Argument(metavar="ID", help="A record that is shown as a duplicate, or that has one.")],
    others: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Separate it from these records only.")] = None,
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Separate a record from others by their ids, or from all, even if searches would take them for the same work."""
    outcome = f"separated from {', '.join(others)}" if others else "separated from all other records"
    _decide("split", [doc_id, *(others or ())], by, why, library, f"{doc_id} {outcome}", as_json=as_json)


def merge(
    doc_ids: Annotated[list[str], typer.Argument(metavar="ID ID...", help="Records that are one work.")],
    why: WhyOption = "",
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Treat records as one work from now on, whatever the evidence; `split` undoes it."""
    _decide("merge", doc_ids, by, why, library, f"{', '.join(doc_ids)} are one work", as_json=as_json)


def decisions(
    forget: Annotated[str | None, typer.Option("--forget", metavar="ID", help="Forget all decisions about a record.")] = None,
    by: ByOption = None,
    library: LibraryOption = None,
    as_json: JsonOption = False,
) -> None:
    """List merges and splits, who made them and when; or forget those of a record."""
    if forget is not None:
        _decide("forget", [forget], by, "", library, f"no decision about {forget} is left", as_json=as_json)
        return
    log = call_library(library, lambda opened: opened.decisions())
    if as_json:
        print_json([decision.model_dump(mode="json") for decision in log])
        return
    listing = table("when", "by", "what", "ids", "why")
    for entry in log:
        listing.add_row(plain(entry.at[:19]), plain(entry.by), entry.what, plain(", ".join(entry.ids)), plain(entry.why))
    if log:
        console().print(listing)
    note(count(len(log), "decision"))


def _decide(
    what: Literal["merge", "split", "forget"], ids: list[str], by: str | None, why: str, uri: str | None, message: str, *, as_json: bool
) -> None:
    from outrider.usecases.deduplicate import record_decision

    result = wait_for(record_decision(open_services(uri), what, ids, by, why))
    if as_json:
        print_json({**result.decision.model_dump(mode="json"), "unknown": list(result.unknown)})
        return
    console().print(plain(message))
    for doc_id, title in result.titles.items():
        console().print(plain(f"{doc_id} {title}", "dim", indent=2), soft_wrap=True)
    if result.unknown:
        note(f"Not in the library, remembered for searches that find it: {', '.join(result.unknown)}")
