"""Settings of sources: one section for each, all of the same form."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, SecretStr

from outrider.settings.section import ApiKey, Section


class LibrarySourceSettings(Section):
    enabled: bool = Field(True, description="Include the library in searches.")


class ServiceSettings(Section):
    """A service on the network. Its limits apply to all searches of this process."""

    enabled: bool = Field(True, description="Include this source in searches.")
    base_url: str = Field(min_length=1, description="Address of the API.")
    api_key: ApiKey = Field(SecretStr(""), description="Key or token, if the service takes one; never shown.")
    requests: float = Field(gt=0, le=10_000, description="Maximum number of requests ...")
    per_s: float = Field(1.0, gt=0, le=86_400, description="... in this many seconds.")
    at_once: int = Field(5, ge=1, le=100, description="Concurrent requests.")
    timeout_s: float = Field(10.0, gt=0, le=600, description="Time limit of a search in seconds, including retries and waiting.")


class GithubSettings(ServiceSettings):
    """The limits apply to searches without a token; with a token they are three times as high."""

    base_url: str = Field("https://api.github.com", min_length=1, description="Address of the REST API.")
    requests: float = Field(10, gt=0, le=10_000, description="Maximum number of searches without a token (30 with one) ...")
    per_s: float = Field(60.0, gt=0, le=86_400, description="... in this many seconds.")
    at_once: int = Field(25, ge=1, le=100, description="Concurrent requests, for searches and for single repositories each.")


class OpenalexSettings(ServiceSettings):
    base_url: str = Field("https://api.openalex.org", min_length=1, description="Address of the API.")
    requests: float = Field(10, gt=0, le=10_000, description="Maximum number of requests ...")


class SemanticScholarSettings(ServiceSettings):
    base_url: str = Field("https://api.semanticscholar.org", min_length=1, description="Address of the API, without /graph/v1.")
    requests: float = Field(1, gt=0, le=10_000, description="Maximum number of requests ...")


class ArxivSettings(ServiceSettings):
    base_url: str = Field("https://export.arxiv.org", min_length=1, description="Address of the API, without /api.")
    requests: float = Field(1, gt=0, le=10_000, description="Maximum number of requests ...")
    per_s: float = Field(3.0, gt=0, le=86_400, description="... in this many seconds.")
    at_once: int = Field(1, ge=1, le=100, description="Concurrent requests.")


class PubmedSettings(ServiceSettings):
    base_url: str = Field("https://eutils.ncbi.nlm.nih.gov", min_length=1, description="Address of the API, without /entrez/eutils.")
    requests: float = Field(3, gt=0, le=10_000, description="Maximum number of requests without a key (10 with one) ...")


class CrossrefSettings(ServiceSettings):
    """The limits of Crossref's public pool for lists; with `sources.contact` they are three times as high."""

    base_url: str = Field("https://api.crossref.org", min_length=1, description="Address of the API.")
    requests: float = Field(1, gt=0, le=10_000, description="Maximum number of requests ...")
    at_once: int = Field(1, ge=1, le=100, description="Concurrent requests.")


class SerpapiSettings(ServiceSettings):
    """Used only with a key: every search counts against your plan."""

    base_url: str = Field("https://serpapi.com", min_length=1, description="Address of the API.")
    requests: float = Field(5, gt=0, le=10_000, description="Maximum number of requests ...")
    per_s: float = Field(10.0, gt=0, le=86_400, description="... in this many seconds.")


class WebSettings(Section):
    """A search engine's result page, opened in an installed Chromium (extra `browser`); without one the source is `off`."""

    enabled: bool = Field(True, description="Include this source in searches.")
    engine: Literal["duckduckgo", "bing", "google"] = Field("duckduckgo", description="Search engine.")
    tabs: int = Field(2, ge=1, le=16, description="Concurrent browser tabs.")
    gap_s: float = Field(2.0, ge=0, le=600, description="Seconds between two requests to the engine.")
    pause_s: float = Field(900.0, ge=0, le=86_400, description="Seconds to pause an engine after it took us for a robot.")
    timeout_s: float = Field(10.0, gt=0, le=600, description="Time limit of a search in seconds.")


class SourcesSettings(Section):
    """Which sources a search uses."""

    offline: bool = Field(False, description="Search the library only; also --offline.")
    contact: str = Field("", description="Your e-mail address or web page, sent to every service with each request.")
    allowed_hosts: str = Field(
        "",
        description="Hosts of your own network from which pages may be fetched, separated by commas; no other private address is reached.",
    )
    library: LibrarySourceSettings = LibrarySourceSettings()
    github: GithubSettings = GithubSettings()
    openalex: OpenalexSettings = OpenalexSettings()
    semantic_scholar: SemanticScholarSettings = SemanticScholarSettings()
    arxiv: ArxivSettings = ArxivSettings()
    pubmed: PubmedSettings = PubmedSettings()
    crossref: CrossrefSettings = CrossrefSettings()
    serpapi_scholar: SerpapiSettings = SerpapiSettings()
    serpapi_google: SerpapiSettings = SerpapiSettings()
    web: WebSettings = WebSettings()
    extra: dict[str, dict[str, JsonValue]] = Field(
        default_factory=dict, repr=False, description="Settings of sources from other packages, by the name of the source."
    )


class CacheSettings(Section):
    """The cache of service responses. Scores are never cached."""

    folder: str = Field("", description="Folder of the cache; by default in the platform's cache folder.")
    url: str = Field("", description="A Redis server to use instead, such as redis://localhost:6379/0, for several machines.")
    fresh_s: float = Field(
        3_600.0,
        ge=0,
        le=86_400 * 30,
        description="Seconds for which a response is fresh; older ones are used only if a service is unreachable.",
    )
    translations_s: float = Field(
        900.0, ge=0, le=86_400, description="Seconds for which a model's plan is reused for the same request; 0 never reuses it."
    )
