"""`bench` is a folder of the repository, not of the distribution: it is found here without putting the root on the path.

On the path, the root would also offer `state`, `graph` and the others under their bare names.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "bench"

_spec = importlib.util.spec_from_file_location("bench", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
assert _spec is not None
assert _spec.loader is not None
sys.modules["bench"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["bench"])
