"""`serving`, the server of these tests, is found here: `sources` on the path is the adapters' own folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
