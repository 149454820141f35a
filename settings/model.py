"""Every setting as a type: its meaning, default and bounds. `search_config.yaml` documents the same, and a test compares them.

Values are checked strictly: `"100"` is not a number and `1` is not a flag, so that a slip in a file is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import Field, SecretStr, field_validator, model_validator

from outrider.settings.section import ApiKey, Section
from outrider.settings.serving import ServeSettings
from outrider.settings.sources import CacheSettings, SourcesSettings
from outrider.state.languages import normal_language
from outrider.state.work_types import TYPES, normal_type

MEBIBYTE = 2**20


def default_library() -> str:
    """`library` in the platform's data folder, for example `~/.local/share/outrider/library`."""
    return str(Path(platformdirs.user_data_dir("outrider", appauthor=False)) / "library")


class LibrarySettings(Section):
    """Where the records are kept."""

    uri: str = Field(
        default_factory=default_library,
        min_length=1,
        description="Folder or s3:// address of the library; also OUTRIDER_LIBRARY or --library. By default in the platform's data folder.",
    )
    storage_options: dict[str, SecretStr] = Field(
        default_factory=dict, description="Options of the object store, such as aws_access_key_id; never shown."
    )


class RunSettings(Section):
    """What one search may take."""

    run_timeout_s: float = Field(25.0, gt=0, le=600, description="Seconds a search may take.")
    candidates: int = Field(100, ge=1, le=10_000, description="Results asked of each source and strategy.")


class EmbeddingSettings(Section):
    """The model that turns a text into one vector, for writing and for reading."""

    model_name: str = Field(
        "auto",
        min_length=1,
        description="A hub name, a local folder, a name that base_url serves, none, or auto: the library's own, else the device's best.",
    )
    base_url: str = Field(
        "", description="Address of an OpenAI-compatible embeddings endpoint (vLLM, TEI), for example http://localhost:8080/v1."
    )
    api_key: ApiKey = Field(SecretStr(""), description="Key of that endpoint; never shown.")
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu; auto takes the first that is there.")
    context_length: int = Field(0, ge=0, le=32_768, description="Tokens of a document that are read; 0 for all that the model reads.")
    batch_size: int = Field(64, ge=1, le=4_096, description="Most documents embedded at once.")
    batch_tokens: int = Field(16_384, ge=1, description="Most tokens embedded at once, padding included; one document may be longer.")
    normalize_embeddings: bool = Field(True, description="Scale vectors to length 1.")
    timeout_s: float = Field(60.0, gt=0, le=3_600, description="Seconds one request to the endpoint may take.")


class RerankerSettings(Section):
    """The model that reorders the first works by reading query and text together."""

    model_name: str = Field(
        "auto",
        min_length=1,
        description="A hub name, a local folder, a name that base_url serves, late-interaction, none, or auto: what the probe chose.",
    )
    base_url: str = Field("", description="Address of a rerank endpoint (TEI, vLLM, Jina), for example http://localhost:8080.")
    api_key: ApiKey = Field(SecretStr(""), description="Key of that endpoint; never shown.")
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu; auto takes the first that is there.")
    depth: int = Field(50, ge=1, le=1_000, description="How many of the first works are reordered; the rest follows as it was.")
    weight: float = Field(
        0.5, ge=0, le=1, description="Weight of the reranker's score beside the score before it; 1 leaves the order to it alone."
    )
    timeout_s: float = Field(60.0, gt=0, le=3_600, description="Seconds one request to the endpoint may take.")


class LlmSettings(Section):
    """The chat model that understands requests and judges works; without one, rules do."""

    model: str = Field(
        "auto",
        min_length=1,
        description="A name that the provider serves, none, or auto: a cheap model of the provider whose key is in the environment.",
    )
    base_url: str = Field(
        "", description="Address of an OpenAI-compatible endpoint, for example http://localhost:11434/v1; also OPENAI_BASE_URL."
    )
    api_key: ApiKey = Field(SecretStr(""), description="Its key; also OPENAI_API_KEY or DEEPSEEK_API_KEY. Never shown.")
    timeout_s: float = Field(8.0, gt=0, le=600, description="Seconds one call may take.")
    concurrency: int = Field(10, ge=1, le=1_000, description="Calls under way at once in this process; 1 makes them one after another.")
    max_calls: int = Field(200, ge=0, le=100_000, description="Calls of one search; when they are spent, rules do the rest.")
    max_cost_usd: float | None = Field(
        None,
        ge=0,
        description="USD that one search may cost; a call that might go beyond is not made. 0: none that is paid; null: no bound.",
    )
    prices: dict[str, str] = Field(
        default_factory=dict, description="Prices by model, as INPUT/OUTPUT in USD for a million tokens, for example 0.05/0.40."
    )
    domain: str = Field(
        "general",
        min_length=1,
        description="Field whose words prompts explain: general, biomedical, computer_science, software, or a Markdown file.",
    )
    max_risk: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Chance, of repositories and of all other works each, that unread ones would change the first, at which a model stops "
        "reading; 0 reads all.",
    )
    score_all: bool = Field(False, description="Have every candidate scored, even where the first works can hardly change any more.")


class RankingSettings(Section):
    """How ranked lists are fused, and how rules order candidates while no model scores them."""

    fusion: Literal["min_max", "rrf"] = Field("min_max", description="How ranked lists become one: by their scores, or by rank alone.")
    dense_weight: float = Field(0.4, gt=0, le=1, description="Weight of the search by vectors in the fusion.")
    sparse_weight: float = Field(0.6, gt=0, le=1, description="Weight of the search by words in the fusion.")
    graph_weight: float = Field(0.15, gt=0, le=1, description="Weight of the search through the graph in the fusion.")
    rrf_k: int = Field(60, ge=1, le=1_000, description="The constant k of reciprocal rank fusion; larger flattens the ranks.")
    text_weight: float = Field(0.2, ge=0, le=1, description="Weight of BM25+ over the first candidates.")
    fused_weight: float = Field(0.7, ge=0, le=1, description="Weight of the fused rank of the searches.")
    recency_weight: float = Field(0.05, ge=0, le=1, description="Weight of how new a work is.")
    citations_weight: float = Field(0.05, ge=0, le=1, description="Weight of citations or stars, on a logarithmic scale.")
    recency_half_life_years: float = Field(10.0, gt=0, le=1_000, description="Years after which a work counts half as new.")

    @model_validator(mode="after")
    def _weighs_something(self) -> RankingSettings:
        if self.text_weight + self.fused_weight + self.recency_weight + self.citations_weight == 0:
            raise ValueError("all four weights are 0, which orders nothing; give at least one more than 0")
        return self


class OrganizerSettings(Section):
    """Threshold and facets."""

    relevance_threshold: float = Field(0.3, ge=0, le=1, description="A model's score below this is dropped; rules drop nothing.")
    themes: int = Field(8, ge=0, le=100, description="Key themes in the facets.")
    authors: int = Field(10, ge=0, le=1_000, description="Authors in the facets.")
    theme_threshold: float = Field(0.5, ge=0, le=1, description="Model-scored hits below this give no themes.")


class DistillerSettings(Section):
    """How the sentences that answer are chosen, and when they are worth choosing."""

    engine: Literal["auto", "words", "lexical", "embedding", "ensemble", "classifier", "classifier+", "llmlingua2"] = Field(
        "auto",
        description="What judges sentences: words and place in the text (auto), words alone, the embedding model, all of these, a "
        "classifier alone or beside them, or LLMLingua-2.",
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
    device: str = Field("auto", min_length=1, description="cuda, mps or cpu, for both; auto takes the first that is there.")
    compress: bool = Field(
        False, description="Whether LLMLingua-2 leaves words out of what is kept, which is not verbatim then; the engine llmlingua2 does."
    )
    compress_rate: float = Field(0.6, gt=0, le=1, description="Share of the words that it leaves.")
    threshold: float | None = Field(
        None, ge=0, le=1, description="Sentences below it are left out; null: what was fitted for the engine, else 0.4."
    )
    max_context_tokens: int = Field(4_000, ge=0, le=1_000_000, description="Token budget of the distilled context; never exceeded.")
    tokenizer: str = Field(
        "", description="The tokenizer.json of the model that will read the context, to count with; empty for an estimate from above."
    )
    bypass: bool = Field(True, description="Whether texts pass as they are where distilling them is not worth it.")
    bypass_tokens: int = Field(100, ge=0, le=1_000_000, description="Texts of so many tokens together are short already.")
    token_ms: float = Field(5.0, ge=0, le=60_000, description="Milliseconds of distilling that one token less is worth; 0 for any time.")


class StarsSettings(Section):
    """What words such as "popular" mean in stars of a repository."""

    default_min: int = Field(50, ge=0, description="Fewest stars where the request says nothing about them.")
    popular_min: int = Field(1_000, ge=0, description='Fewest stars of "popular".')
    mature_min: int = Field(5_000, ge=0, description='Fewest stars of "mature".')
    emerging_min: int = Field(10, ge=0, description='Fewest stars of "emerging" and "lightweight".')
    emerging_max: int = Field(1_000, ge=0, description='Most stars of "emerging".')
    lightweight_max: int = Field(500, ge=0, description='Most stars of "lightweight".')

    @model_validator(mode="after")
    def _ordered(self) -> StarsSettings:
        for name in ("emerging_max", "lightweight_max"):
            if self.emerging_min > getattr(self, name):
                raise ValueError(f"emerging_min ({self.emerging_min}) is above {name} ({getattr(self, name)})")
        return self


class RepositorySettings(Section):
    """Weights of relevance and of a repository's dimensions in the score that it gets where a model judges."""

    relevance: float = Field(0.4, gt=0, le=1, description="Weight of how well it answers the request.")
    maturity: float = Field(0.1, ge=0, le=1, description="Weight of its age, stars and releases.")
    activity: float = Field(0.1, ge=0, le=1, description="Weight of what happened in it lately.")
    documentation: float = Field(0.1, ge=0, le=1, description="Weight of its documentation.")
    community: float = Field(0.1, ge=0, le=1, description="Weight of its contributors, stars and forks.")
    ease_of_use: float = Field(0.1, ge=0, le=1, description="Weight of how easily one begins to use it.")
    maintenance: float = Field(0.1, ge=0, le=1, description="Weight of its releases and answers to issues.")


class EnrichSettings(Section):
    """What is fetched of works before they are scored: missing abstracts, pages, what repositories say of themselves."""

    enabled: bool = Field(True, description="Whether abstracts, pages and repositories are fetched, and kept.")
    lookups: int = Field(100, ge=0, le=1_000, description="Works without an abstract that services are asked for by identifier.")
    pages: int = Field(10, ge=0, le=1_000, description="Web pages that are fetched in one search.")
    time_s: float = Field(6.0, gt=0, le=600, description="Seconds it may take, and at most two fifths of those that the run has left.")
    idle_s: float = Field(3.0, gt=0, le=600, description="Seconds without news after which lookups and pages are given up.")
    keep: bool = Field(True, description="Whether abstracts and texts of services are kept in the library, made where there is none.")


class CoarseFilterSettings(Section):
    """Rules that remove works before they are scored. A rule on a field that a record lacks passes."""

    updated_within_months: int = Field(12, ge=0, le=1_200, description="A repository without a push for longer is removed; 0 for any.")
    max_age_years: int = Field(0, ge=0, le=100, description="A repository begun longer ago is removed; 0 for any, since React is old, too.")
    paper_types: str = Field(
        "", description="Only papers of these types, with commas between, such as article, review, preprint; empty for any."
    )
    paper_languages: str = Field("", description="Only papers in these languages, with commas between, such as en, de; empty for any.")
    require_readme: bool = Field(True, description="Whether a repository without a README is removed.")
    require_licence: bool = Field(False, description="Whether a repository without a licence is removed.")
    archived: bool = Field(False, description="Whether archived repositories stay.")
    trivial_fork_forks: int = Field(10, ge=0, description="A fork with fewer forks of its own, and ...")
    trivial_fork_share: float = Field(0.5, ge=0, le=1, description="... under this share of its parent's stars is removed.")
    most_repositories: int = Field(25, ge=1, le=1_000, description="Repositories that are scored, or top_k if that is more.")
    most_others: int = Field(100, ge=1, le=10_000, description="Papers, pages and documents that are scored, or top_k if that is more.")

    @field_validator("paper_types")
    @classmethod
    def _known_types(cls, said: str) -> str:
        for word in filter(str.strip, said.split(",")):
            if normal_type(word) is None:
                raise ValueError(f"names the unknown type {word.strip()!r}; known: {', '.join(TYPES)}")
        return said

    @field_validator("paper_languages")
    @classmethod
    def _known_languages(cls, said: str) -> str:
        for word in filter(str.strip, said.split(",")):
            if normal_language(word) is None:
                raise ValueError(f"names the unknown language {word.strip()!r}; write a code of ISO 639 or an English name, such as en")
        return said


class IdentitySettings(Section):
    """When records are one work."""

    fold_versions: bool = Field(
        True, description="Whether a preprint and its published version are one hit, with a link; else they are two."
    )


class IngestSettings(Section):
    """Bounds on what is read into the library."""

    max_bytes: int = Field(512 * MEBIBYTE, ge=1, description="Largest file that is read, unpacked, in bytes.")
    max_pages: int = Field(10_000, ge=1, description="Pages of a PDF that are read; the record says where it stopped.")
    batch_records: int = Field(500, ge=1, le=100_000, description="Records written to the library at once.")


class AnalyzeSettings(Section):
    """One repository or paper in depth: `outrider analyze`."""

    timeout_s: float = Field(60.0, gt=0, le=600, description="Seconds it may take.")
    beside: int = Field(5, ge=0, le=50, description="Alternatives to a repository, and repositories related to a paper.")
    links: int = Field(20, ge=0, le=1_000, description="Works that a paper cites, and that cite it, each.")
    max_calls: int = Field(4, ge=0, le=1_000, description="Model calls of one analysis; 0 leaves all to rules.")
    max_context_tokens: int = Field(1_000, ge=0, le=1_000_000, description="Token budget of its sentences.")


class ThreadSettings(Section):
    """Searches that are gone on with: `outrider search --thread`. Nothing is kept of a search without a thread."""

    uri: str = Field("", description="A SQLite file or a postgresql:// address; by default a file in the platform's data folder.")
    retention_days: float = Field(30.0, gt=0, le=36_500, description="Days after which a thread that nobody went on with is deleted.")


class SystematicSettings(Section):
    """Exact runs: where they are written down, and how they are proved."""

    folder: str = Field("", description="Folder of the runs, one folder each; empty for `runs` in the platform's data folder.")
    page: int = Field(500, ge=1, le=10_000, description="Hits of a page, which is on the disk before anyone sees it.")
    audit_log: str = Field("", description="File that says what was run when; empty for audit.jsonl in the folder of the runs.")
    signing_key: str = Field("", description="PEM file of your private Ed25519 key, with which manifests are signed; empty for none.")
    identity_most: int = Field(
        50_000, ge=0, description="Hits of several sources up to which duplicates are found by all that they say; beyond, by identifiers."
    )


class TracingSettings(Section):
    """OpenTelemetry traces of nodes and calls; none where no collector is named."""

    endpoint: str = Field("", description="Address of a collector that takes OTLP over HTTP, such as http://localhost:4318/v1/traces.")


class Settings(Section):
    """All settings. Immutable; read by `services` and handed to nodes as plain values."""

    library: LibrarySettings = Field(default_factory=LibrarySettings)
    run: RunSettings = RunSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    ranking: RankingSettings = RankingSettings()
    reranker: RerankerSettings = RerankerSettings()
    llm: LlmSettings = LlmSettings()
    organizer: OrganizerSettings = OrganizerSettings()
    distiller: DistillerSettings = DistillerSettings()
    stars: StarsSettings = StarsSettings()
    repository: RepositorySettings = RepositorySettings()
    enrich: EnrichSettings = EnrichSettings()
    coarse_filter: CoarseFilterSettings = CoarseFilterSettings()
    identity: IdentitySettings = IdentitySettings()
    ingest: IngestSettings = IngestSettings()
    systematic: SystematicSettings = SystematicSettings()
    sources: SourcesSettings = SourcesSettings()
    cache: CacheSettings = CacheSettings()
    serve: ServeSettings = Field(default_factory=ServeSettings)
    threads: ThreadSettings = ThreadSettings()
    analyze: AnalyzeSettings = AnalyzeSettings()
    tracing: TracingSettings = TracingSettings()
