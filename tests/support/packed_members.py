"""Documents that are zip archives, such as DOCX and EPUB, written from their members."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path


def write_packed(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """Write the archive and return its path. Empty members are left out, so that a test can drop one."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data:
                archive.writestr(name, data)
    return path
