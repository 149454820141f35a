"""The folder of the shared collections: `OUTRIDER_DATA`, else `shared/data` next to the checkout. Tests of it skip where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

DATA = Path(os.environ.get("OUTRIDER_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
