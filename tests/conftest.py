"""No test asks a provider: keys of the shell that runs the tests are put away."""

from __future__ import annotations

import os

for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"):
    os.environ.pop(variable, None)
