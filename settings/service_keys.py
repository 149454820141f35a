"""Variables that hold the keys of services, by the names that others use too: they fill in what no flag, variable of ours or file says.

A key goes only to the service that it belongs to: not where a `base_url` says that somebody else is asked, or without encryption.
"""

from __future__ import annotations

from collections.abc import Mapping

from outrider.settings.origin import origin
from outrider.settings.schema import Given
from outrider.settings.sources import SourcesSettings

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
        elsewhere = address is not None and origin(str(address.value)) != origin(getattr(defaults, name).base_url)
        if elsewhere or (key in given and given[key].value):
            continue
        variable = next((variable for variable in variables if environ.get(variable, "").strip()), None)
        if variable:
            found[key] = Given(environ[variable].strip(), f"environment variable {variable}")
    return found
