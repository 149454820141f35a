"""Agreement of two reviewers who decided independently: equal decisions, Cohen's kappa

Cohen J. A coefficient of agreement for nominal scales. Educ Psychol Meas 1960;20:37. Kappa is (p - e) / (1 - e) with the share p of records
on which two reviewers decided alike and the share e that chance alone would give: the sum over the categories of the product of their two
shares. It is undefined where e is 1, that is, where both put every record into one and the same category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def count_agreed(pairs: Sequence[tuple[Hashable, Hashable]]) -> int:
    """Records on which two reviewers decided alike."""
    return sum(one == other for one, other in pairs)


def compute_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Cohen's kappa of the two decisions on each record; None where it is undefined, or there is no record."""
    number = len(pairs)
    ones, others = (Counter(pair[place] for pair in pairs) for place in (0, 1))
    by_chance = sum(count * others[category] for category, count in ones.items())  # in whole numbers, so that 1 is exact
    if by_chance == number**2:
        return None
    return (number * count_agreed(pairs) - by_chance) / (number**2 - by_chance)
