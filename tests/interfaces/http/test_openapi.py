"""The OpenAPI description, and conformance of the server to it (schemathesis)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from outrider.interfaces.http.server import build_application
from support.http_app import ASPIRIN, open_client, running, services

schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
EXAMPLES = 3
LEFT_OUT = ("/health", "/search/stream_log", "/analyze/stream_log")
"""Tested elsewhere: routes that load models, and routes that LangChain itself deprecates."""


def test_every_operation_declares_its_problems_and_has_no_validation_error_of_fastapi() -> None:
    description = build_application(services()).app.openapi()
    operations = [one for item in description["paths"].values() for one in item.values()]
    assert len(operations) > 15
    for one in operations:
        for status in ("401", "413", "422", "429", "500", "503"):
            assert list(one["responses"][status]["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in description["components"]["schemas"]
    assert description["paths"]["/api/search"]["post"]["requestBody"]["content"]["application/json"]["examples"]


def test_streams_declare_events() -> None:
    paths = build_application(services()).app.openapi()["paths"]
    for path in ("/search/stream", "/search/stream_log", "/search/stream_events", "/analyze/stream"):
        assert "text/event-stream" in paths[path]["post"]["responses"]["200"]["content"]


async def test_the_examples_of_langserve_run_as_they_stand() -> None:
    async with open_client(services(ASPIRIN)) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        for route in ("invoke", "batch", "stream"):
            for graph in ("search", "analyze"):
                body = paths[f"/{graph}/{route}"]["post"]["requestBody"]["content"]["application/json"]["example"]
                assert (await client.post(f"/{graph}/{route}", json=body)).status_code == 200


@pytest.fixture
def patch_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """hypothesis-jsonschema 0.23 calls `many.more()`; current Hypothesis iterates instead."""
    from hypothesis.internal.conjecture.utils import many

    def more(self: Any) -> bool:
        if not hasattr(self, "steps"):
            self.steps = iter(self.__enter__())
        steps = self.steps
        return next(steps, steps) is not steps

    if not hasattr(many, "more"):
        monkeypatch.setattr(many, "more", more, raising=False)


@pytest.mark.usefixtures("patch_many")
@pytest.mark.filterwarnings("ignore")
def test_every_answer_conforms_to_the_description() -> None:
    """Requests generated from the schema: status, media type and form of every answer are declared, and none is a bug."""
    with running(services(ASPIRIN)) as base_url:
        description = httpx.get(f"{base_url}/openapi.json", timeout=60).json()
        for operation in (one for item in description["paths"].values() for one in item.values()):
            operation.pop("security", None)  # keys have tests of their own
        schema = schemathesis.openapi.from_dict(description)
        schema.config.update(base_url=base_url)
        operations = [one.ok() for one in schema.get_all_operations()]
        case_counts = [explore_operation(one) for one in operations if one.path not in LEFT_OUT]
    assert sum(case_counts) >= len(operations)


def explore_operation(operation: Any) -> int:
    from schemathesis.specs.openapi import checks

    conformance_checks = [checks.status_code_conformance, checks.content_type_conformance, checks.response_schema_conformance]
    case_count = 0

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def explore(case: Any) -> None:
        nonlocal case_count
        case_count += 1
        answer = case.call_and_validate(checks=conformance_checks, timeout=30)
        assert answer.status_code not in (500, 504), answer.text

    explore()
    return case_count
