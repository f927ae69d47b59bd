"""The table of Pod Security checks: each revision, and the minor version of Kubernetes from which it applies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from podfit.api.objects import Object
from podfit.apiserver.admission.podsecurity import baseline, restricted
from podfit.apiserver.admission.podsecurity.policy import BASELINE, PRIVILEGED, RESTRICTED, Standard
from podfit.apiserver.admission.podsecurity.restricted import unless_user_namespace, unless_windows
from podfit.apiserver.admission.podsecurity.violations import Check, Violation


class Row(NamedTuple):
    name: str
    level: str
    revisions: tuple[tuple[int, Check], ...]
    """The minor versions in ascending order, each with the check that applies from it on."""
    instead_of: str = ""
    """The baseline check that the restricted standard omits where this one applies."""


_SYSCTLS = (
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"),
)
_SYSCTLS_27 = (*_SYSCTLS, "net.ipv4.ip_local_reserved_ports")
_SYSCTLS_29 = (
    *_SYSCTLS_27,
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
)
_SYSCTLS_32 = (*_SYSCTLS_29, "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
_SE_LINUX = ("container_t", "container_init_t", "container_kvm_t")

# The names and their order are Kubernetes': they decide the order of reasons in messages.
TABLE = (
    Row("appArmorProfile", BASELINE, ((0, baseline.app_armor),)),
    Row("capabilities_baseline", BASELINE, ((0, baseline.capabilities),)),
    Row("hostNamespaces", BASELINE, ((0, baseline.host_namespaces),)),
    Row("hostPathVolumes", BASELINE, ((0, baseline.host_path_volumes),)),
    Row("hostPorts", BASELINE, ((0, baseline.host_ports),)),
    Row("hostProbesAndHostLifecycle", BASELINE, ((34, baseline.handler_hosts),)),
    Row("privileged", BASELINE, ((0, baseline.privileged),)),
    Row("procMount", BASELINE, ((0, baseline.proc_mount), (35, unless_user_namespace(baseline.proc_mount)))),
    Row(
        "seLinuxOptions",
        BASELINE,
        ((0, baseline.se_linux(*_SE_LINUX)), (31, baseline.se_linux(*_SE_LINUX, "container_engine_t"))),
    ),
    Row("seccompProfile_baseline", BASELINE, ((0, baseline.seccomp_annotations), (19, baseline.seccomp))),
    Row(
        "sysctls",
        BASELINE,
        (
            *((0, baseline.sysctls(*_SYSCTLS)), (27, baseline.sysctls(*_SYSCTLS_27))),
            *((29, baseline.sysctls(*_SYSCTLS_29)), (32, baseline.sysctls(*_SYSCTLS_32))),
        ),
    ),
    Row("windowsHostProcess", BASELINE, ((0, baseline.windows_host_process),)),
    Row(
        "allowPrivilegeEscalation",
        RESTRICTED,
        ((8, restricted.privilege_escalation), (25, unless_windows(restricted.privilege_escalation))),
    ),
    Row(
        "capabilities_restricted",
        RESTRICTED,
        ((22, restricted.capabilities), (25, unless_windows(restricted.capabilities))),
        instead_of="capabilities_baseline",
    ),
    Row("procMount_restricted", RESTRICTED, ((35, baseline.proc_mount),), instead_of="procMount"),
    Row("restrictedVolumes", RESTRICTED, ((0, restricted.volumes),), instead_of="hostPathVolumes"),
    Row(
        "runAsNonRoot",
        RESTRICTED,
        ((0, restricted.run_as_non_root), (35, unless_user_namespace(restricted.run_as_non_root))),
    ),
    Row(
        "runAsUser",
        RESTRICTED,
        ((23, restricted.run_as_user), (35, unless_user_namespace(restricted.run_as_user))),
    ),
    Row(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, restricted.seccomp_required), (25, unless_windows(restricted.seccomp_required))),
        instead_of="seccompProfile_baseline",
    ),
)
NEWEST = max(minor for row in TABLE for minor, _ in row.revisions)
"""Later versions, and `latest`, have the checks of this one."""


def violations(standard: Standard, pod: Object) -> list[Violation]:
    """The violations of a standard by a pod or a pod template."""
    if standard.level == PRIVILEGED:
        return []
    minor = NEWEST if standard.minor is None else min(standard.minor, NEWEST)
    return [found for check in _checks(standard.level, minor) if (found := check(pod)) is not None]


@lru_cache
def _checks(level: str, minor: int) -> Sequence[Check]:
    applying = {row.name: check for row in TABLE if row.level in (BASELINE, level) and (check := _at(row, minor))}
    for row in TABLE:
        if row.name in applying:
            applying.pop(row.instead_of, None)
    return tuple(applying.values())


def _at(row: Row, minor: int) -> Check | None:
    return next((check for since, check in reversed(row.revisions) if since <= minor), None)
