"""The real runtimes that whole clusters are tested on, each with the options that select it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from podfit.agent.runtimes.process.support import check_support

KINDS = ("process", "cri")


@dataclass(frozen=True)
class NodeRuntime:
    kind: str
    endpoint: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Fields of UpOptions."""
        return {"runtime": self.kind, **({"runtime_endpoint": self.endpoint} if self.endpoint else {})}

    @property
    def arguments(self) -> tuple[str, ...]:
        """Options of `podfit up` and `podfit agent`."""
        endpoint = ("--container-runtime-endpoint", self.endpoint) if self.endpoint else ()
        return ("--runtime", self.kind, *endpoint)


@pytest.fixture(scope="module", params=KINDS)
def node_runtime(request: pytest.FixtureRequest) -> Iterator[NodeRuntime]:
    if missing := check_support():
        pytest.skip("; ".join(missing))
    if request.param == "cri":
        yield NodeRuntime("cri", request.getfixturevalue("containerd").endpoint)
    else:
        yield NodeRuntime(request.param)
