"""Which clients receive only what types of Kubernetes 1.27 or later can decode."""

from __future__ import annotations

import pytest

from podfit.apiserver.dialects.newer import has_newer_types

TYPED, PROTOBUF = "application/json, */*", "application/vnd.kubernetes.protobuf,application/json"
ANY_OBJECT = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def agent(version: str, name: str = "kubectl") -> str:
    return f"{name}/{version} (linux/amd64) kubernetes/4cb5f07"


@pytest.mark.parametrize(
    ("accept", "user_agent", "newer"),
    [
        (TYPED, agent("v1.36.4"), True),
        (PROTOBUF, agent("v1.27.0-alpha.1", "kube-scheduler"), True),
        (TYPED, agent("v1.26.9"), False),
        (TYPED, agent("v1.22.1"), False),
        (ANY_OBJECT, agent("v1.36.4"), False),
        (TABLE, agent("v1.36.4"), False),
        ("*/*", "curl/7.88.1", False),
        (TYPED, "vpa/v0.0.0 (linux/amd64) kubernetes/$Format", False),
        (TYPED, "", False),
        ("", agent("v1.36.4"), False),
    ],
)
def test_only_typed_clients_built_for_1_27_or_later_have_newer_types(accept: str, user_agent: str, newer: bool) -> None:
    assert has_newer_types({"accept": accept, "user-agent": user_agent}) is newer
