"""Weights of the levels of evidence, in log-odds.

Written by `python -m bench.identity.fitting`; do not edit.
Fitted on ASySD Diabetes, DBLP-ACM, Cora: 20,616 pairs of candidates, of which 8,912 are one work.
The entry "" is the base weight of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "": {
        "": -4.0,
    },
    "abstract": {
        "alike": -3.34,
        "equal": 0.0,
        "other": -3.14,
        "partly": -5.42,
    },
    "authors": {
        "all": 1.47,
        "all of one": -0.17,
        "both": 0.0,
        "most": 0.29,
        "none": -2.16,
        "some": 0.0,
        "the only one": 2.42,
    },
    "doi": {
        "differ": -2.79,
        "equal": 0.0,
    },
    "issue": {
        "differ": -1.36,
        "equal": 0.0,
    },
    "pages": {
        "differ": -1.39,
        "equal": 1.88,
        "first equal": 1.31,
    },
    "title": {
        "alike": 4.37,
        "alike, generic": 0.49,
        "alike, short": 3.26,
        "equal": 4.66,
        "equal, generic": 0.0,
        "equal, generic, authors too": 1.62,
        "equal, short": 5.94,
        "nearly equal": 5.14,
        "nearly equal, short": 1.72,
        "one within the other": 3.93,
        "one within the other, generic": 0.12,
        "one within the other, short": 4.93,
        "other": -1.01,
        "related": 3.45,
        "related, generic": -1.29,
        "similar": 5.91,
        "similar, short": -0.01,
    },
    "venue": {
        "alike": 1.29,
        "other": -1.16,
    },
    "venue's kind": {
        "differ": -1.2,
    },
    "volume": {
        "differ": -2.3,
        "equal": 0.68,
    },
    "year": {
        "1 apart": -1.61,
        "1 apart, printed alike": -0.19,
        "2 apart": -2.95,
        "2 apart, printed alike": -1.91,
        "equal": 1.34,
        "far apart": -1.21,
        "far apart, printed alike": 0.0,
    },
}
