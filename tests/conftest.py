"""No test fails for being slow: hypothesis would otherwise refuse an example that a busy machine took long for."""

from __future__ import annotations

import os

from hypothesis import settings

# As `podfit vm-runtime` sets it: libvirt forks in this process, and gRPC's own handlers would abort its children.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

settings.register_profile("podfit", deadline=None)
settings.load_profile("podfit")
