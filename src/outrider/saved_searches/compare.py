"""The differences between two runs of a saved search: each work with its cause

Works are matched by their ids, then by the ids of the records that were merged into them, and what is left by linkage: by the same evidence
as duplicates. A preprint and its publication are one work that changed. What a failed source had is `missing`, not gone.

Where several circumstances changed between the runs, the cause is the first that may explain the difference, in the order of `_explain`;
the others stand in `why`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.boolean.evaluator import matches
from outrider.boolean.parser import parse
from outrider.linkage.names_and_titles import normal_title
from outrider.linkage.resolve import resolve
from outrider.saved_searches.store import Work
from outrider.state.boolean import Node
from outrider.state.errors import BadRequest
from outrider.state.notices import GRAVE, list_notices
from outrider.state.records import RECORD, Record
from outrider.state.saved import Cause, Change, RunDifference, RunFacts, SavedRun, SourceState, WorkChange

COUNTS = frozenset({"citations", "stars", "forks", "parent_stars", "updated_at"})
"""Fields that grow with time: a work of which nothing else changed is counted, and not listed."""
SAME_WORK = frozenset({"preprint of", "version of"})
"""Relations of versions of one work."""
GRAVEST = ("retracted", "withdrawn")
"""Beginnings of the reason why a search that hides such works left one out."""
MOST_AUTHORS = 20
LoadRecords = Callable[[Iterable[str]], Mapping[str, dict[str, Any]]]
"""Stored records by content hash."""
UNKNOWN = SourceState(read=False, why="it was not asked")


@dataclass(frozen=True, slots=True)
class RunContents:
    """A complete run and its works in order."""

    run: SavedRun
    works: Sequence[Work]

    @property
    def facts(self) -> RunFacts:
        assert self.run.facts is not None  # noqa: S101 - every complete run has them
        return self.run.facts


def compare_runs(name: str, before: RunContents, after: RunContents, load: LoadRecords) -> RunDifference:
    """What changed from one complete run to a later one of the same saved search."""
    return _Comparison(before, after, load).run(name)


def find_unread_works(before: RunContents, after: RunContents, load: LoadRecords) -> list[Work]:
    """Works of the earlier run that a failed source of the later one may still have, marked as carried over."""
    if all(state.read for state in after.facts.sources.values()):
        return []
    comparison = _Comparison(before, after, load)
    comparison.match()
    lost = [work for place, work in enumerate(before.works) if place not in comparison.partner]
    causes, records = _Circumstances(before.facts, after.facts), load({work.content for work in lost})
    unread = (work for work in lost if causes.explain_gone(work, records)[0] == "missing")
    return [Work(work.members, work.kind, work.sources, work.versions, is_carried=True) for work in unread]


@dataclass(slots=True)
class _Comparison:
    before: RunContents
    after: RunContents
    load: LoadRecords
    partner: dict[int, int] = field(default_factory=dict)
    """Place of a later work by the place of the earlier one."""
    is_version: set[int] = field(default_factory=set)
    """Places of earlier works whose partner is another version of the work."""
    changes: list[WorkChange] = field(default_factory=list)
    counts_only: int = 0

    def run(self, name: str) -> RunDifference:
        old, new = self.before.works, self.after.works
        self.match()
        followed: dict[int, list[int]] = {}
        for place in sorted(self.partner):
            followed.setdefault(self.partner[place], []).append(place)
        causes = _Circumstances(self.before.facts, self.after.facts)
        seen = {member for work in old for member in work.members}
        lost = [place for place in range(len(old)) if place not in self.partner]
        unfollowed = [place for place in range(len(new)) if place not in followed and not new[place].is_carried]
        pairs = [(places[0], place) for place, places in followed.items()]
        pairs = [(one, other) for one, other in pairs if old[one].members != new[other].members or one in self.is_version]
        merged = [(one, place) for place, places in followed.items() for one in places[1:] if not new[place].is_carried]
        contents = {content for one, other in [*pairs, *merged] for content in (*old[one].members.values(), *new[other].members.values())}
        contents |= {old[place].content for place in lost} | {new[place].content for place in unfollowed}
        records = self.load(contents)
        cause: Cause
        for place in unfollowed:
            work = new[place]
            if split := next((member for member in work.members if member in seen), ""):
                cause, why = "split", f"it was one work with another hit ({split}) before"
            else:
                cause, why = causes.explain_new(work, records)
            self._add("new", cause, why, work, records)
        for place in lost:
            change, cause, why = causes.explain_gone(old[place], records)
            self._add(change, cause, why, old[place], records)
        for one, other in merged:
            self._add("gone", "merged", f"it is one work with {new[other].doc_id} now", old[one], records)
        for one, other in pairs:
            self._compare_pair(old[one], new[other], records, causes, is_version=one in self.is_version)
        known = {place for place, places in followed.items() if all(old[one].is_carried for one in places)}
        missing = [work for place, work in enumerate(new) if work.is_carried and place not in known]
        records = self.load({work.content for work in missing})
        for work in missing:
            self._add("missing", "source failed", causes.name_failed(work.sources), work, records)
        order: dict[Change, int] = {"new": 0, "changed": 1, "gone": 2, "missing": 3}
        return RunDifference(
            name=name,
            before=self.before.run.number,
            after=self.after.run.number,
            before_at=self.before.run.started_at,
            after_at=self.after.run.started_at,
            works_before=len(old),
            works_after=sum(not work.is_carried for work in new),
            works=tuple(sorted(self.changes, key=lambda one: (order[one.change], one.doc_id))),
            counts_only=self.counts_only,
            still_missing=sum(new[place].is_carried for place in known),
            remarks=causes.remarks(),
        )

    def match(self) -> None:
        self._match_ids()
        self._match_by_linkage()

    def _match_ids(self) -> None:
        """By the leading id, then by any common record, then by a linked version."""
        lead = {work.doc_id: place for place, work in enumerate(self.after.works)}
        member = {doc_id: place for place, work in enumerate(self.after.works) for doc_id in reversed(work.members)}
        version = {doc_id: place for place, work in enumerate(self.after.works) for doc_id in work.versions}
        for place, work in enumerate(self.before.works):
            other = lead.get(work.doc_id)
            if other is None:
                other = next((member[doc_id] for doc_id in work.members if doc_id in member), None)
            if other is None:
                linked = [version[doc_id] for doc_id in work.members if doc_id in version]
                linked += [lead[doc_id] for doc_id in work.versions if doc_id in lead]
                other = next(iter(linked), None)
                self.is_version |= {place} if linked else set()
            if other is not None:
                self.partner[place] = other

    def _match_by_linkage(self) -> None:
        """Earlier works without a partner that are, by their records, one work or versions of one work with a later one."""
        old, new = self.before.works, self.after.works
        left = [place for place in range(len(old)) if place not in self.partner]
        if not left:
            return
        followed = set(self.partner.values())
        records = self.load({old[place].content for place in left} | {work.content for work in new})
        parsed = {place: record for place in left if (record := _parse(old[place], records)) is not None}
        wanted = {key for place in parsed for key in _list_keys(records[old[place].content])}
        candidates: dict[int, Record] = {}
        for place, work in enumerate(new):
            raw = records.get(work.content)
            # only a new work may be one by other evidence than a common identifier or title
            is_candidate = raw is not None and (place not in followed or not wanted.isdisjoint(_list_keys(raw)))
            if is_candidate and (record := _parse(work, records)) is not None:
                candidates[place] = record
        earlier, later = list(parsed), list(candidates)
        resolution = resolve([*parsed.values(), *candidates.values()])
        count = len(earlier)
        for group in resolution.groups:
            others = [at for at in group if at >= count]
            for at in group:
                if at < count and others:
                    self.partner[earlier[at]] = later[others[0] - count]
        group_of = {at: number for number, group in enumerate(resolution.groups) for at in group}
        for related in resolution.related:
            if related.relation.kind not in SAME_WORK:
                continue
            pair = [at for one in (related.one, related.other) for at in resolution.groups[group_of[one]]]
            gone = [at for at in pair if at < count and earlier[at] not in self.partner]
            came = [at for at in pair if at >= count]
            for at in gone:
                if came:
                    self.partner[earlier[at]] = later[came[0] - count]
                    self.is_version.add(earlier[at])

    def _compare_pair(
        self, old: Work, new: Work, records: Mapping[str, dict[str, Any]], causes: _Circumstances, *, is_version: bool
    ) -> None:
        common = [doc_id for doc_id in old.members if doc_id in new.members and old.members[doc_id] and new.members[doc_id]]
        pairs = [(old.members[doc_id], new.members[doc_id]) for doc_id in common] or [(old.content, new.content)]
        changed = [(one, other) for one, other in pairs if one != other]
        fields = tuple(sorted({name for one, other in changed for name in _list_changed(records.get(one, {}), records.get(other, {}))}))
        gained = _find_notice(old, new, records)
        if gained:
            self._add("changed", "retracted", f"a service reports it as {gained}", new, records, old, fields)
        elif is_version:
            self._add("changed", "published", f"another version of it is found now, instead of {old.doc_id}", new, records, old, fields)
        elif fields and COUNTS.issuperset(fields):
            self.counts_only += 1
        elif fields:
            moved = causes.explain_other_sources(old, new)
            why = moved or ("its record has another id" if old.doc_id not in new.members else "")
            self._add("changed", "source changed" if moved else "record changed", why, new, records, old, fields)

    def _add(
        self,
        change: Change,
        cause: Cause,
        why: str,
        work: Work,
        records: Mapping[str, dict[str, Any]],
        old: Work | None = None,
        fields: tuple[str, ...] = (),
    ) -> None:
        raw = records.get(work.content, {})
        self.changes.append(
            WorkChange(
                change=change,
                cause=cause,
                why=why,
                doc_id=work.doc_id,
                before_id=old.doc_id if old is not None and old.doc_id != work.doc_id else "",
                title=raw.get("title", ""),
                authors=tuple(raw.get("authors", ())[:MOST_AUTHORS]),
                year=raw.get("year"),
                venue=raw.get("venue") or "",
                url=raw.get("url") or "",
                sources=work.sources,
                fields=fields,
            )
        )


@dataclass(slots=True)
class _Circumstances:
    """What else changed between two runs, and what that explains."""

    old: RunFacts
    new: RunFacts
    query: str = ""
    settings: str = ""
    versions: str = ""
    _trees: tuple[Node | None, Node | None] = (None, None)

    def __post_init__(self) -> None:
        old, new = dict(self.old.request), dict(self.new.request)
        queries = old.pop("query", ""), new.pop("query", "")
        names = old.pop("sources", None), new.pop("sources", None)
        syntaxes = old.pop("syntax", "auto"), new.pop("syntax", "auto")
        self.versions = _name_changes(self.old.versions, self.new.versions)
        self.settings = _name_changes(old | self.old.settings, new | self.new.settings)
        if queries[0] != queries[1] or syntaxes[0] != syntaxes[1]:
            self.query = "the query is another"
        elif self.old.strategy != self.new.strategy and not (names[0] != names[1] or self.settings):
            self.query = "the planned queries are others"
        if self.query and self.old.kind == self.new.kind == "systematic":
            self._trees = _parse_query(queries[0], syntaxes[0]), _parse_query(queries[1], syntaxes[1])

    def explain_new(self, work: Work, records: Mapping[str, dict[str, Any]]) -> tuple[Cause, str]:
        unread = [name for name in work.sources if self._source(self.old, name).known_since is None]
        if unread and len(unread) == len(work.sources):
            return "source changed", f"the earlier run did not read {_name(unread)}{self._source(self.old, unread[0], 'why')}"
        was_asked = self._is_matched(0, work, records)  # by the earlier query
        is_cut = self.old.is_cut or any(self._source(self.old, name).is_cut for name in work.sources)
        return self._explain(
            was_asked, "new in source", "it may have been found before, behind the last work of the earlier run" if is_cut else ""
        )

    def explain_gone(self, work: Work, records: Mapping[str, dict[str, Any]]) -> tuple[Change, Cause, str]:
        unread = [name for name in work.sources if not self._source(self.new, name).read]
        asked = [name for name in unread if name in self.new.sources]
        if asked:
            return "missing", "source failed", self.name_failed(asked)
        if unread and len(unread) == len(work.sources):
            return "gone", "source changed", f"{_name(unread)} is no longer asked"
        if why := next((self.new.left_out[doc_id] for doc_id in work.members if doc_id in self.new.left_out), ""):
            return "gone", "retracted" if why.lower().startswith(GRAVEST) else "left out", why
        is_asked = self._is_matched(1, work, records)
        is_cut = self.new.is_cut or any(self._source(self.new, name).is_cut for name in work.sources)
        cause, why = self._explain(
            is_asked, "gone from source", "it may still be found, behind the last work of this run" if is_cut else ""
        )
        return "gone", cause, why

    def _explain(self, is_matched: bool | None, otherwise: Cause, cut: str) -> tuple[Cause, str]:
        """The first circumstance that may explain a difference. `is_matched`: the record matches the query of the other run, too."""
        reasons: list[tuple[Cause, str]] = []
        if self.query and not is_matched:
            reasons.append(("query changed", self.query))
        if self.settings:
            reasons.append(("settings changed", f"settings changed: {self.settings}"))
        if self.versions:
            reasons.append(("version changed", f"versions changed: {self.versions}"))
        if cut:
            reasons.append(("ranking", cut))
        if not reasons:
            return otherwise, ""
        if is_matched is False:  # its text does not match the query of the other run: nothing else is needed
            return reasons[0]
        return reasons[0][0], "; or ".join(why for _, why in reasons)

    def explain_other_sources(self, old: Work, new: Work) -> str:
        """Where a merged record may differ because a source failed in one of the runs, or was added or removed."""
        other = set(old.sources) ^ set(new.sources)
        moved = sorted(name for name in other if not self._source(self.old, name).read or not self._source(self.new, name).read)
        return f"its record is merged of other sources: {_name(moved)} was not read in both runs" if moved else ""

    def name_failed(self, sources: Sequence[str]) -> str:
        failed = [name for name in sources if name in self.new.sources and not self.new.sources[name].read]
        whys = "; ".join(f"{name}: {self.new.sources[name].why}" for name in failed if self.new.sources[name].why)
        return f"{_name(failed)} failed, so it is not known whether the work is gone" + (f" ({whys})" if whys else "")

    def remarks(self) -> tuple[str, ...]:
        lines = [f"Settings changed: {self.settings}"] if self.settings else []
        lines += [f"Versions changed: {self.versions}"] if self.versions else []
        lines += [f"{self.query[0].upper()}{self.query[1:]}"] if self.query else []
        for name in sorted(self.old.sources.keys() | self.new.sources.keys()):
            then, now = self.old.sources.get(name), self.new.sources.get(name)
            if then is None:
                lines.append(f"{name} was added")
            elif now is None:
                lines.append(f"{name} is no longer asked")
            elif not now.read:
                lines.append(f"{name} was not read to its end: {now.why or 'it failed'}; works that it had are not taken for gone")
            elif not then.read and then.known_since is None:
                lines.append(f"{name} was not read before: {then.why or 'it failed'}")
            elif not then.read:
                lines.append(f"{name} failed in the earlier run; its works are compared with those of run {then.known_since}")
        return tuple(lines)

    def _source(self, facts: RunFacts, name: str, part: str = "") -> Any:
        state = facts.sources.get(name, UNKNOWN)
        return state if not part else f" ({getattr(state, part)})" if getattr(state, part) else ""

    def _is_matched(self, which: int, work: Work, records: Mapping[str, dict[str, Any]]) -> bool | None:
        """Whether the work's record matches the other run's query; None if that cannot be told from the record."""
        tree = self._trees[which]
        record = _parse(work, records) if tree is not None else None
        if tree is None or record is None:
            return None
        return matches(tree, record) or (None if record.text else False)  # of a body, only the hash is stored


def _parse_query(query: Any, syntax: Any) -> Node | None:
    try:
        return parse(query, syntax).tree
    except BadRequest:  # of another version of this program
        return None


def _parse(work: Work, records: Mapping[str, dict[str, Any]]) -> Record | None:
    raw = records.get(work.content)
    return None if raw is None else RECORD.validate_python({**raw, "doc_id": work.doc_id, "kind": work.kind})


def _list_keys(raw: Mapping[str, Any]) -> set[str]:
    title = normal_title(raw.get("title", ""))
    return {f"{scheme}:{value}" for scheme, value in raw.get("identifiers", {}).items() if value} | ({f"title:{title}"} if title else set())


def _list_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Names of the fields that differ; of the metadata and identifiers those within."""
    names = []
    for name in old.keys() | new.keys():
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        if name in ("metadata", "identifiers"):
            one, other = one or {}, other or {}
            names += [f"{name}.{key}" for key in one.keys() | other.keys() if one.get(key) != other.get(key)]
        else:
            names.append(name)
    return names


def _find_notice(old: Work, new: Work, records: Mapping[str, dict[str, Any]]) -> str:
    """The gravest kind of a notice that the later record has and the earlier has not; empty if there is none."""
    if old.members == new.members:
        return ""
    kinds = [
        {notice.kind for content in work.members.values() if content in records for notice in _read_notices(work, content, records)}
        for work in (old, new)
    ]
    gained = (kinds[1] - kinds[0]) & GRAVE
    order = ("retracted", "withdrawn", "partly retracted", "expression of concern")
    return next((kind for kind in order if kind in gained), "")


def _read_notices(work: Work, content: str, records: Mapping[str, dict[str, Any]]) -> Sequence[Any]:
    record = RECORD.validate_python({**records[content], "doc_id": work.doc_id, "kind": work.kind})
    return list_notices(record)


def _name_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """`top_k 10 -> 50, ...`; empty if nothing differs."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name} {_show(old.get(name))} -> {_show(new.get(name))}" for name in names)


def _show(value: Any) -> str:
    return "default" if value is None else str(value)[:80]


def _name(sources: Sequence[str]) -> str:
    return ", ".join(sources)
