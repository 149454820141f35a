"""`python -m outrider` and the `outrider` command."""

from __future__ import annotations

import sys
import time

BEGAN = time.monotonic()
"""Before the imports, for which a user waits as well."""


def main() -> None:
    """Run the command and end the process with its exit code."""
    from outrider.interfaces.cli import run

    sys.exit(run(sys.argv[1:], began=BEGAN))


if __name__ == "__main__":
    main()
