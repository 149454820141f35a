"""Settings of those who are asked: one section a source, all of the same form."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue, SecretStr

from outrider.settings.section import ApiKey, Section


class LibrarySourceSettings(Section):
    enabled: bool = Field(True, description="Whether searches ask the library.")


class ServiceSettings(Section):
    """A service on the network. Its limits hold for all searches of this process."""

    enabled: bool = Field(True, description="Whether searches ask it.")
    base_url: str = Field(min_length=1, description="Its address.")
    api_key: ApiKey = Field(SecretStr(""), description="Key or token, where it takes one; never shown.")
    requests: float = Field(gt=0, le=10_000, description="At most so many requests ...")
    per_s: float = Field(1.0, gt=0, le=86_400, description="... in so many seconds.")
    at_once: int = Field(5, ge=1, le=100, description="Requests under way at a time.")
    timeout_s: float = Field(10.0, gt=0, le=600, description="Seconds that a search of it may take, tries and waiting included.")


class GithubSettings(ServiceSettings):
    """The limits are those of a search without a token; with one it is asked three times as often."""

    base_url: str = Field("https://api.github.com", min_length=1, description="Its REST API.")
    requests: float = Field(10, gt=0, le=10_000, description="At most so many searches without a token (30 with one) ...")
    per_s: float = Field(60.0, gt=0, le=86_400, description="... in so many seconds.")
    at_once: int = Field(25, ge=1, le=100, description="Requests under way at a time, of searches and of single repositories each.")


class OpenalexSettings(ServiceSettings):
    base_url: str = Field("https://api.openalex.org", min_length=1, description="Its address.")
    requests: float = Field(10, gt=0, le=10_000, description="At most so many requests ...")


class SemanticScholarSettings(ServiceSettings):
    base_url: str = Field("https://api.semanticscholar.org", min_length=1, description="Its address, without /graph/v1.")
    requests: float = Field(1, gt=0, le=10_000, description="At most so many requests ...")


class ArxivSettings(ServiceSettings):
    base_url: str = Field("https://export.arxiv.org", min_length=1, description="Its address, without /api.")
    requests: float = Field(1, gt=0, le=10_000, description="At most so many requests ...")
    per_s: float = Field(3.0, gt=0, le=86_400, description="... in so many seconds.")
    at_once: int = Field(1, ge=1, le=100, description="Requests under way at a time.")


class PubmedSettings(ServiceSettings):
    base_url: str = Field("https://eutils.ncbi.nlm.nih.gov", min_length=1, description="Its address, without /entrez/eutils.")
    requests: float = Field(3, gt=0, le=10_000, description="At most so many requests without a key (10 with one) ...")


class CrossrefSettings(ServiceSettings):
    """Lists, in its public pool; who is told in `sources.contact` may ask three times as often."""

    base_url: str = Field("https://api.crossref.org", min_length=1, description="Its address.")
    requests: float = Field(1, gt=0, le=10_000, description="At most so many requests ...")
    at_once: int = Field(1, ge=1, le=100, description="Requests under way at a time.")


class SerpapiSettings(ServiceSettings):
    """Asked only where there is a key: every search costs one of its plan."""

    base_url: str = Field("https://serpapi.com", min_length=1, description="Its address.")
    requests: float = Field(5, gt=0, le=10_000, description="At most so many requests ...")
    per_s: float = Field(10.0, gt=0, le=86_400, description="... in so many seconds.")


class WebSettings(Section):
    """A search engine's result page, opened in an installed Chromium (extra `browser`); without one a line of the answer says so."""

    enabled: bool = Field(True, description="Whether searches ask it.")
    engine: Literal["duckduckgo", "bing", "google"] = Field("duckduckgo", description="Whose result page.")
    tabs: int = Field(2, ge=1, le=16, description="Pages that are open at a time.")
    gap_s: float = Field(2.0, ge=0, le=600, description="Seconds between two questions to the engine.")
    pause_s: float = Field(900.0, ge=0, le=86_400, description="Seconds that it is left alone after it took us for a robot.")
    timeout_s: float = Field(10.0, gt=0, le=600, description="Seconds that a search of it may take.")


class SourcesSettings(Section):
    """Who is asked."""

    offline: bool = Field(False, description="Ask the library only; also --offline.")
    contact: str = Field("", description="An e-mail address or page of yours, told to every service with each request.")
    allowed_hosts: str = Field(
        "", description="Hosts of your own network from which pages may be fetched, with commas between; else no private address is asked."
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
        default_factory=dict, repr=False, description="Settings of sources that other packages add, by the name of the source."
    )


class CacheSettings(Section):
    """Answers that are kept. Scores never are."""

    folder: str = Field("", description="Where; by default in the platform's cache folder.")
    url: str = Field("", description="A Redis server instead, such as redis://localhost:6379/0, for several machines.")
    fresh_s: float = Field(
        3_600.0, ge=0, le=86_400 * 30, description="Seconds that an answer is fresh; older ones answer where a service cannot."
    )
    translations_s: float = Field(
        900.0, ge=0, le=86_400, description="Seconds that what a model made of a request is used again for the same one; 0 asks each time."
    )
