"""Each check of the baseline and restricted standards: what it forbids, since which version, and its message."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.apiserver.admission.podsecurity.policy import BASELINE, PRIVILEGED, RESTRICTED, Standard
from podfit.apiserver.admission.podsecurity.table import NEWEST, violations

APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
HARD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(*contexts: dict[str, Any] | None, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Containers a, b, … with these security contexts; a single hardened one by default."""
    rows = [{"name": name, "securityContext": each} for name, each in zip("abcdef", contexts or (HARD,), strict=False)]
    return {"metadata": {"annotations": annotations}, "spec": {"containers": rows, **spec}}


def found(level: str, minor: int | None, given: dict[str, Any]) -> dict[str, str]:
    return {violation.reason: violation.detail for violation in violations(Standard(level, minor), given)}


def hard(**more: Any) -> dict[str, Any]:
    return {**HARD, **more}


BASELINE_CASES = {
    "AppArmor, where it is set": (
        pod(
            hard(appArmorProfile={"type": "Unconfined"}),
            hard(appArmorProfile={"type": "Localhost"}),
            annotations={APP_ARMOR + "b": "unconfined", APP_ARMOR + "a": "", "other": "unconfined"},
            securityContext={"appArmorProfile": {"type": "Unconfined"}},
        ),
        "forbidden AppArmor profiles",
        'pod and container "a" and annotation must not set AppArmor profile type to "Unconfined", '
        f'"{APP_ARMOR}b="unconfined""',
    ),
    "AppArmor, a single one": (
        pod(hard(appArmorProfile={"type": "Unconfined"})),
        "forbidden AppArmor profile",
        'container "a" must not set AppArmor profile type to "Unconfined"',
    ),
    "capabilities that are not default": (
        pod(
            hard(capabilities={"add": ["SYS_ADMIN", "CHOWN"]}),
            hard(capabilities={"add": ["KILL"]}),
            hard(capabilities={"add": ["NET_RAW"]}),
        ),
        "non-default capabilities",
        'containers "a", "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add',
    ),
    "namespaces of the host": (
        pod(hostIPC=True, hostNetwork=True, hostPID=False),
        "host namespaces",
        "hostNetwork=true, hostIPC=true",
    ),
    "hostPath": (
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]),
        "hostPath volumes",
        'volume "v"',
    ),
    "a port of the host": (
        pod(initContainers=[{"name": "i", "ports": [{"containerPort": 1, "hostPort": 0}, {"hostPort": 80}]}]),
        "hostPort",
        'container "i" uses hostPort 80',
    ),
    "ports of the host are sorted as texts": (
        pod(
            containers=[
                {"name": "a", "ports": [{"hostPort": 9}, {"hostPort": 10}]},
                {"name": "b", "ports": [{"hostPort": 10}]},
            ]
        ),
        "hostPort",
        'containers "a", "b" use hostPorts 10, 9',
    ),
    "handlers that connect elsewhere": (
        pod(
            containers=[
                {"name": "b", "livenessProbe": {"httpGet": {"host": "y"}}, "readinessProbe": {"exec": {}}},
                {"name": "a", "lifecycle": {"preStop": {"tcpSocket": {"host": "x"}}, "postStart": None}},
                {"name": "c", "startupProbe": {"tcpSocket": {"host": ""}}},
            ]
        ),
        "probe or lifecycle host",
        'containers "a", "b" use probe or lifecycle hosts "x", "y"',
    ),
    "privileged": (
        pod(
            hard(privileged=False), hard(privileged=True), ephemeralContainers=[{"name": "e", "securityContext": None}]
        ),
        "privileged",
        'container "b" must not set securityContext.privileged=true',
    ),
    "privileged init and ephemeral containers": (
        pod(
            initContainers=[{"name": "i", "securityContext": {"privileged": True}}],
            ephemeralContainers=[{"name": "e", "securityContext": {"privileged": True}}],
        ),
        "privileged",
        'containers "i", "e" must not set securityContext.privileged=true',
    ),
    "procMount": (
        pod(hard(procMount="Default"), hard(procMount="Unmasked")),
        "procMount",
        'container "b" must not set securityContext.procMount to "Unmasked"',
    ),
    "SELinux": (
        pod(
            hard(seLinuxOptions={"type": "spc_t"}),
            hard(seLinuxOptions={"role": "r", "user": "u"}),
            hard(seLinuxOptions={"type": "container_t", "level": "s0"}),
        ),
        "seLinuxOptions",
        'containers "a", "b" set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; '
        "role may not be set",
    ),
    "SELinux of the pod": (
        pod(securityContext={"seLinuxOptions": {"role": "r"}}),
        "seLinuxOptions",
        "pod set forbidden securityContext.seLinuxOptions: role may not be set",
    ),
    "seccomp": (
        pod(hard(seccompProfile={"type": "Unconfined"}), securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "seccompProfile",
        'pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined"',
    ),
    "sysctls, in their order": (
        pod(
            securityContext={
                "sysctls": [{"name": "z"}, {"name": "kernel.shm_rmid_forced"}, {"name": "a"}],
            }
        ),
        "forbidden sysctls",
        "z, a",
    ),
    "processes of a Windows host": (
        pod(
            hard(windowsOptions={"hostProcess": True}),
            hard(windowsOptions={"hostProcess": False}),
            securityContext={"windowsOptions": {"hostProcess": True}},
        ),
        "hostProcess",
        'pod and container "a" must not set securityContext.windowsOptions.hostProcess=true',
    ),
}
RESTRICTED_CASES = {
    "privilege escalation": (
        pod(hard(allowPrivilegeEscalation=None), hard(allowPrivilegeEscalation=True), HARD),
        "allowPrivilegeEscalation != false",
        'containers "a", "b" must set securityContext.allowPrivilegeEscalation=false',
    ),
    "capabilities": (
        pod(
            hard(capabilities={"drop": ["KILL"], "add": ["NET_BIND_SERVICE"]}),
            hard(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}),
            hard(capabilities=None),
        ),
        "unrestricted capabilities",
        'containers "a", "c" must set securityContext.capabilities.drop=["ALL"]; '
        'container "b" must not include "CHOWN" in securityContext.capabilities.add',
    ),
    "types of volumes": (
        pod(
            volumes=[{"name": "v", "nfs": {}}, {"name": "w", "hostPath": {}}, {"name": "x", "image": {}}, {"name": "y"}]
        ),
        "restricted volume types",
        'volumes "v", "w", "y" use restricted volume types "hostPath", "nfs", "unknown"',
    ),
    "root, stated": (
        pod(hard(runAsNonRoot=False), hard(runAsNonRoot=None), securityContext={"runAsNonRoot": False}),
        "runAsNonRoot != true",
        'pod and container "a" must not set securityContext.runAsNonRoot=false',
    ),
    "root, not excluded": (
        pod(hard(runAsNonRoot=None), HARD),
        "runAsNonRoot != true",
        'pod or container "a" must set securityContext.runAsNonRoot=true',
    ),
    "user 0": (
        pod(hard(runAsUser=0), hard(runAsUser=1), securityContext={"runAsUser": 0}),
        "runAsUser=0",
        'pod and container "a" must not set runAsUser=0',
    ),
    "no seccomp profile": (
        pod(hard(seccompProfile=None), HARD),
        "seccompProfile",
        'pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
    ),
}


@pytest.mark.parametrize("case", BASELINE_CASES)
def test_baseline_forbids(case: str) -> None:
    given, reason, detail = BASELINE_CASES[case]
    assert found(BASELINE, None, given) == {reason: detail}


@pytest.mark.parametrize("case", RESTRICTED_CASES)
def test_restricted_forbids(case: str) -> None:
    given, reason, detail = RESTRICTED_CASES[case]
    assert found(RESTRICTED, None, given) == {reason: detail}


@pytest.mark.parametrize("minor", [*range(NEWEST + 1), None])
def test_a_hardened_pod_passes_every_version(minor: int | None) -> None:
    assert found(RESTRICTED, minor, pod()) == {}


def test_settings_of_the_pod_count_for_containers_without_their_own() -> None:
    bare = hard(runAsNonRoot=None, seccompProfile=None)
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "Localhost"}}
    assert found(RESTRICTED, None, pod(bare, securityContext=context)) == {}


def test_the_privileged_standard_forbids_nothing() -> None:
    assert found(PRIVILEGED, None, pod(hard(privileged=True), hostPID=True)) == {}


@pytest.mark.parametrize(
    ("level", "first", "given"),
    [
        (BASELINE, 34, pod(containers=[{"name": "a", "livenessProbe": {"httpGet": {"host": "x"}}}])),
        (BASELINE, 19, pod(hard(seccompProfile={"type": "Unconfined"}))),
        (RESTRICTED, 8, pod(hard(allowPrivilegeEscalation=True))),
        (RESTRICTED, 19, pod(hard(seccompProfile=None))),
        (RESTRICTED, 22, pod(hard(capabilities=None))),
        (RESTRICTED, 23, pod(hard(runAsUser=0))),
    ],
)
def test_a_check_applies_from_its_version_on(level: str, first: int, given: dict[str, Any]) -> None:
    assert not found(level, first - 1, given)
    assert found(level, first, given)


@pytest.mark.parametrize(
    ("level", "last", "given"),
    [
        (BASELINE, 18, pod(annotations={SECCOMP + "a": "unconfined"})),
        (BASELINE, 26, pod(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]})),
        (BASELINE, 28, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout"}]})),
        (BASELINE, 31, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]})),
        (BASELINE, 30, pod(hard(seLinuxOptions={"type": "container_engine_t"}))),
        (BASELINE, 34, pod(hard(procMount="Unmasked"), hostUsers=False)),
        (RESTRICTED, 34, pod(hard(runAsUser=0, runAsNonRoot=False), hostUsers=False)),
        (RESTRICTED, 24, pod({"runAsNonRoot": True}, os={"name": "windows"})),
    ],
)
def test_later_versions_allow_more(level: str, last: int, given: dict[str, Any]) -> None:
    assert found(level, last, given)
    assert not found(level, last + 1, given)


def test_restricted_forbids_unmasked_proc_even_in_a_user_namespace() -> None:
    given = pod(hard(procMount="Unmasked"), hostUsers=False)
    assert found(RESTRICTED, 35, given).keys() == {"procMount"}


def test_a_restricted_check_replaces_the_weaker_one_of_baseline() -> None:
    given = pod(hard(capabilities={"add": ["SYS_ADMIN"]}), volumes=[{"name": "v", "hostPath": {}}])
    assert list(found(RESTRICTED, None, given)) == ["unrestricted capabilities", "restricted volume types"]
    assert list(found(RESTRICTED, 21, given)) == ["non-default capabilities", "restricted volume types"]


def test_versions_to_come_have_the_checks_of_the_newest() -> None:
    given = pod(None, hostPID=True)
    assert found(RESTRICTED, NEWEST + 60, given) == found(RESTRICTED, NEWEST, given) == found(RESTRICTED, None, given)


def test_old_seccomp_annotations_are_quoted_in_order() -> None:
    given = pod(
        annotations={
            "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
            SECCOMP + "a": "x",
            SECCOMP + "b": "x",
        }
    )
    expected = f'forbidden annotations {SECCOMP}a="x", seccomp.security.alpha.kubernetes.io/pod="unconfined"'
    assert found(BASELINE, 18, given) == {"seccompProfile": expected}
