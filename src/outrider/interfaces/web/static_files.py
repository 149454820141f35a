"""Static files of the pages, read once: HTML, style, JavaScript modules, Swagger UI.

The files of Swagger UI come from the package `fastapi-offline`.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
PAGES: Mapping[str, tuple[str, ...]] = {
    "index.html": ("/",),
    "docs.html": ("/docs",),
    "playground.html": tuple(f"/{graph}/playground{end}" for graph in ("search", "analyze") for end in ("/", "")),
}
"""Addresses of the pages; all other files are below `/page/`. A playground without the slash is redirected."""
SWAGGER_PACKAGE = "fastapi_offline"
SWAGGER_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")
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
"""Only these scripts and styles, and no text that becomes HTML. A diagram is an image that the page makes from the received data."""
SWAGGER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Swagger UI makes HTML from the descriptions, which are ours, and sets styles."""


class File(NamedTuple):
    body: bytes
    media_type: str
    policy: str = POLICY
    packed: bytes = b""
    """The body in the coding gzip."""

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Content-Security-Policy": self.policy, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}


def addresses() -> Mapping[str, Path]:
    """The address of each file. They need no key: the page itself asks for one."""
    own = {path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
    files = {address: path for name, path in own.items() for address in PAGES.get(name, (f"/page/{name}",))}
    spec = find_spec(SWAGGER_PACKAGE)
    if spec is None or spec.origin is None:  # MCP over HTTP imports this, and needs no page
        return files
    return files | {f"/page/{name}": Path(spec.origin).parent / "static" / name for name in SWAGGER_FILES}


def read_files() -> Mapping[str, File]:
    files = {address: path for address, path in addresses().items() if address.endswith("/") or not address.endswith("/playground")}
    return {address: _read_file(path, SWAGGER_POLICY if address == "/docs" else POLICY) for address, path in files.items()}


@cache
def _read_file(path: Path, policy: str) -> File:
    body = path.read_bytes()
    return File(body, TYPES[path.suffix], policy, gzip.compress(body, mtime=0))
