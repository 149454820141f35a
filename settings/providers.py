"""Variables that the providers of models name: they fill in what stands under `llm` in no flag, variable of ours or file.

A key goes only to the address that it belongs to: a server of one's own under `llm.base_url` never sees the key of a provider. The one in
`OPENAI_BASE_URL` gets `OPENAI_API_KEY`: the two belong together, as in OpenAI's own client.
"""

from __future__ import annotations

from collections.abc import Mapping

from outrider.settings.origin import origin
from outrider.settings.schema import Given

OPENAI_KEY, OPENAI_URL, DEEPSEEK_KEY = "OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"
OPENAI_HOST, DEEPSEEK_HOST = "api.openai.com", "api.deepseek.com"
MODEL, ADDRESS, KEY = "llm.model", "llm.base_url", "llm.api_key"


def of_providers(environ: Mapping[str, str], given: Mapping[str, Given]) -> dict[str, Given]:
    """Address and key of the model, as far as `given` leaves them open; what is empty is open."""
    found: dict[str, Given] = {}
    address = _text(given, ADDRESS)
    theirs = not address
    if theirs and environ.get(OPENAI_URL):
        address = environ[OPENAI_URL]
        found[ADDRESS] = _of(environ, OPENAI_URL)
    if _text(given, KEY):
        return found
    host = _host(address) if address else DEEPSEEK_HOST if _means_deepseek(environ, _text(given, MODEL)) else OPENAI_HOST
    if host == DEEPSEEK_HOST and environ.get(DEEPSEEK_KEY):
        found[KEY] = _of(environ, DEEPSEEK_KEY)
        if not address:
            found[ADDRESS] = Given(f"https://{DEEPSEEK_HOST}", found[KEY].where)
    elif environ.get(OPENAI_KEY) and (theirs or host == OPENAI_HOST):
        found[KEY] = _of(environ, OPENAI_KEY)
    return found


def _means_deepseek(environ: Mapping[str, str], model: str) -> bool:
    """Where no address says who is asked: by the model's name, or because there is no other key."""
    return bool(environ.get(DEEPSEEK_KEY)) and (model.startswith("deepseek") or not environ.get(OPENAI_KEY))


def _of(environ: Mapping[str, str], variable: str) -> Given:
    return Given(environ[variable].strip(), f"environment variable {variable}")


def _text(given: Mapping[str, Given], name: str) -> str:
    value = given[name].value if name in given else ""
    return value.strip() if isinstance(value, str) else ""


def _host(address: str) -> str:
    """Of a server that is asked with encryption, where its provider is."""
    scheme, host, port = origin(address)
    return host if (scheme, port) == ("https", 443) else ""
