"""Kernel parameters: only those that a kubelet calls safe, and none of a namespace shared with the host."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.pod.sysctls import normalized, refusal


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"spec": {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}, **spec}}


@pytest.mark.parametrize("name", ["net.ipv4.tcp_syncookies", "net/ipv4/tcp_syncookies", "kernel.shm_rmid_forced"])
def test_a_safe_parameter_is_admitted(name: str) -> None:
    assert refusal(pod(name)) is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pod("net.core.somaxconn"), '"net.core.somaxconn" not allowlisted'),
        (pod("net/core/somaxconn"), '"net.core.somaxconn" not allowlisted'),
        (pod("kernel.core_pattern"), '"kernel.core_pattern" not allowlisted'),
        (
            pod("net.ipv4.tcp_syncookies", hostNetwork=True),
            '"net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
        (pod("kernel.shm_rmid_forced", hostIPC=True), '"kernel.shm_rmid_forced" not allowed with host IPC enabled'),
    ],
)
def test_another_one_is_forbidden_with_the_message_of_a_kubelet(given: dict[str, Any], why: str) -> None:
    assert refusal(given) == ("SysctlForbidden", f"forbidden sysctl: {why}")


def test_a_pod_without_parameters_is_admitted() -> None:
    assert refusal({"spec": {}}) is None


def test_dots_and_slashes_change_places_where_a_slash_comes_first() -> None:
    assert normalized("net/ipv4/conf/eno2.100/rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
    assert normalized("net.ipv4.conf.eno2/100.rp_filter") == "net.ipv4.conf.eno2/100.rp_filter"
