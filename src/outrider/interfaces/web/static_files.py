"""The page's own files, read once: one page, its style and its modules, all from this server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
SHELL = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No script or style but these files, and no text that becomes HTML. A diagram is an image that the page makes of what it was sent."""
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}


class File(NamedTuple):
    body: bytes
    media_type: str


def addresses() -> Mapping[str, Path]:
    """Where each file is served. They are open to everybody: a key is asked for by the page itself."""
    found = sorted(path for path in FOLDER.iterdir() if path.suffix in TYPES)
    return {"/" if path.name == SHELL else f"/page/{path.name}": path for path in found}


def read() -> Mapping[str, File]:
    return {address: File(path.read_bytes(), TYPES[path.suffix]) for address, path in addresses().items()}
