"""`python -m outrider` and the `outrider` command."""

from __future__ import annotations

import os
import sys
import time

BEGAN = time.monotonic()
"""Before the imports, for which a user waits as well."""
INTERRUPTED = 130


def main() -> None:
    """Run the command and end the process with its exit code."""
    open_closed_streams()
    try:
        from outrider.interfaces.cli import run

        code = run(sys.argv[1:], began=BEGAN)
    except KeyboardInterrupt:  # during the imports; later ones are handled by `run`
        sys.stderr.write("Interrupted.\n")
        code = INTERRUPTED
    except Exception as error:
        from outrider.services.error_tracker import report_crash

        report_crash(error)
        raise
    sys.exit(code)


def open_closed_streams() -> None:
    """Open standard streams that were closed (`>&-`) on the null device, before another file gets one of their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


if __name__ == "__main__":
    main()
