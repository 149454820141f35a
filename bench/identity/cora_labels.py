"""Labels of Cora that are wrong, by reading the records, and the set with these labels mended.

Cora tells a talk, a report and an article of one title apart, but not always. Only plain errors are mended: a record that describes another
work than its cluster (also a fused one, with the title of one work and the place of another), and a cluster whose records describe the same
publication as those of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bench.identity.sets import LabelledSet

OTHER_WORKS: Mapping[str, tuple[int, ...]] = {
    "On-line prediction and conversion strategies, EuroCOLT (in the cluster of How to use expert advice)": (*range(52, 63),),
    "On-line prediction and conversion strategies, Machine Learning (in the same cluster)": (71, 72, 73),
    "Boosting performance in neural networks, IJPRAI (in the cluster of Improving performance in neural networks, NIPS)": (
        112, 113, 114, *range(117, 128),
    ),
    "Pattern classification and scene analysis, fused with Improving performance in neural networks": (99,),
    "Accelerating learning using query by committee (in the cluster of Selective sampling)": (267,),
    "Thoughts on hypothesis boosting (in the cluster of Learning Boolean formulae or finite automata)": (709,),
    "Learning from a population of hypotheses, Machine Learning (in the cluster of Efficient noise-tolerant learning)": (1018, 1019, 1020),
    "Algorithmic stability and sanity-check bounds (in the cluster of An experimental and theoretical comparison)": (1048,),
    "Inference of finite automata, the chapter of a book (in the cluster of the article)": (1132, 1150),
    "Combining regression estimates, fused with The strength of weak learnability": (1171,),
    "Pattern languages are not learnable (in the cluster of The strength of weak learnability)": (1224,),
    "Private correspondence (in two clusters of The design and analysis of efficient learning algorithms)": (1241, 1248),
    "Query by committee, fused with Boosting the margin": (1265,),
}  # fmt: skip
"""Records, by their number in the set, of works that their cluster is not about."""
SAME_WORKS: tuple[tuple[int, int, str], ...] = (
    (93, 128, "Improving performance in neural networks, NIPS 5, pages 42-49"),
    (287, 1256, "A decision-theoretic generalization, EuroCOLT 1995"),
    (287, 315, "A decision-theoretic generalization, EuroCOLT 1995 as volume 904 of Lecture Notes in Artificial Intelligence"),
    (1226, 1247, "The design and analysis of efficient learning algorithms, MIT Press 1992, in both clusters"),
)
"""Records of two clusters that are one publication."""
MOVED = (887, 903)
"""The record of Learning from a population of hypotheses, COLT 1993, in another cluster, and that of its own."""


def mend_labels(cora: LabelledSet) -> LabelledSet:
    """The set with the labels above mended; new works have numbers that no record has."""
    assert cora.works is not None
    place = {record.doc_id: at for at, record in enumerate(cora.records)}
    works = list(cora.works)
    for numbers in OTHER_WORKS.values():
        for number in numbers:
            works[place[f"cora:{number}"]] = place[f"cora:{min(numbers)}"] + len(works)
    works[place[f"cora:{MOVED[0]}"]] = works[place[f"cora:{MOVED[1]}"]]
    for one, other, _ in SAME_WORKS:
        old, new = works[place[f"cora:{other}"]], works[place[f"cora:{one}"]]
        works = [new if work == old else work for work in works]
    return replace(cora, works=tuple(works))
