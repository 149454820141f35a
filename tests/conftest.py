"""No test asks a provider or a service of the world: keys of the shell that runs the tests are put away, and searches stay offline."""

from __future__ import annotations

import os

from outrider.settings.service_keys import VARIABLES

for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY", *(name for names in VARIABLES.values() for name in names)):
    os.environ.pop(variable, None)
os.environ["OUTRIDER_SOURCES__OFFLINE"] = "true"
