"""`python -m outrider` and the `outrider` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time

BEGAN = time.monotonic()
"""Before the imports, for which a user waits as well."""
INTERRUPTED = 130
GC_THRESHOLD = 100_000, 10, 10
"""For `gc.set_threshold`. A command makes little garbage, and its imports make objects that stay: with Python's default (700, 10, 10) a
search looked through them 560 times, a tenth of its CPU time.
"""
BLAS_IDLE = "OPENBLAS_THREAD_TIMEOUT", "20"
"""Idle threads of NumPy's OpenBLAS sleep after 2^20 cycles. By default each waits 2^26 cycles at full load once NumPy is imported, though
most commands multiply no matrices.
"""


def main() -> None:
    """Run the command and end the process with its exit code."""
    gc.set_threshold(*GC_THRESHOLD)
    atexit.register(gc.freeze)  # after all others: memory is freed with the process, and looking for cycles in it took .3 s after a search
    os.environ.setdefault(*BLAS_IDLE)
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
