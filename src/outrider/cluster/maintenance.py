"""Compaction and indexes of a table of records on the workers of a Ray cluster.

lance-ray compacts. Its own function for an index takes Lance's settings, with which words of records would be stemmed, cut and left out,
and starts processes for each index anew; so the parts of all indexes are tasks of one run here, with the settings of
`library.maintenance`. Nothing is committed before a step is complete: a step whose node died is begun again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from outrider.cluster.session import Cluster, last_line
from outrider.cluster.tasks import CRASHES, is_crash, is_lost, run_tasks
from outrider.library.store_errors import hide_secrets
from outrider.runtime.threads_and_loops import run_in_thread
from outrider.state.errors import ClusterError, MissingExtra
from outrider.state.ports import OnCount
from outrider.text.sanitize import without_password

MOST_FILES = 16
"""That a table is compacted to for the sake of parallel work: with 24 small ones the next maintenance would be due at once."""
LEAST_ROWS, MOST_ROWS = 20_000, 2**20
"""Of one file; the second is Lance's own."""
TEXT = "INVERTED"
KINDS = {"FTS": TEXT, "BTree": "BTREE", "Bitmap": "BITMAP"}
RENAMED = {"ngram_min_length": "min_ngram_length", "ngram_max_length": "max_ngram_length"}
"""LanceDB's names of settings, and Lance's."""
OWN_USE = frozenset({"memory_limit", "num_workers"})
"""Settings of LanceDB's own building of an index."""


class Part(NamedTuple):
    """Files of a table whose part of an index one task builds.

    With the keys of the store, as an argument of the call: Ray stores functions, with all that is bound to them.
    """

    uri: str
    storage_options: Mapping[str, str]
    column: str
    kind: str
    settings: Mapping[str, Any]
    fragments: list[int]


async def rebuild(
    cluster: Cluster, storage_options: Mapping[str, str], progress: OnCount, uri: str, rows: int, indexes: Sequence[tuple[str, Any]]
) -> None:
    """Compact the table at `uri`, and build these indexes, (column, LanceDB's configuration), in place of what they are.

    Only under the library's lock. The workers must see the table under the same address. Raises `ClusterError`, `MissingExtra`.
    """
    workers = cluster.count_cpus()
    progress(0, 1 + len(indexes))
    with _explain(cluster, uri, storage_options):
        size = min(MOST_ROWS, max(LEAST_ROWS, -(-rows // min(workers, MOST_FILES))))
        await _compact(cluster, uri, storage_options, size)
        fragments = await asyncio.to_thread(_list_fragments, uri, storage_options)
        split = [part for part in (fragments[at::workers] for at in range(workers)) if part]
        parts = [
            Part(uri, storage_options, column, *translate_config(config), part)
            for column, config in indexes
            for part in (split if translate_config(config)[0] == TEXT else [fragments])
        ]
        progress(1, 1 + len(parts))
        segments: list[Any] = []
        async with aclosing(run_tasks(cluster, _build_segment, parts, cpus=0, at_once=workers, name="index")) as results:
            async for segment in results:
                segments.append(segment)
                progress(1 + len(segments), 1 + len(parts))
        for column in dict.fromkeys(part.column for part in parts):
            own = [segment for part, segment in zip(parts, segments, strict=True) if part.column == column]
            await asyncio.to_thread(_commit_index, uri, storage_options, column, own)


async def _compact(cluster: Cluster, uri: str, storage_options: Mapping[str, str], rows: int) -> None:
    """To files of so many rows."""
    lance_ray = await run_in_thread(_import_lance_ray)
    compact = partial(
        lance_ray.compact_files,
        uri,
        compaction_options={"target_rows_per_fragment": rows},
        storage_options=dict(storage_options) or None,
        num_workers=cluster.count_cpus(),
        ray_remote_args={"num_cpus": 0, "scheduling_strategy": "SPREAD"},  # with a CPU each they would wait for one that died
    )
    for attempt in range(1, CRASHES + 1):
        try:
            await run_in_thread(compact, "outrider-compact")
        except RuntimeError as error:
            cause = error.__cause__ or error
            if not (is_lost(cluster, cause) or is_crash(cluster, cause)) or attempt == CRASHES:
                raise
        else:
            return


def _import_lance_ray() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import lance_ray
    except ModuleNotFoundError as error:
        raise MissingExtra("maintenance on Ray (--on ray)", "cluster") from error
    return lance_ray


def translate_config(config: Any) -> tuple[str, dict[str, Any]]:
    """The kind and settings of an index as Lance names them."""
    settings = {
        RENAMED.get(name, name): value.value if isinstance(value, Enum) else value
        for name, value in dataclasses.asdict(config).items()
        if name not in OWN_USE
    }
    return KINDS[type(config).__name__], settings


def _open(uri: str, storage_options: Mapping[str, str]) -> Any:
    import lance

    return lance.dataset(uri, storage_options=dict(storage_options) or None)


def _list_fragments(uri: str, storage_options: Mapping[str, str]) -> list[int]:
    return [fragment.fragment_id for fragment in _open(uri, storage_options).get_fragments()]


def _build_segment(part: Part) -> Any:
    """On a worker: a part of an index, which nobody sees before it is committed."""
    return _open(part.uri, part.storage_options).create_index_uncommitted(
        column=part.column, index_type=part.kind, name=_name(part.column), replace=True, fragment_ids=part.fragments, **part.settings
    )


def _commit_index(uri: str, storage_options: Mapping[str, str], column: str, segments: Sequence[Any]) -> None:
    _open(uri, storage_options).commit_existing_index_segments(index_name=_name(column), column=column, segments=list(segments))


def _name(column: str) -> str:
    """As LanceDB names it."""
    return f"{column}_idx"


@contextmanager
def _explain(cluster: Cluster, uri: str, storage_options: Mapping[str, str]) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, OSError, ValueError, cluster.ray.exceptions.RayError) as error:
        reason = hide_secrets(last_line(error), storage_options)
        explained = ClusterError(
            f"Ray at {cluster.address} cannot maintain {without_password(uri)}: {reason}; its nodes must see the library under this "
            "address. Without --on ray this machine does it"
        )
        raise explained from (error if hide_secrets(str(error), storage_options) == str(error) else None)
