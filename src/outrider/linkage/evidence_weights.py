"""Weights of the levels of evidence, in log-odds.

Written by `python -m bench.identity.fitting`; do not edit.
Fitted on ASySD Diabetes, DBLP-ACM, Cora: 20,531 pairs of candidates, of which 8,872 are one work.
The entry "" is the base weight of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "": {
        "": -4.0,
    },
    "abstract": {
        "alike": -2.74,
        "equal": 0.0,
        "other": -3.83,
        "partly": -5.11,
    },
    "authors": {
        "all": 1.09,
        "all of one": -0.5,
        "both": 0.0,
        "most": -0.11,
        "none": -2.02,
        "some": -0.05,
        "the only one": 1.85,
    },
    "doi": {
        "differ": -2.26,
        "equal": 0.0,
    },
    "issue": {
        "differ": -1.31,
        "equal": 0.0,
    },
    "pages": {
        "differ": -1.39,
        "equal": 1.32,
        "first equal": 1.15,
    },
    "title": {
        "alike": 4.81,
        "alike, generic": 0.69,
        "alike, short": 3.7,
        "equal": 4.62,
        "equal, generic": 0.19,
        "equal, generic, authors too": 1.86,
        "equal, short": 5.43,
        "nearly equal": 5.13,
        "nearly equal, short": 1.65,
        "one within the other": 3.94,
        "one within the other, generic": 0.71,
        "one within the other, short": 5.2,
        "other": -1.36,
        "related": 3.71,
        "related, generic": -1.26,
        "similar": 5.99,
        "similar, short": -0.01,
    },
    "venue": {
        "alike": 1.42,
        "other": -1.48,
    },
    "venue's kind": {
        "differ": -1.32,
    },
    "volume": {
        "differ": -1.58,
        "equal": 1.2,
    },
    "year": {
        "1 apart": -1.63,
        "1 apart, printed alike": 0.0,
        "2 apart": -2.45,
        "2 apart, printed alike": -2.91,
        "equal": 1.39,
        "far apart": -1.19,
        "far apart, printed alike": 0.0,
    },
}
