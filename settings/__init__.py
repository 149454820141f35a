"""What can be set, where a value may come from, and how it is shown: `model`, `load`, `redact`."""
