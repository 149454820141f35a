"""A counterpart of LanceDB Cloud on loopback: its REST protocol over tables in a folder, as far as a library uses it.

Written from the requests that LanceDB's client sends and https://docs.lancedb.com/api-reference/rest. It maintains nothing, and answers of
the real service may differ.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import lancedb
import pyarrow as pa
import pytest
from lancedb.index import FTS, Bitmap, BTree
from lancedb.query import BooleanQuery, FullTextQuery, MatchQuery, Occur, PhraseQuery

KEY = "sk-lancedb-canary-0001"

JSON_TYPES = {"bool": "boolean"}
"""Types by their name in Arrow, where they have another one in JSON."""


@dataclass
class LanceService:
    """The running service."""

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        return {"api_key": KEY, "region": "us-east-1", "host_override": self.url}


@contextmanager
def serving_lance(folder: Path) -> Iterator[LanceService]:
    connection = lancedb.connect(folder)
    writing = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            body = self._read_body()
            url = urlsplit(self.path)
            service.requests.append((self.command, self.path))
            if self.headers.get("x-api-key") != KEY:
                self._send(401, b"unauthorized")
                return
            with writing:
                try:
                    answer = answer_request(
                        connection, unquote(url.path), {name: one[0] for name, one in parse_qs(url.query).items()}, body
                    )
                except (ValueError, FileNotFoundError) as error:
                    self._send(404 if "not found" in str(error) else 400, json.dumps({"error": str(error)}).encode())
                    return
            self._send(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

        do_GET = do_POST  # noqa: N815 - as the base class names it

        def _read_body(self) -> bytes:
            if length := self.headers.get("content-length"):
                return self.rfile.read(int(length))
            body = b""
            while self.headers.get("transfer-encoding") and (size := int(self.rfile.readline().strip() or b"0", 16)):
                body += self.rfile.read(size)
                self.rfile.readline()
            if self.headers.get("transfer-encoding"):
                self.rfile.readline()
            return body

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("phalanx-version", "0.4.0")  # from 0.3 on, queries of words are sent with their structure
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service = LanceService(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def lance_service(tmp_path: Path) -> Iterator[LanceService]:
    with serving_lance(tmp_path / "service") as service:
        yield service


def answer_request(connection: Any, path: str, query: dict[str, str], body: bytes) -> Any:
    if path.startswith("/v1/namespace/"):
        return {"tables": sorted(connection.list_tables().tables)}
    _, _, _, name, *rest = path.rstrip("/").split("/")
    action = "/".join(rest)
    if action == "create":
        return create_table(connection, name, query, body)
    if action == "drop":
        connection.drop_table(name)
        return {}
    table = connection.open_table(name)
    asked = json.loads(body) if body.startswith(b"{") else {}
    if version := asked.get("version"):
        table.checkout(version)
    return answer_table(table, action, asked, query, body)


def create_table(connection: Any, name: str, query: dict[str, str], body: bytes) -> Any:
    if name not in connection.list_tables().tables:
        connection.create_table(name, schema=pa.ipc.open_stream(body).schema)
    elif query.get("mode") != "exist_ok":
        raise ValueError(f"table {name} already exists")
    return {}


def answer_table(table: Any, action: str, asked: dict[str, Any], query: dict[str, str], body: bytes) -> Any:
    match action.split("/"):
        case ["describe"]:
            return {"table": table.name, "version": table.version, "schema": write_schema(table.schema), "stats": {"num_rows": 0}}
        case ["count_rows"]:
            return table.count_rows(asked.get("predicate"))
        case ["query"]:
            return run_query(table, asked)
        case ["insert"]:
            table.add(pa.ipc.open_stream(body).read_all())
        case ["merge_insert"]:
            return merge(table, query, pa.ipc.open_stream(body).read_all())
        case ["delete"]:
            table.delete(asked["predicate"])
        case ["create_index"]:
            create_index(table, asked)
        case ["index", "list"]:
            return {
                "indexes": [
                    {"index_name": one.name, "index_uuid": "", "columns": one.columns, "status": "done"} for one in table.list_indices()
                ]
            }
        case ["index", index, "stats"]:
            stats = table.index_stats(index)
            figures = {"num_indexed_rows": stats.num_indexed_rows, "num_unindexed_rows": stats.num_unindexed_rows}
            return {**figures, "index_type": stats.index_type.upper(), "distance_type": stats.distance_type}
        case ["index", _, "prewarm"]:
            return {}
        case ["tags", "list"]:
            return {"tags": {name: {"version": tag["version"], "manifestSize": 1} for name, tag in table.tags.list().items()}}
        case ["tags", "create"]:
            table.tags.create(asked["tag"], asked["version"])
        case _:
            raise ValueError(f"this counterpart does not know {action}")
    return {"version": table.version}


def write_schema(schema: pa.Schema) -> dict[str, Any]:
    """As Arrow's Rust library writes it in JSON."""

    def write(one: pa.Field) -> dict[str, Any]:
        kind: dict[str, Any] = {"type": JSON_TYPES.get(str(one.type), str(one.type))}
        if pa.types.is_fixed_size_list(one.type):
            kind = {"type": "fixed_size_list", "fields": [write(one.type.value_field)], "length": one.type.list_size}
        elif pa.types.is_list(one.type):
            kind = {"type": "list", "fields": [write(one.type.value_field)]}
        metadata = {key.decode(): value.decode() for key, value in (one.metadata or {}).items()}
        return {"name": one.name, "type": kind, "nullable": one.nullable, "metadata": metadata}

    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    return {"fields": [write(one) for one in schema], "metadata": metadata}


def merge(table: Any, query: dict[str, str], rows: pa.Table) -> dict[str, int]:
    builder = table.merge_insert(query["on"])
    if query.get("when_matched_update_all") == "true":
        builder = builder.when_matched_update_all()
    if query.get("when_not_matched_insert_all") == "true":
        builder = builder.when_not_matched_insert_all()
    if condition := query.get("when_not_matched_by_source_delete_filt"):
        builder = builder.when_not_matched_by_source_delete(condition)
    done = builder.execute(rows)
    names = ("num_inserted_rows", "num_updated_rows", "num_deleted_rows", "version")
    return {name: int(getattr(done, name)) for name in names}


def create_index(table: Any, asked: dict[str, Any]) -> None:
    kind, column = asked["index_type"], asked["column"]
    if kind == "FTS":
        known = (
            "base_tokenizer",
            "stem",
            "remove_stop_words",
            "custom_stop_words",
            "with_position",
            "max_token_length",
            "lower_case",
            "language",
        )
        table.create_index(column, config=FTS(**{name: asked[name] for name in known if name in asked}))
    else:
        table.create_index(column, config={"BTREE": BTree(), "BITMAP": Bitmap()}[kind])


def run_query(table: Any, asked: dict[str, Any]) -> bytes:
    words, vector, k = asked.get("full_text_query"), asked.get("vector"), min(asked.get("k") or 10, 10**6)
    if words:
        search = table.search(read_words(words["query"]), query_type="fts", fts_columns=None)
    elif vector:
        search = table.search(vector, vector_column_name=asked["vector_column"], query_type="vector").distance_type(asked["distance_type"])
        search = search.bypass_vector_index() if asked.get("bypass_vector_index") else search
    else:
        search = table.search()
    if asked.get("filter"):
        search = search.where(asked["filter"], prefilter=True) if words or vector else search.where(asked["filter"])
    if asked.get("columns"):
        search = search.select(asked["columns"])
    rows = search.with_row_id(bool(asked.get("with_row_id"))).limit(k).to_arrow()
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def read_words(query: dict[str, Any]) -> FullTextQuery:
    ((kind, content),) = query.items()
    if kind == "match":
        return MatchQuery(content["terms"], content["column"], boost=content.get("boost", 1.0))
    if kind == "phrase":
        return PhraseQuery(content["terms"], content["column"])
    if kind == "boolean":
        return BooleanQuery(
            [(Occur[name.upper()], read_words(one)) for name in ("should", "must", "must_not") for one in content.get(name, ())]
        )
    raise ValueError(f"this counterpart does not know the query {kind}")
