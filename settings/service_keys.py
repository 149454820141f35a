"""Variables that hold the keys of services, by the names that others use too: they fill in what no flag, variable of ours or file says.

A key goes only to the service that it belongs to: not where a `base_url` says that somebody else is asked, or without encryption.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from outrider.settings.schema import Given
from outrider.settings.sources import SourcesSettings
from outrider.state.errors import SettingsError

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "openalex": ("OPENALEX_API_KEY",),
    "semantic_scholar": ("SEMANTIC_SCHOLAR_API_KEY", "S2_API_KEY"),
    "pubmed": ("NCBI_API_KEY",),
    "serpapi_scholar": ("SERPAPI_API_KEY", "SERPAPI_KEY"),
    "serpapi_google": ("SERPAPI_API_KEY", "SERPAPI_KEY"),
}


def of_services(environ: Mapping[str, str], given: Mapping[str, Given]) -> dict[str, Given]:
    """Keys of services, as far as `given` leaves them open; what is empty is open."""
    defaults = SourcesSettings()
    found: dict[str, Given] = {}
    for name, variables in VARIABLES.items():
        key, address = f"sources.{name}.api_key", given.get(f"sources.{name}.base_url")
        elsewhere = address is not None and _origin(str(address.value)) != _origin(getattr(defaults, name).base_url)
        if elsewhere or (key in given and given[key].value):
            continue
        variable = next((variable for variable in variables if environ.get(variable, "").strip()), None)
        if variable:
            found[key] = Given(environ[variable].strip(), f"environment variable {variable}")
    return found


def refuse_sent_away(given: Mapping[str, Given], folder_file: str) -> None:
    """`SettingsError` where the file in the working folder names the address for a key that stands elsewhere.

    Whoever wrote that file (a repository that was cloned, say) would be sent the key.
    """
    defaults = SourcesSettings()
    for name in VARIABLES:
        key, address = given.get(f"sources.{name}.api_key"), given.get(f"sources.{name}.base_url")
        if not (key and key.value and address) or _origin(str(address.value)) == _origin(getattr(defaults, name).base_url):
            continue
        if address.where.startswith(folder_file) and not key.where.startswith(folder_file):
            raise SettingsError(
                f"sources.{name}.base_url stands in {address.where}, but its key in {key.where}: a key is not sent to an address that the "
                "working folder names; say both in one place, or take one away"
            )


def _origin(address: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454): the same host without encryption is another."""
    try:
        parts = urlsplit(address.strip())
        return parts.scheme.lower(), parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return "", "", None
