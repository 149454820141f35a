"""The reports of a run, as files in a folder."""

from __future__ import annotations

from pathlib import Path

from outrider.state.errors import BadRequest
from outrider.systematic_search.manifest import Manifest
from outrider.systematic_search.prisma import flow_json, flow_markdown, flow_of, log_json, log_markdown
from outrider.systematic_search.prisma_diagram import diagram


def written(manifest: Manifest, folder: Path) -> tuple[Path, ...]:
    """PRISMA 2020 as JSON, Markdown and SVG, PRISMA-S as JSON and Markdown; files of these names are written over."""
    flow = flow_of(manifest)
    texts = {
        "prisma-2020.json": flow_json(flow),
        "prisma-2020.md": flow_markdown(flow),
        "prisma-2020.svg": diagram(flow),
        "prisma-s.json": log_json(manifest),
        "prisma-s.md": log_markdown(manifest),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadRequest(f"the reports cannot be written to {folder}: {error.strerror or error}") from error
    return tuple(folder / name for name in texts)
