"""What is said of maintenance on a cluster that failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from outrider.cluster.maintenance import _explain
from outrider.cluster.session import Cluster
from outrider.settings.model import ClusterSettings
from outrider.state.errors import ClusterError

TRACEBACK = """\x1b[36mray::index()\x1b[39m (pid=7, ip=10.0.0.5)
  File "somewhere.py", line 1, in run
    return function(*args)
OSError: LanceError(IO): 403 Forbidden: SignatureDoesNotMatch for key canary-secret
"""


def test_the_cause_is_named_without_a_traceback_and_without_keys() -> None:
    ray = SimpleNamespace(exceptions=SimpleNamespace(RayError=KeyError))
    cluster = Cluster(ray, "head:6379", ClusterSettings())
    with (
        pytest.raises(ClusterError) as caught,
        _explain(cluster, "s3://shelf/lib/records.lance", {"aws_secret_access_key": "canary-secret"}),
    ):
        raise OSError(TRACEBACK)
    message = str(caught.value)
    assert message.startswith("Ray at head:6379 cannot maintain s3://shelf/lib/records.lance: OSError: LanceError(IO): 403 Forbidden")
    assert "canary-secret" not in message
    assert "\n" not in message
    assert caught.value.__cause__ is None, "a log with a traceback would show the key"
