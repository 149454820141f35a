"""The design's ten requests for repositories, and made-up projects around each.

Some of the projects answer it. A request has two parts. A project answers it if it has both, in one of the words for each. Most do not:
another framework, another subject, or the same words for another use (a course, a list, a demo). Stars, age and maintenance are drawn
independently of that.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.answers import Project

PROJECTS = 60
ANSWERING, ELSEWHERE, OTHERWISE = 18, 16, 14
"""Of the 60: those that answer, with another first part, with another second part; the rest are of another use."""
SEED = 20_261_121


@dataclass(frozen=True, slots=True)
class Request:
    text: str
    language: str
    first: tuple[str, ...]
    """Words for the first part, the usual one first."""
    second: tuple[str, ...]
    not_first: tuple[str, ...]
    not_second: tuple[str, ...]


WEB = ("routing", "charts", "state management", "testing")
REQUESTS = (
    Request(
        "React animation library", "TypeScript",
        ("react",), ("animation", "motion", "transitions", "springs"),
        ("vue", "angular"), WEB,
    ),
    Request(
        "Rust web framework", "Rust",
        ("rust",), ("web framework", "http server", "rest api", "async web"),
        ("elixir", "zig"), ("cli parser", "game engine", "serialization"),
    ),
    Request(
        "Python ML tool", "Python",
        ("python",), ("machine learning", "ml", "model training", "gradient boosting"),
        ("julia", "scala"), ("web scraping", "orm", "plotting"),
    ),
    Request(
        "Svelte drag and drop", "TypeScript",
        ("svelte",), ("drag and drop", "dnd", "sortable", "draggable"),
        ("react", "vue"), WEB,
    ),
    Request(
        "Go microservices", "Go",
        ("go", "golang"), ("microservices", "microservice", "grpc services", "service mesh"),
        ("java", "node"), ("image processing", "static site", "terminal ui"),
    ),
    Request(
        "TypeScript ORM", "TypeScript",
        ("typescript",), ("orm", "query builder", "database mapper", "sql models"),
        ("ruby", "php"), ("routing", "charts", "state management", "testing"),
    ),
    Request(
        "Vue 3 component library", "TypeScript",
        ("vue 3", "vue"), ("component library", "ui components", "design system", "widgets"),
        ("react", "angular"), ("routing", "state management", "i18n"),
    ),
    Request(
        "CLI tool for developers", "",
        ("developers", "developer"), ("cli", "command line", "terminal tool", "shell"),
        ("musicians", "gamers"), ("browser extension", "mobile app", "web dashboard"),
    ),
    Request(
        "GraphQL client for React", "TypeScript",
        ("react",), ("graphql client", "graphql", "graphql cache", "graphql hooks"),
        ("angular", "swift"), WEB,
    ),
    Request(
        "Open source CRM", "",
        ("open source", "self-hosted"), ("crm", "customer relationship", "sales pipeline", "contact management"),
        ("proprietary", "hosted on theirs"), ("invoicing", "wiki", "help desk"),
    ),
)  # fmt: skip
DESCRIPTIONS = (
    "{second} for {first}",
    "{first}: {second} made simple",
    "Fast, small {second} in {first}",
    "Declarative {second}, built for {first}",
)
USED_OTHERWISE = (
    "A course on {second} with {first}",
    "Awesome {first}: a list of {second} resources",
    "Demo app: {second} and {first}",
    "Template to begin a {first} site with {second}",
    "Slides of a talk about {second} in {first}",
    "Interview questions on {first} and {second}",
)
NAMES = ("spring", "fern", "otter", "basalt", "kite", "ember", "quill", "harbor", "lumen", "thicket", "cobalt", "marsh")
README = (
    "# {name}\n\n{description}.\n\n## Install\n\nOne command: `install {name}`.\n\n"
    "## Use\n\n{words} in a few lines; see docs and examples.\n"
)


def projects(request: Request, now: float) -> tuple[tuple[Project, ...], frozenset[str]]:
    """The projects around a request, and the full names of those that answer it. `now` in seconds since the epoch."""
    draw = random.Random(f"{SEED} {request.text}")
    described = list(_descriptions(request, draw))
    every = tuple(_project(request, at, text, words, now, draw) for at, (text, words) in enumerate(described))
    return every, frozenset(project.full_name for project in every[:ANSWERING])


def _descriptions(request: Request, draw: random.Random) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each project's description, and the words of both parts in it; those that answer come first."""
    parts = (
        (ANSWERING, DESCRIPTIONS, request.first, request.second),
        (ELSEWHERE, DESCRIPTIONS, request.not_first, request.second),
        (OTHERWISE, DESCRIPTIONS, request.first, request.not_second),
        (PROJECTS - ANSWERING - ELSEWHERE - OTHERWISE, USED_OTHERWISE, request.first, request.second),
    )
    for count, forms, first, second in parts:
        for _ in range(count):
            words = (draw.choice(first), draw.choice(second))
            yield draw.choice(forms).format(first=words[0], second=words[1]), words


def _project(request: Request, at: int, description: str, words: tuple[str, str], now: float, draw: random.Random) -> Project:
    name = f"{draw.choice(NAMES)}-{draw.choice(NAMES)}-{at}"
    stars = int(10 ** draw.uniform(1.3, 4.6))
    tags = tuple(word.replace(" ", "-") for word in words if draw.random() < 0.7)
    return Project(
        f"{draw.choice(NAMES)}-labs-{REQUESTS.index(request)}/{name}",
        description,
        stars=stars,
        forks=stars // 12,
        language=request.language or draw.choice(("Go", "Rust", "Python")),
        topics=tags,
        created_at=_ago(now, draw.uniform(400, 3_000)),
        pushed_at=_ago(now, draw.expovariate(1 / 120)),
        archived=draw.random() < 0.05,
        readme=README.format(name=name, description=description, words=" ".join(words)),
    )


def _ago(now: float, days: float) -> str:
    return (datetime.fromtimestamp(now, UTC) - timedelta(days=days)).isoformat(timespec="seconds").replace("+00:00", "Z")
