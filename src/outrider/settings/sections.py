"""Sections of the settings for the server, the sources and the cache, and their base class."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, SecretStr, field_validator

from outrider.state.model import Model
from outrider.text.sanitize import split_addresses

SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
MEBIBYTE = 2**20
KEY_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class Section(Model):
    """A section of the settings: strict types, and no input in errors."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)  # an input may be a key


def _header_value(secret: SecretStr) -> SecretStr:
    """Strips the line break with which a file of one line ends."""
    key = secret.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("contains a character that an HTTP header cannot carry")
    return SecretStr(key)


ApiKey = Annotated[SecretStr, AfterValidator(_header_value)]


def _join_addresses(value: object) -> object:
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return ", ".join(split_addresses(value)) if is_list or (isinstance(value, str) and "," in value) else value


JOIN_ADDRESSES = BeforeValidator(_join_addresses)
Addresses = Annotated[str, JOIN_ADDRESSES]
"""One address, or several of servers with the same model, as a list or separated by commas; `split_addresses` reads them."""


def is_secret(name: str) -> bool:
    """Whether the name of a free setting, such as an option of an object store, denotes a secret."""
    return bool(SECRET.search(name))


def split_list(text: str) -> tuple[str, ...]:
    """Entries that commas separate."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


class ServeSettings(Section):
    """Access to the server and its limits; read by `outrider serve`."""

    api_keys: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Hashes of accepted keys, by their owners' names; `outrider serve key` makes one.",
    )
    authentication: Literal["auto", "always"] = Field(
        "auto", description="Whether requests need a key; auto requires none if only this machine can reach the server."
    )
    allowed_hosts: str = Field("", description="Host names of the server besides addresses and localhost, separated by commas.")
    trusted_proxies: str = Field(
        "",
        description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, separated by commas.",
    )
    cors_origins: str = Field(
        "",
        description="Origins of other pages that may send requests, such as https://app.example.org, separated by commas; empty for none.",
    )
    at_once: int = Field(8, ge=1, le=1_000, description="Concurrent searches.")
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Extra processes that compute while several searches run; by default one for each core but one, 4 at most.",
    )
    queue: int = Field(64, ge=0, le=100_000, description="Maximum number of waiting requests; further ones get 429.")
    queue_s: float = Field(30.0, gt=0, le=3_600, description="Maximum waiting time of a search, in seconds.")
    batch: int = Field(50, ge=1, le=10_000, description="Maximum number of searches in one LangServe batch.")
    request_s: float = Field(120.0, gt=0, le=3_600, description="Time limit of one request in seconds, including waiting.")
    body_bytes: int = Field(MEBIBYTE, ge=1_024, le=1_024 * MEBIBYTE, description="Maximum size of a request's body, in bytes.")
    body_s: float = Field(10.0, gt=0, le=3_600, description="Time limit in seconds for a request's head to arrive, and then for its body.")
    read_only: bool = Field(False, description="Refuse requests that add, remove or label records of the library, or decide on duplicates.")
    uploads: int = Field(4, ge=1, le=1_000, description="Files that are received and read at a time; ingest.max_bytes limits their size.")
    connections: int = Field(512, ge=1, le=100_000, description="Maximum number of open connections.")
    keep_runs: int = Field(
        100, ge=0, le=100_000, description="Finished searches whose responses are kept for their export; 64 MB of them at most."
    )
    keep_s: float = Field(3_600.0, ge=0, le=604_800, description="Seconds for which such a response is kept.")
    warm_file: str = Field(
        "", description="File of queries, one a line, that are searched for in the library before the server is ready; empty for none."
    )
    warm_queries: int = Field(
        0, ge=0, le=10_000, description="How many of the most frequent past queries (learning.history) are searched for as well."
    )
    warm_s: float = Field(60.0, gt=0, le=3_600, description="Seconds that these searches may take; then the server is ready.")
    drain_s: float = Field(
        0.0,
        ge=0,
        le=3_600,
        description="Seconds for which a server that is told to stop still answers everything while /readyz says 503, so that a load "
        "balancer sends it nothing more.",
    )
    shutdown_s: float = Field(30.0, ge=0, le=3_600, description="Seconds that running searches may still take when the server stops.")

    @field_validator("api_keys")
    @classmethod
    def check_keys(cls, keys: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, key_hash in keys.items():
            if not KEY_NAME.match(name):
                raise ValueError(f"has an invalid owner {name!r}; use up to 64 letters, digits, - and _")
            if not KEY_HASH.match(key_hash.get_secret_value()):
                raise ValueError(f"has no valid key hash for {name!r}; create a key and its hash with: outrider serve key {name}")
        return keys

    @field_validator("trusted_proxies")
    @classmethod
    def check_proxies(cls, addresses: str) -> str:
        for address in split_list(addresses):
            try:
                ipaddress.ip_network(address)
            except ValueError:
                raise ValueError(f"names {address!r}; write addresses or networks, such as 127.0.0.1 or 10.0.0.0/8") from None
        return addresses

    @property
    def proxies(self) -> tuple[str, ...]:
        return split_list(self.trusted_proxies)

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name.lower() for name in split_list(self.allowed_hosts))

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(name.rstrip("/").lower() for name in split_list(self.cors_origins))


class LibrarySourceSettings(Section):
    enabled: bool = Field(True, description="Include the library in searches.")


class ServiceSettings(Section):
    """A service on the network. Its limits apply to all searches of this process, or of all that share `shared.redis_url`."""

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


class LinkServiceSettings(ServiceSettings):
    """A service that is read for citations and not searched."""

    enabled: bool = Field(True, description="Read citations from it.")
    timeout_s: float = Field(30.0, gt=0, le=600, description="Time limit of one list of citations in seconds.")


class OpencitationsSettings(LinkServiceSettings):
    """Its key is an access token, which OpenCitations asks users for and does not require."""

    base_url: str = Field("https://api.opencitations.net", min_length=1, description="Address of the API, without /index/v2.")
    requests: float = Field(3, gt=0, le=10_000, description="Maximum number of requests ...")


class EuropePmcSettings(LinkServiceSettings):
    enabled: bool = Field(True, description="Read citations and open full texts from it.")
    base_url: str = Field("https://www.ebi.ac.uk", min_length=1, description="Address of the API, without /europepmc/webservices/rest.")
    requests: float = Field(10, gt=0, le=10_000, description="Maximum number of requests ...")


class TextServiceSettings(ServiceSettings):
    """A service that is asked for open full texts and not searched."""

    enabled: bool = Field(True, description="Ask it for open full texts.")


class UnpaywallSettings(TextServiceSettings):
    """Asked only with an e-mail address in `sources.contact`, which it requires."""

    base_url: str = Field("https://api.unpaywall.org", min_length=1, description="Address of the API, without /v2.")
    requests: float = Field(10, gt=0, le=10_000, description="Maximum number of requests ...")


class PmcSettings(TextServiceSettings):
    """The open access subset of PubMed Central, as files of its cloud service."""

    base_url: str = Field("https://pmc-oa-opendata.s3.amazonaws.com", min_length=1, description="Address of the cloud service.")
    requests: float = Field(10, gt=0, le=10_000, description="Maximum number of requests ...")


class ArxivTextSettings(Section):
    """Texts of arXiv, fetched as pages are: one at a time, and as its robots.txt allows."""

    enabled: bool = Field(True, description="Fetch full texts from arXiv.")
    base_url: str = Field("https://arxiv.org", min_length=1, description="Address of arXiv, without /pdf and /html.")


class OpenLinkSettings(Section):
    """Addresses of publishers and repositories that OpenAlex, Unpaywall or Semantic Scholar call open."""

    enabled: bool = Field(True, description="Fetch full texts from such addresses.")


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

    offline: bool = Field(
        False,
        description="Contact nothing but this machine: search the library only, and use models on this machine only; also --offline.",
    )
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
    opencitations: OpencitationsSettings = OpencitationsSettings()
    europe_pmc: EuropePmcSettings = EuropePmcSettings()
    unpaywall: UnpaywallSettings = UnpaywallSettings()
    pmc: PmcSettings = PmcSettings()
    arxiv_texts: ArxivTextSettings = ArxivTextSettings()
    open_links: OpenLinkSettings = OpenLinkSettings()
    extra: dict[str, dict[str, JsonValue]] = Field(
        default_factory=dict, repr=False, description="Settings of sources from other packages, by the name of the source."
    )


class CacheSettings(Section):
    """The cache of service responses. Scores are never cached."""

    folder: str = Field("", description="Folder of the cache; by default in the platform's cache folder.")
    url: str = Field(
        "",
        description="A Redis server to use instead, such as redis://localhost:6379/0, for several machines; by default shared.redis_url.",
    )
    fresh_s: float = Field(
        3_600.0,
        ge=0,
        le=86_400 * 30,
        description="Seconds for which a response is fresh; older ones are used only if a service is unreachable.",
    )
    translations_s: float = Field(
        900.0, ge=0, le=86_400, description="Seconds for which a model's plan is reused for the same request; 0 never reuses it."
    )
