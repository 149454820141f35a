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
        "alike": -2.92,
        "equal": 0.0,
        "other": -3.7,
        "partly": -5.02,
    },
    "authors": {
        "all": 1.19,
        "all of one": -0.35,
        "both": 0.0,
        "most": 0.04,
        "none": -2.01,
        "some": 0.0,
        "the only one": 1.84,
    },
    "doi": {
        "differ": -2.29,
        "equal": 0.0,
    },
    "issue": {
        "differ": -1.3,
        "equal": 0.0,
    },
    "pages": {
        "differ": -1.47,
        "equal": 1.35,
        "first equal": 1.16,
    },
    "title": {
        "alike": 4.64,
        "alike, generic": 0.65,
        "alike, short": 3.71,
        "equal": 4.63,
        "equal, generic": 0.16,
        "equal, generic, authors too": 1.8,
        "equal, short": 5.39,
        "nearly equal": 5.04,
        "nearly equal, short": 1.58,
        "one within the other": 4.26,
        "one within the other, generic": 0.7,
        "one within the other, short": 4.9,
        "other": -1.4,
        "related": 3.76,
        "related, generic": -1.27,
        "similar": 6.31,
        "similar, short": -0.01,
    },
    "venue": {
        "alike": 1.49,
        "other": -1.38,
    },
    "venue's kind": {
        "differ": -1.23,
    },
    "volume": {
        "differ": -1.8,
        "equal": 1.02,
    },
    "year": {
        "1 apart": -1.81,
        "1 apart, printed alike": -0.09,
        "2 apart": -2.65,
        "2 apart, printed alike": -2.94,
        "equal": 1.35,
        "far apart": -1.22,
        "far apart, printed alike": 0.0,
    },
}
