"""Texts as a service that looks for words can be asked for them: phrases, truncation and proximity in its own signs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from outrider.boolean.relax import all_of, any_of
from outrider.sources.systematic.bounds import Bound, Bounded, Nothing, Wider
from outrider.sources.systematic.terms import choices, is_joined, is_sayable, is_wild, phrases, pieces, runs
from outrider.state.boolean import Dates, Either, Field, Heading, Leaf, Near, Pattern, Text, Words

LABELS = {
    Field.ALL: "all fields (authors and journals among them)",
    Field.MESH: "words of headings",
    Field.BODY: "the full text",
    Field.JOURNAL_WORDS: "words of journals",
}


@dataclass(frozen=True, slots=True)
class Speech:
    """How a service is asked for words. Each of the three says None for what it has no sign for."""

    name: str
    searched: frozenset[Field]
    """Fields in which it looks for words, all of them at once."""
    lacking: frozenset[Field]
    """Fields that its records have not: nothing there matches them."""
    phrase: Callable[[str], Bound | None]
    wild: Callable[[str], Bound | None]
    dated: bool = True
    near: Callable[[tuple[str, ...], int], Bound | None] = lambda words, distance: None

    def leaf(self, leaf: Leaf) -> Bounded:
        match leaf:
            case Text(pattern, fields):
                return self._text(pattern, fields)
            case Heading():
                return Bounded(Nothing(f"{self.name} has no headings that can be asked for"))
            case Dates():
                whole = f"{self.name} can be asked for dates of the whole query only"
                return Bounded(Wider(whole) if self.dated else Nothing(f"{self.name} has no dates of publication"))
        return Bounded(Wider("it asks for every record"))

    def _text(self, pattern: Pattern, fields: tuple[Field, ...]) -> Bounded:
        unsaid = [field for field in fields if field not in self.searched and field not in self.lacking]
        if unsaid:
            named = ", ".join(LABELS.get(field, field.value.replace("_", " ")) for field in unsaid)
            return Bounded(Wider(f"{self.name} cannot be asked for {named}"))
        if self.searched.isdisjoint(fields):
            return Bounded(Nothing(f"{self.name} has no such field"))
        return self._pattern(pattern)

    def _pattern(self, pattern: Pattern) -> Bounded:
        match pattern:
            case Words(words):
                return self._words(words)
            case Either(parts):
                return self._either(parts)
            case Near():
                return self._near(pattern)

    def _words(self, words: tuple[str, ...]) -> Bounded:
        term = f"“{' '.join(words)}”"
        parts = runs(words)
        said = [bound for wild, run in parts for bound in self._said(run, wild=wild)]
        if not said:
            return self._unsaid(term)
        in_one = len(parts) == 1 and len(said) == 1
        return Bounded(all_of(said), () if in_one else (f"{term} is asked for part by part",))

    def _said(self, run: tuple[str, ...], *, wild: bool) -> list[Bound]:
        """What can be said of a run; where it holds a word that cannot be said, each of the others by itself."""
        if wild:
            return [] if is_joined(run[0]) or not is_sayable(run[0]) else self._of_pieces(pieces(run))
        if all(map(is_sayable, run)):
            said = [self.phrase(text) for text in phrases(run)]
            return [any_of(bound for bound in said if bound is not None)] if all(said) else []
        return [bound for word in run if is_sayable(word) for bound in self._said((word,), wild=False)]

    def _of_pieces(self, cut: tuple[str, ...]) -> list[Bound]:
        said = [self.wild(piece) if is_wild(piece) else self.phrase(piece) for piece in cut]
        return [bound for bound in said if bound is not None]

    def _unsaid(self, term: str) -> Bounded:
        return Bounded(Wider(f"{self.name} cannot be asked for {term}"))

    def _either(self, parts: tuple[Pattern, ...]) -> Bounded:
        """All of them, or none: an alternative that is left out would lose hits."""
        found = [self._pattern(part) for part in parts]
        wider = next((one for one in found if isinstance(one.bound, Wider)), None)
        if wider is not None:
            return Bounded(wider.bound)
        return Bounded(any_of(one.bound for one in found), tuple(note for one in found for note in one.widened))

    def _near(self, pattern: Near) -> Bounded:
        chosen = choices(pattern)
        said = [self.near(words, pattern.distance) for words in chosen or ()]
        if chosen and all(said):
            order = ("a proximity is asked for in any order",) if pattern.ordered else ()
            return Bounded(any_of(bound for bound in said if bound is not None), order)
        found = [one for part in pattern.parts if not isinstance((one := self._pattern(part)).bound, Wider)]
        if not found:
            return self._unsaid("a proximity of such words")
        notes = tuple(note for one in found for note in one.widened)
        return Bounded(all_of(one.bound for one in found), (*notes, "a proximity is asked for as words that stand anywhere"))
