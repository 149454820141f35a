"""Reindex in a process that outlives the search that starts it (`embedding.reindex: auto`)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from outrider.settings.environment import variable_name
from outrider.settings.model import EmbeddingSettings, Settings

RETRY_S = 600.0
"""After a run has failed, or while a new one loads its model and has not taken the lock yet, no search starts another for so long."""
NOT_FOR_THE_COMMAND = frozenset({"model_name", "reindex"})
LARGEST_OUTPUT = 100_000


@dataclass(frozen=True, slots=True)
class BackgroundReindex:
    """Starts `outrider library reindex` for the library and the model of the settings. Its output goes to `output`."""

    settings: Settings

    @property
    def output(self) -> Path:
        uri = self.settings.library.uri
        name = hashlib.sha256((uri if "://" in uri else str(Path(uri).absolute())).encode()).hexdigest()[:16]
        return Path(platformdirs.user_data_dir("outrider", appauthor=False)) / "reindex" / f"{name}.json"

    def start(self, model: str) -> str:
        """Start a run unless one began lately; returns what to tell the user. The lock of the library allows one run at a time."""
        if report := self.report():
            return report
        try:
            self.output.parent.mkdir(parents=True, exist_ok=True)
            if self.output.exists() and time.time() - self.output.stat().st_mtime > RETRY_S:
                self.output.unlink(missing_ok=True)
            with self.output.open("xb") as output:  # of two searches at once, one starts it
                command = [sys.executable, "-m", "outrider", "library", "reindex", "--json"]
                subprocess.Popen(  # noqa: S603 - our own command; without a shell
                    [*command, "--library", self.settings.library.uri, "--model", model],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | self._environment(),
                    start_new_session=True,  # Ctrl-C at the search does not reach it
                )
        except FileExistsError:
            return self.report()
        except OSError as error:
            return f"it could not be started in the background: {error.strerror or error}"
        return f"this was started in the background with {model}; searches and outrider doctor show its progress"

    def report(self) -> str:
        """What became of a run that began or ended within `RETRY_S`; empty if there was none."""
        try:
            ago_s = time.time() - self.output.stat().st_mtime
            text = self.output.read_bytes()[:LARGEST_OUTPUT].decode("utf-8", "replace")
        except OSError:
            return ""
        if ago_s > RETRY_S:
            return ""
        if not text.strip():
            return "this was started in the background and loads its model"
        try:
            result = json.loads(text)
            if "error" in result:
                return f"the background run failed: {result['error']['message']}"
            model = result["model"]
        except (ValueError, KeyError, TypeError):
            return f"the background run ended without a result: {text[:200]!r}"
        # two programs with different models would otherwise replace each other's vectors with every search
        return f"a background run embedded it with {model} just now; none is started for {RETRY_S / 60:.0f} minutes after that"

    def _environment(self) -> dict[str, str]:
        """The settings of the model, which may come from flags or from Python; a model that is here need not be fetched."""
        embedding, variables = self.settings.embedding, {"HF_HUB_OFFLINE": "1"}
        for name, field in EmbeddingSettings.model_fields.items():
            value = getattr(embedding, name)
            if name not in NOT_FOR_THE_COMMAND and value != field.get_default():
                plain = value.get_secret_value() if hasattr(value, "get_secret_value") else value
                variables[variable_name(f"embedding.{name}")] = str(plain).lower() if isinstance(plain, bool) else str(plain)
        return variables
