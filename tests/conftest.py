"""No test fails for being slow: hypothesis would otherwise refuse an example that a busy machine took long for.

And what tests of several folders share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.containers.containerd import Containerd, missing

# As `podfit vm-runtime` sets it: libvirt forks in this process, and gRPC's own handlers would abort its children.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

settings.register_profile("podfit", deadline=None)
settings.load_profile("podfit")


@pytest.fixture(scope="session")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A real containerd, shared by the tests of one process."""
    if why := missing():
        pytest.skip(why)
    made = Containerd(tmp_path_factory.mktemp("containerd"))
    made.start()
    yield made
    made.stop()
