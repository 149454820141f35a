"""The module `bench`, a folder of the repository outside the distribution, imported without the root on the path.

On the path, the root would also offer `state`, `graph` and the others under their bare names.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from bench import data

FOLDER = Path(__file__).parents[2] / "bench"

_spec = importlib.util.spec_from_file_location("bench", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
assert _spec is not None
assert _spec.loader is not None
sys.modules["bench"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["bench"])

TITLES = ("Soil bacteria", "Wing flutter", "Flutter of wings and tails")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> data.Collection:
    """Three documents, the third linked to the first two by citation, and two queries, one of them judged."""
    from bench import data

    folder = tmp_path / "ir" / "tiny"
    folder.mkdir(parents=True)
    documents = [{"id": str(place), "title": title, "linked": []} for place, title in enumerate(TITLES, start=1)]
    documents[1] |= {"linked": ["3"]}
    documents[2] |= {"linked": ["1", "2"]}
    queries = [{"id": "a", "text": "flutter of a wing"}, {"id": "b", "text": "nothing judged"}]
    for name, rows in (("corpus", documents), ("queries", queries)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)
    (folder / "qrels.tsv").write_text("query\tdoc\trelevance\na\t2\t1\na\t3\t1\n", encoding="utf-8")
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    return data.collection("tiny")
