"""Links of evidence: one for each work and target"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from outrider.state.code_links import OWN, CodeLink, LinkEvidence

MOST_SURE = 0.99


def combine_evidence(evidence: Iterable[LinkEvidence]) -> tuple[CodeLink, ...]:
    """One link for each work and target: the most certain first.

    Of one direction the strongest evidence counts; both directions are independent, so that doubt is multiplied.
    """
    pairs: defaultdict[tuple[str, str], list[LinkEvidence]] = defaultdict(list)
    for one in dict.fromkeys(evidence):
        pairs[one.work, one.target].append(one)
    links = [_make_link(work, target, found) for (work, target), found in pairs.items()]
    return tuple(sorted(links, key=lambda link: (not link.is_own, -link.confidence, link.work, link.target)))


def _make_link(work: str, target: str, evidence: list[LinkEvidence]) -> CodeLink:
    ordered = sorted(evidence, key=lambda one: (one.kind not in OWN, -one.confidence, one.read_in, one.place, one.start or 0))
    kind = ordered[0].kind
    said = {one.kind for one in evidence if one.kind in OWN}
    doubt = 1.0
    for direction in said or {kind}:
        doubt *= 1 - max(one.confidence for one in evidence if one.kind == direction)
    return CodeLink(
        work=work, target=target, kind=kind, confidence=round(min(MOST_SURE, 1 - doubt), 3), agree=len(said) > 1, evidence=tuple(ordered)
    )
