"""Every setting with its type, meaning, default and bounds.

`search_config.yaml` documents the same values; a test compares them.
Values are validated strictly: `"100"` is not a number and `1` is not a flag, so that a typing error in a file is reported.
"""

from __future__ import annotations

import re
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import platformdirs
from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from outrider.settings.sections import Addresses, ApiKey, CacheSettings, Section, ServeSettings, SourcesSettings
from outrider.state.errors import BadRequest
from outrider.text.languages_and_work_types import TYPES, normal_language, normal_type

if TYPE_CHECKING:
    from outrider.state.request import Checkpoint, SearchRequest

MEBIBYTE = 2**20
DSN = re.compile(r"https?://[^\s:/@]+(:[^\s/@]*)?@[^\s/@]+(/[^\s/]+)*/\d+\Z")


def default_library() -> str:
    """`library` in the platform's data folder, for example `~/.local/share/outrider/library`."""
    return str(Path(platformdirs.user_data_dir("outrider", appauthor=False)) / "library")


class LibrarySettings(Section):
    """Where the records are stored."""

    uri: str = Field(
        default_factory=default_library,
        min_length=1,
        description="Folder, or s3://, gs:// or az:// address of the library; also OUTRIDER_LIBRARY or --library. By default in the "
        "platform's data folder.",
    )
    storage_options: dict[str, SecretStr] = Field(
        default_factory=dict, description="Options of the object store, such as aws_access_key_id; never shown."
    )
    read_consistency_s: float = Field(
        5.0,
        ge=0,
        le=3_600,
        description="Seconds that a search may miss what other processes write, in a library on object storage; 0 asks at each search.",
    )
    copy_tables: bool = Field(
        True,
        description="Whether what searches read of a library on object storage is copied to the cache folder of this machine: small "
        "tables, and the ranking index of up to 50,000 records. Then it is read from the store once and not by each process.",
    )


class RunSettings(Section):
    """Limits of one search."""

    run_timeout_s: float = Field(25.0, gt=0, le=600, description="Seconds a search may take.")
    candidates: int = Field(100, ge=1, le=10_000, description="Results requested from each source and strategy.")


class EmbeddingSettings(Section):
    """The model that embeds documents and queries."""

    model_name: str = Field(
        "auto",
        min_length=1,
        description="A hub name, a local folder, a name that base_url serves, none, or auto: the library's model, else the device's best.",
    )
    base_url: Addresses = Field(
        "",
        description="Address of an embeddings server, for example http://localhost:8080/v1 (vLLM, OpenAI's protocol) or "
        "http://localhost:8080 (TEI); several servers with the same model are separated by commas.",
    )
    api_key: ApiKey = Field(SecretStr(""), description="Key of these servers; never shown.")
    concurrency: int = Field(4, ge=1, le=256, description="Maximum number of concurrent requests to each of these servers.")
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu; auto takes the first available one.")
    context_length: int = Field(0, ge=0, le=32_768, description="Tokens of a document that are read; 0 for the model's limit.")
    batch_size: int = Field(64, ge=1, le=4_096, description="Maximum number of documents in a batch.")
    batch_tokens: int = Field(
        16_384, ge=1, description="Maximum number of tokens in a batch, including padding; a single document may be longer."
    )
    normalize_embeddings: bool = Field(True, description="Scale vectors to length 1.")
    timeout_s: float = Field(
        60.0,
        gt=0,
        le=3_600,
        description="Time limit of one request to a server, and of the wait for servers that refuse requests as busy, in seconds.",
    )
    reindex: Literal["offer", "auto"] = Field(
        "offer",
        description="If the library's vectors are of another model: offer the command that embeds all records, or start it in the "
        "background (auto).",
    )


class RerankerSettings(Section):
    """The model that reorders the first works by reading query and text together."""

    model_name: str = Field(
        "auto",
        min_length=1,
        description="A hub name, a local folder, a name that base_url serves, late-interaction, none, or auto: the probe's choice.",
    )
    base_url: Addresses = Field(
        "",
        description="Address of a rerank server (TEI, vLLM, Jina), for example http://localhost:8080; several servers with the same model "
        "are separated by commas.",
    )
    api_key: ApiKey = Field(SecretStr(""), description="Key of these servers; never shown.")
    concurrency: int = Field(4, ge=1, le=256, description="Maximum number of concurrent requests to each of these servers.")
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu; auto takes the first available one.")
    depth: int = Field(50, ge=1, le=1_000, description="Number of first works that are reordered; the rest keeps its order.")
    weight: float = Field(
        0.5, ge=0, le=1, description="Weight of the reranker's score relative to the earlier score; 1 uses the reranker's score alone."
    )
    timeout_s: float = Field(60.0, gt=0, le=3_600, description="Time limit of reordering one list by these servers, in seconds.")


class LlmSettings(Section):
    """The chat model that plans searches and scores works; without one, rules do."""

    model: str = Field(
        "auto",
        min_length=1,
        description="A name that the provider serves, none, or auto: a cheap model of the provider whose key is in the environment.",
    )
    base_url: Addresses = Field(
        "",
        description="Address of an OpenAI-compatible endpoint, for example http://localhost:11434/v1; several servers with the same model "
        "are separated by commas. Also OPENAI_BASE_URL.",
    )
    api_key: ApiKey = Field(SecretStr(""), description="Key of these servers; also OPENAI_API_KEY or DEEPSEEK_API_KEY. Never shown.")
    timeout_s: float = Field(8.0, gt=0, le=600, description="Time limit of one call, in seconds.")
    concurrency: int = Field(
        10, ge=1, le=1_000, description="Concurrent calls of this process, or of all that share shared.redis_url; 1: one by one."
    )
    max_calls: int = Field(200, ge=0, le=100_000, description="Maximum number of calls in one search; rules do the rest.")
    max_cost_usd: float | None = Field(
        None,
        ge=0,
        description="Maximum cost of one search in USD; a call that might exceed it is not made. 0: no paid call; null: no limit.",
    )
    prices: dict[str, str] = Field(
        default_factory=dict, description="Prices by model, as INPUT/OUTPUT in USD per million tokens, for example 0.05/0.40."
    )
    domain: str = Field(
        "general",
        min_length=1,
        description="Domain that the prompts explain: general, biomedical, computer_science, software, or a Markdown file.",
    )
    max_risk: float = Field(
        0.4,
        ge=0,
        le=1,
        description="A model stops reading when the chance that unread works would change the top is at most this, for repositories "
        "and for other works separately; 0 reads all.",
    )
    score_all: bool = Field(False, description="Score every candidate, even if the top works are unlikely to change.")


class RankingSettings(Section):
    """How ranked lists are fused, and how rules order candidates if no model scores them."""

    fusion: Literal["min_max", "rrf"] = Field(
        "min_max", description="Fusion of ranked lists: by score (min_max), or by rank alone, each list with weight 1 (rrf)."
    )
    dense_weight: float = Field(0.5, gt=0, le=1, description="Weight of dense search in the fusion by score.")
    sparse_weight: float = Field(0.5, gt=0, le=1, description="Weight of sparse search in the fusion by score.")
    graph_weight: float = Field(0.15, gt=0, le=1, description="Weight of graph search in the fusion by score.")
    rrf_k: int = Field(60, ge=1, le=1_000, description="The constant k of reciprocal rank fusion; a larger k flattens the ranks.")
    text_weight: float = Field(
        0.2, ge=0, le=1, description="Weight of BM25+ over the first candidates; half of it where vectors took part."
    )
    fused_weight: float = Field(0.7, ge=0, le=1, description="Weight of the fused rank.")
    recency_weight: float = Field(0.05, ge=0, le=1, description="Weight of a work's recency, where the request asks for new works.")
    citations_weight: float = Field(
        0.05, ge=0, le=1, description="Weight of citations or stars, where the request asks for well-known works."
    )
    recency_half_life_years: float = Field(10.0, gt=0, le=1_000, description="Age in years at which recency is one half.")

    @model_validator(mode="after")
    def check_weights(self) -> RankingSettings:
        if self.text_weight + self.fused_weight + self.recency_weight + self.citations_weight == 0:
            raise ValueError("all four weights are 0, so nothing can be ordered; set at least one above 0")
        return self


class OrganizerSettings(Section):
    """Threshold and facets."""

    relevance_threshold: float = Field(0.3, ge=0, le=1, description="Works that a model scores below this are dropped; rules drop nothing.")
    themes: int = Field(8, ge=0, le=100, description="Number of key themes in the facets.")
    authors: int = Field(10, ge=0, le=1_000, description="Number of authors in the facets.")
    theme_threshold: float = Field(0.5, ge=0, le=1, description="Hits that a model scores below this add no themes.")


class DistillerSettings(Section):
    """How the sentences that answer are selected, and when distillation is skipped."""

    engine: Literal["auto", "words", "words+", "lexical", "embedding", "ensemble", "classifier", "classifier+", "llmlingua2"] = Field(
        "auto",
        description="How sentences are scored: by words and position (words), in texts with sections also by the embedding model (words+), "
        "by words alone, by the embedding model, by all of these, by a classifier alone or together with them, or by LLMLingua-2. auto is "
        "words+ if the model of the library's vectors runs without torch, else words.",
    )
    model_name: str = Field(
        "mixedbread-ai/mxbai-rerank-xsmall-v1",
        min_length=1,
        description="The classifier: folder or hub name of a token or sequence classifier, such as a DeBERTa cross-encoder.",
    )
    llmlingua_model: str = Field(
        "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank",
        min_length=1,
        description="Folder or hub name of an LLMLingua-2 model.",
    )
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu, for both models; auto takes the first available one.")
    compress: bool = Field(
        False, description="Let LLMLingua-2 shorten the kept sentences, which are then not verbatim; the engine llmlingua2 always does."
    )
    compress_rate: float = Field(0.6, gt=0, le=1, description="Share of the words that LLMLingua-2 keeps.")
    threshold: float | None = Field(
        None, ge=0, le=1, description="Sentences with a score below this are left out; null: the engine's fitted threshold, else 0.4."
    )
    max_units: int = Field(
        3, ge=0, le=1_000, description="Most sentences of a hit; 0 keeps all that reach the threshold, as the promise requires."
    )
    max_units_first: int = Field(5, ge=0, le=1_000, description="Most sentences of the first hit; not used if `max_units` is 0.")
    max_context_tokens: int = Field(4_000, ge=0, le=1_000_000, description="Token budget of the distilled context; never exceeded.")
    tokenizer: str = Field(
        "", description="The tokenizer.json of the model that will read the context, for exact counts; empty for an upper estimate."
    )
    bypass: bool = Field(True, description="Pass texts unchanged if distilling them is not worthwhile.")
    bypass_tokens: int = Field(100, ge=0, le=1_000_000, description="Texts of up to this many tokens in total pass unchanged.")
    token_ms: float = Field(5.0, ge=0, le=60_000, description="Milliseconds of distilling that saving one token is worth; 0 for any time.")


class AnswerSettings(Section):
    """The short answer that a chat model writes from the kept sentences, with citations."""

    enabled: bool = Field(False, description="Write one in every search with a chat model; else where a search asks for it (--answer).")
    max_sentences: int = Field(5, ge=1, le=20, description="Maximum number of its sentences.")


class CheckpointSettings(Section):
    """Where a search waits for a person. The search is saved as a thread meanwhile."""

    after_plan: bool = Field(False, description="Wait after the plan, so that queries, sources and filters can be changed.")
    after_results: bool = Field(
        False, description="Wait after the results, so that works can be kept, dropped, or more like them searched."
    )

    def list_points(self, request: SearchRequest) -> tuple[Checkpoint, ...]:
        """Where this request waits: as it says, else by these settings, which only concern ranked searches."""
        if request.checkpoints is not None:
            return request.checkpoints
        own: tuple[tuple[Checkpoint, bool], ...] = (("plan", self.after_plan), ("results", self.after_results))
        return tuple(point for point, is_on in own if is_on and request.mode == "discovery")


class StarsSettings(Section):
    """Meaning of words such as "popular" in stars of a repository."""

    default_min: int = Field(50, ge=0, description="Minimum stars if the request does not mention them.")
    popular_min: int = Field(1_000, ge=0, description='Minimum stars of "popular".')
    mature_min: int = Field(5_000, ge=0, description='Minimum stars of "mature".')
    emerging_min: int = Field(10, ge=0, description='Minimum stars of "emerging" and "lightweight".')
    emerging_max: int = Field(1_000, ge=0, description='Maximum stars of "emerging".')
    lightweight_max: int = Field(500, ge=0, description='Maximum stars of "lightweight".')

    @model_validator(mode="after")
    def check_bounds(self) -> StarsSettings:
        for name in ("emerging_max", "lightweight_max"):
            if self.emerging_min > getattr(self, name):
                raise ValueError(f"emerging_min ({self.emerging_min}) is above {name} ({getattr(self, name)})")
        return self


class RepositorySettings(Section):
    """Weights of relevance and of a repository's dimensions in its score by a model."""

    relevance: float = Field(0.4, gt=0, le=1, description="Weight of relevance to the request.")
    maturity: float = Field(0.1, ge=0, le=1, description="Weight of age, stars and releases.")
    activity: float = Field(0.1, ge=0, le=1, description="Weight of recent activity.")
    documentation: float = Field(0.1, ge=0, le=1, description="Weight of documentation.")
    community: float = Field(0.1, ge=0, le=1, description="Weight of contributors, stars and forks.")
    ease_of_use: float = Field(0.1, ge=0, le=1, description="Weight of how easy it is to start using it.")
    maintenance: float = Field(0.1, ge=0, le=1, description="Weight of releases and responses to issues.")


class EnrichSettings(Section):
    """What is fetched before scoring: missing abstracts, pages, and data of repositories."""

    enabled: bool = Field(True, description="Fetch and save abstracts, pages and data of repositories.")
    lookups: int = Field(100, ge=0, le=1_000, description="Works without an abstract that are looked up by identifier.")
    pages: int = Field(10, ge=0, le=1_000, description="Maximum number of web pages fetched in one search.")
    time_s: float = Field(6.0, gt=0, le=600, description="Time limit in seconds, and at most two fifths of the run's remaining time.")
    idle_s: float = Field(3.0, gt=0, le=600, description="Seconds without a result after which lookups and pages are abandoned.")
    keep: bool = Field(True, description="Save abstracts and texts of services in the library; it is created if there is none.")
    full_text: Literal["off", "on_demand", "first_n"] = Field(
        "on_demand",
        description="Open full texts: never; for `outrider analyze`, `outrider library fulltext` and searches that ask for them; or for "
        "the first hits of every search.",
    )
    full_text_first: int = Field(5, ge=1, le=100, description="First hits of a search whose full texts are fetched.")
    full_text_s: float = Field(
        10.0, gt=0, le=600, description="Time limit of a search for them in seconds, and at most half of the run's remaining time."
    )
    full_text_work_s: float = Field(
        30.0, gt=0, le=600, description="Time limit in seconds for the full text of one work outside of a search."
    )
    full_text_licence: Literal["open", "stated", "reusable"] = Field(
        "open",
        description="Texts that are read: all open ones whose licence does not forbid it, those with a stated licence, or those under a "
        "Creative Commons licence or in the public domain.",
    )


class CoarseFilterSettings(Section):
    """Rules that remove works before scoring. A rule on a missing field passes."""

    updated_within_months: int = Field(
        12, ge=0, le=1_200, description="Remove repositories without a push for this many months; 0 keeps all."
    )
    max_age_years: int = Field(
        0,
        ge=0,
        le=100,
        description="Remove repositories created more years ago; 0 keeps all, because good projects such as React are old, too.",
    )
    paper_types: str = Field(
        "", description="Keep only papers of these types, separated by commas, such as article, review, preprint; empty for any."
    )
    paper_languages: str = Field("", description="Keep only papers in these languages, separated by commas, such as en, de; empty for any.")
    require_readme: bool = Field(True, description="Remove repositories without a README.")
    require_licence: bool = Field(False, description="Remove repositories without a licence.")
    archived: bool = Field(False, description="Keep archived repositories.")
    trivial_fork_forks: int = Field(10, ge=0, description="Remove forks with fewer forks of their own than this and ...")
    trivial_fork_share: float = Field(0.5, ge=0, le=1, description="... with less than this share of their parent's stars.")
    most_repositories: int = Field(25, ge=1, le=1_000, description="Maximum number of repositories to score, or top_k if that is more.")
    most_others: int = Field(
        100, ge=1, le=10_000, description="Maximum number of papers, pages and documents to score, or top_k if that is more."
    )

    @field_validator("paper_types")
    @classmethod
    def check_types(cls, names: str) -> str:
        for word in filter(str.strip, names.split(",")):
            if normal_type(word) is None:
                raise ValueError(f"names the unknown type {word.strip()!r}; known: {', '.join(TYPES)}")
        return names

    @field_validator("paper_languages")
    @classmethod
    def check_languages(cls, names: str) -> str:
        for word in filter(str.strip, names.split(",")):
            if normal_language(word) is None:
                raise ValueError(f"names the unknown language {word.strip()!r}; write a code of ISO 639 or an English name, such as en")
        return names


class IdentitySettings(Section):
    """Deduplication."""

    fold_versions: bool = Field(
        True, description="Merge a preprint and its publication into one hit with a link; otherwise they are two hits."
    )


class IngestSettings(Section):
    """Limits of ingestion."""

    max_bytes: int = Field(512 * MEBIBYTE, ge=1, description="Maximum size of a file after unpacking, in bytes.")
    max_pages: int = Field(10_000, ge=1, description="Maximum number of pages read from a PDF; the record says where reading stopped.")
    batch_records: int = Field(500, ge=1, le=100_000, description="Records written to the library in one batch.")


class AnalyzeSettings(Section):
    """One repository or paper in depth: `outrider analyze`."""

    timeout_s: float = Field(60.0, gt=0, le=600, description="Time limit in seconds.")
    beside: int = Field(5, ge=0, le=50, description="Number of alternatives to a repository, and of repositories related to a paper.")
    links: int = Field(20, ge=0, le=1_000, description="Number of works that a paper cites, and of works that cite it.")
    max_calls: int = Field(4, ge=0, le=1_000, description="Maximum number of model calls in one analysis; 0 uses rules only.")
    max_context_tokens: int = Field(1_000, ge=0, le=1_000_000, description="Token budget of the selected sentences.")


class ThreadSettings(Section):
    """Threads of searches: `outrider search --thread`. A search without a thread is not saved."""

    uri: str = Field("", description="A SQLite file or a postgresql:// address; by default a file in the platform's data folder.")
    retention_days: float = Field(30.0, gt=0, le=36_500, description="Days after which an unused thread is deleted.")
    connections: int = Field(8, ge=2, le=200, description="Maximum number of connections of one process to Postgres.")


class JobSettings(Section):
    """Background jobs: `outrider jobs`."""

    uri: str = Field(
        "",
        description="A SQLite file or a postgresql:// address; by default jobs.sqlite beside the file of the threads, or their database.",
    )
    at_once: int = Field(2, ge=1, le=32, description="Concurrent jobs that fetch works; one more job reads citations.")
    retention_days: float = Field(30.0, gt=0, le=36_500, description="Days after which an ended job, or an unrun citation job, is deleted.")


class SharedSettings(Section):
    """State that several `outrider serve` processes behind a proxy share; empty for one process on its own."""

    redis_url: str = Field(
        "",
        repr=False,
        description="A Redis server, such as redis://localhost:6379/0, that holds what all processes share: limits and failures of "
        "services, searches and their events, plans, and service responses unless cache.url names another server.",
    )
    lease_s: float = Field(
        15.0,
        ge=1,
        le=600,
        description="Seconds without a sign of life after which another process takes over the searches and threads of a process.",
    )


class ClusterSettings(Section):
    """Batch work on Ray: `--on ray`."""

    address: str = Field(
        "",
        description="Head node of a Ray cluster as HOST:PORT, auto for the cluster that runs on this machine, or local to start one there "
        "for the command; empty for RAY_ADDRESS, else local.",
    )
    connect_s: float = Field(60.0, gt=0, le=3_600, description="Time limit in seconds for the cluster and its first worker to answer.")
    embedders: int = Field(
        0, ge=0, le=10_000, description="Processes with the embedding model; 0 for one for each GPU of the cluster, or without any, CPU."
    )
    embedder_cpus: float = Field(1.0, ge=0, le=1_000, description="CPUs reserved for each of them.")
    embedder_gpus: float = Field(0.0, ge=0, le=100, description="GPUs reserved for each; 0 for one where the cluster has any.")
    batch_records: int = Field(
        2_000, ge=1, le=5_000, description="Records that are embedded at once and written in one commit; at most a few thousand."
    )
    read_timeout_s: float = Field(
        600.0, gt=0, le=86_400, description="Seconds without a record after which a file counts as one that cannot be read."
    )


def load_time_zone(name: str) -> tzinfo:
    """A time zone of the IANA database; raises `BadRequest` for one that it lacks."""
    if name == "UTC":  # known without the database, which some containers lack
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadRequest(f"there is no time zone {name[:100]!r}; name one such as Europe/Berlin or UTC") from error


class SavedSettings(Section):
    """Saved searches that run again: `outrider saved`."""

    uri: str = Field(
        "",
        description="A SQLite file or a postgresql:// address; by default saved.sqlite beside the file of the threads, or with "
        "shared.redis_url the database of the jobs.",
    )
    timezone: str = Field("UTC", min_length=1, description="Time zone of schedules that name none, such as Europe/Berlin.")
    keep_runs: int = Field(100, ge=2, le=10_000, description="Complete runs that are kept of each saved search; the oldest are deleted.")
    webhook_secret: ApiKey = Field(
        SecretStr(""), description="Signs what is sent to webhooks (HMAC-SHA-256); without one no webhook can be added. Never shown."
    )

    @field_validator("timezone")
    @classmethod
    def check_time_zone(cls, name: str) -> str:
        try:
            load_time_zone(name)
        except BadRequest as error:
            raise ValueError(f"is wrong: {error}") from error
        return name


class LearningSettings(Section):
    """Learning from use, on this machine only: `outrider learning`."""

    enabled: bool = Field(
        False, description="Remember which hits are kept, opened and dropped, and let that order hits once it is proven to help."
    )
    history: bool = Field(True, description="Remember queries for their completion, where learning is enabled.")
    file: str = Field("", description="A SQLite file; by default learning.sqlite beside the file of the threads.")


class CitationSettings(Section):
    """Citations of the works that were found."""

    after_search: Literal["on", "off"] = Field(
        "on",
        description="Queue a background job that reads the citations of a search's works; nothing is queued offline, or where no result is "
        "saved.",
    )


class CodeLinksSettings(Section):
    """Links between papers and repositories."""

    requests: int = Field(
        60,
        ge=0,
        le=5_000,
        description="Most requests to GitHub of one background job that reads repositories for their papers; an hour has 60 without a "
        "token, and a repository takes four.",
    )


class PlannerSettings(Section):
    """What searches took, for `outrider plan`: features and figures of runs, no query text."""

    enabled: bool = Field(True, description="Record what each search takes, so that plans rest on it.")
    file: str = Field("", description="The SQLite file of the record; by default runs.sqlite in the platform's data folder.")
    keep_runs: int = Field(500, ge=20, le=100_000, description="Runs that are kept; the oldest are deleted first.")


class SystematicSettings(Section):
    """Where systematic runs are stored, and how they are signed."""

    folder: str = Field("", description="Folder of the runs, one folder each; empty for `runs` in the platform's data folder.")
    page: int = Field(500, ge=1, le=10_000, description="Hits per page; a page is on disk before it is returned.")
    audit_log: str = Field("", description="Log file of all runs; empty for audit.jsonl in the folder of the runs.")
    signing_key: str = Field("", description="PEM file of your private Ed25519 key for signing manifests; empty for no signature.")
    identity_most: int = Field(
        50_000,
        ge=0,
        description="Maximum number of hits of several sources for deduplication by all fields; above it, by identifiers only.",
    )


class ReviewSettings(Section):
    """Screening of reviews: `outrider review`."""

    folder: str = Field("", description="Folder of the reviews, one folder each; empty for `reviews` in the platform's data folder.")
    reviewer: str = Field("", max_length=100, description="Your name as a reviewer; empty for that of your account on this machine.")


TextsToKeep = Literal["as_licensed", "open", "all"]


class RecorderSettings(Section):
    """Recordings of runs, to replay and compare."""

    enabled: bool = Field(False, description="Record each run of a graph; a command records its run with --record.")
    folder: str = Field("", description="Folder of the recordings; empty for `recordings` in the platform's data folder.")
    texts: TextsToKeep = Field(
        "as_licensed",
        description="Whole texts of works in a recording: `as_licensed` leaves out those whose stated licence forbids it, `open` "
        "those without an open licence, `all` none.",
    )


class TracingSettings(Section):
    """OpenTelemetry traces of nodes and calls; off if no collector is named."""

    endpoint: str = Field("", description="Address of an OTLP collector over HTTP, such as http://localhost:4318/v1/traces.")


def _check_dsn(secret: SecretStr) -> SecretStr:
    dsn = secret.get_secret_value()
    if dsn and not DSN.match(dsn):
        raise ValueError("is no DSN of an error tracker, such as https://key@host/1")
    return secret


class ErrorSettings(Section):
    """Reports of unexpected errors; off if no tracker is named."""

    dsn: Annotated[ApiKey, AfterValidator(_check_dsn)] = Field(
        SecretStr(""),
        description="Address (DSN) of an error tracker that speaks Sentry's protocol, such as https://key@host/1; never shown.",
    )
    environment: str = Field("production", min_length=1, max_length=64, description="Name of this installation in the reports.")
    messages: bool = Field(
        False, description="Send the messages of errors, too, without secrets; they may hold queries and texts of works."
    )


class Settings(Section):
    """All settings. Immutable; `services` reads them and passes plain values to nodes."""

    library: LibrarySettings = Field(default_factory=LibrarySettings)
    run: RunSettings = RunSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    ranking: RankingSettings = RankingSettings()
    reranker: RerankerSettings = RerankerSettings()
    llm: LlmSettings = LlmSettings()
    organizer: OrganizerSettings = OrganizerSettings()
    distiller: DistillerSettings = DistillerSettings()
    answer: AnswerSettings = AnswerSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    stars: StarsSettings = StarsSettings()
    repository: RepositorySettings = RepositorySettings()
    enrich: EnrichSettings = EnrichSettings()
    coarse_filter: CoarseFilterSettings = CoarseFilterSettings()
    identity: IdentitySettings = IdentitySettings()
    ingest: IngestSettings = IngestSettings()
    systematic: SystematicSettings = SystematicSettings()
    review: ReviewSettings = ReviewSettings()
    sources: SourcesSettings = SourcesSettings()
    cache: CacheSettings = CacheSettings()
    serve: ServeSettings = Field(default_factory=ServeSettings)
    threads: ThreadSettings = ThreadSettings()
    jobs: JobSettings = JobSettings()
    shared: SharedSettings = SharedSettings()
    cluster: ClusterSettings = ClusterSettings()
    saved: SavedSettings = SavedSettings()
    learning: LearningSettings = LearningSettings()
    citations: CitationSettings = CitationSettings()
    code_links: CodeLinksSettings = CodeLinksSettings()
    planner: PlannerSettings = PlannerSettings()
    analyze: AnalyzeSettings = AnalyzeSettings()
    recorder: RecorderSettings = RecorderSettings()
    tracing: TracingSettings = TracingSettings()
    errors: ErrorSettings = ErrorSettings()

    @property
    def answer_cache(self) -> CacheSettings:
        """The cache of service responses: on the shared server unless the settings name another."""
        url = self.cache.url or self.shared.redis_url
        return self.cache if url == self.cache.url else self.cache.model_copy(update={"url": url})
