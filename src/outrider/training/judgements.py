"""What people judged, as JSONL: `{"query": "...", "doc_id": "...", "relevance": 0}`; 0 is not relevant, more is more relevant."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from outrider.state.errors import BadRequest
from outrider.state.model import Model

SHOWN = 5
EXAMPLE = '{"query": "aspirin and the liver", "doc_id": "...", "relevance": 1}'


class Judgement(Model):
    query: str = Field(min_length=1)
    doc_id: str = Field(min_length=1)
    relevance: int = Field(ge=0, le=100, strict=True)


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Relevance by query and id, in the order of the file; of two judgements of one pair the later counts.

    `BadRequest` names each bad line as file:line (the first few of them).
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # a JSON text may hold what else counts as a line's end
    except OSError as error:
        raise BadRequest(f"the judgements {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"the judgements {path} are not UTF-8 text; save them as JSONL in UTF-8, lines such as {EXAMPLE}") from error
    judged: dict[str, dict[str, int]] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = Judgement.model_validate_json(line)
        except ValidationError as error:
            problems.append(f"{path}:{number}: {_said(error)}")
        else:
            judged.setdefault(" ".join(found.query.split()), {})[found.doc_id] = found.relevance
    if problems:
        more = f" (and {len(problems) - SHOWN:,} more)" if len(problems) > SHOWN else ""
        raise BadRequest("; ".join(problems[:SHOWN]) + more + f". A line is for example {EXAMPLE}")
    if not judged:
        raise BadRequest(f"{path} holds no judgement; write lines such as {EXAMPLE}")
    return judged


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"]
