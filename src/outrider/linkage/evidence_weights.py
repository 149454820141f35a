"""Weights of the levels of evidence, in log-odds.

Written by `python -m bench.identity.fitting`; do not edit.
Fitted on ASySD Diabetes, DBLP-ACM, Cora: 20,550 pairs of candidates, of which 8,889 are one work.
The entry "" is the base weight of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "": {
        "": -4.0,
    },
    "abstract": {
        "alike": -3.82,
        "equal": 0.0,
        "other": -3.15,
        "partly": -5.44,
    },
    "authors": {
        "all": 1.45,
        "all of one": -0.2,
        "both": 0.0,
        "most": 0.44,
        "none": -2.29,
        "some": 0.0,
        "the only one": 2.59,
    },
    "doi": {
        "differ": -2.84,
        "equal": 0.0,
    },
    "issue": {
        "differ": -1.41,
        "equal": 0.0,
    },
    "pages": {
        "differ": -1.39,
        "equal": 1.86,
        "first equal": 1.32,
    },
    "title": {
        "alike": 4.34,
        "alike, generic": 0.43,
        "alike, short": 2.74,
        "equal": 4.66,
        "equal, generic": 0.0,
        "equal, generic, authors too": 2.06,
        "equal, short": 5.98,
        "nearly equal": 5.3,
        "nearly equal, short": 2.34,
        "one within the other": 4.52,
        "one within the other, generic": 0.06,
        "one within the other, short": 5.42,
        "other": -1.05,
        "related": 3.15,
        "related, generic": -1.4,
        "similar": 5.33,
        "similar, short": -0.06,
    },
    "venue": {
        "alike": 1.3,
        "other": -1.2,
    },
    "venue's kind": {
        "differ": -1.17,
    },
    "volume": {
        "differ": -2.42,
        "equal": 0.65,
    },
    "year": {
        "1 apart": -1.64,
        "1 apart, printed alike": 0.0,
        "2 apart": -3.0,
        "2 apart, printed alike": -1.92,
        "equal": 1.41,
        "far apart": -1.26,
        "far apart, printed alike": 0.0,
    },
}
