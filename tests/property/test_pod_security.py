"""The Pod Security standards on any pod: the checks never fail, and a pod that restricted allows is allowed by
baseline.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.admission.podsecurity.policy import BASELINE, RESTRICTED, Standard, policy_of
from podfit.apiserver.admission.podsecurity.table import NEWEST, violations

minors = st.none() | st.integers(0, NEWEST + 3)
names = st.sampled_from(["a", "b", 'c"', ""])


def fields(**choices: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the fields, each with a value or null."""
    return st.fixed_dictionaries({}, optional={name: st.none() | values for name, values in choices.items()})


profiles = fields(type=st.sampled_from(["RuntimeDefault", "Localhost", "Unconfined"]))
capabilities = st.lists(st.sampled_from(["ALL", "CHOWN", "NET_BIND_SERVICE", "NET_RAW"]), max_size=2)
shared = {
    "runAsNonRoot": st.booleans(),
    "runAsUser": st.integers(0, 1),
    "seccompProfile": profiles,
    "appArmorProfile": profiles,
    "seLinuxOptions": fields(type=st.sampled_from(["", "container_t", "spc_t"]), user=names, role=names),
    "windowsOptions": fields(hostProcess=st.booleans()),
}
HARD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
contexts = fields(
    **shared,
    allowPrivilegeEscalation=st.booleans(),
    capabilities=fields(add=capabilities, drop=capabilities),
    privileged=st.booleans(),
    procMount=st.sampled_from(["Default", "Unmasked"]),
)
handlers = fields(httpGet=fields(host=names), tcpSocket=fields(host=names))
containers = st.lists(
    fields(
        name=names,
        securityContext=contexts,
        ports=st.lists(fields(hostPort=st.integers(0, 3)), max_size=2),
        livenessProbe=handlers,
        lifecycle=fields(preStop=handlers),
    ),
    max_size=2,
)
volumes = st.sampled_from(["hostPath", "emptyDir", "csi", "nfs"]).map(lambda source: {"name": "v", source: {}})
sysctls = st.sampled_from(["net.ipv4.tcp_rmem", "kernel.msgmax"]).map(lambda name: [{"name": name}])
specs = fields(
    containers=containers,
    initContainers=containers,
    ephemeralContainers=containers,
    securityContext=fields(**shared, sysctls=sysctls),
    hostNetwork=st.booleans(),
    hostPID=st.booleans(),
    hostUsers=st.booleans(),
    volumes=st.lists(volumes, max_size=2),
)
annotations = st.dictionaries(
    st.sampled_from(
        [
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/a",
            "container.apparmor.security.beta.kubernetes.io/a",
        ]
    ),
    st.sampled_from(["runtime/default", "unconfined", "localhost/x", ""]),
)
pods = fields(metadata=fields(annotations=annotations), spec=specs)


def hardened(pod: dict[str, Any]) -> dict[str, Any]:
    """The same pod with containers that comply, so that the pod may."""
    spec = dict(pod.get("spec") or {})
    for name in ("containers", "initContainers", "ephemeralContainers"):
        rows = spec.get(name) or ()
        spec[name] = [{**row, "securityContext": {**(row.get("securityContext") or {}), **HARD}} for row in rows]
    return {**pod, "spec": {**spec, "securityContext": None, "hostPID": False, "hostNetwork": False}}


@given(pods | pods.map(hardened), minors)
def test_baseline_allows_what_restricted_allows(pod: dict[str, Any], minor: int | None) -> None:
    if not violations(Standard(RESTRICTED, minor), pod):
        assert not violations(Standard(BASELINE, minor), pod)


@given(pods, minors, st.booleans())
def test_every_violation_has_a_reason_and_a_detail(pod: dict[str, Any], minor: int | None, windows: bool) -> None:
    if windows:
        pod = {**pod, "spec": {**(pod.get("spec") or {}), "os": {"name": "windows"}}}
    for level in (BASELINE, RESTRICTED):
        found = violations(Standard(level, minor), pod)
        assert all(violation.reason and violation.detail for violation in found)
        assert len({violation.reason for violation in found}) == len(found)


@given(
    st.dictionaries(
        st.sampled_from(["enforce", "audit", "warn", "enforce-version", "warn-version", "audit-version"]),
        st.sampled_from(["privileged", "baseline", "restricted", "latest", "v1.3"]) | st.text(max_size=5),
    )
)
def test_any_labels_are_a_policy(values: dict[str, str]) -> None:
    policy = policy_of({f"pod-security.kubernetes.io/{name}": value for name, value in values.items()})
    assert len(policy.errors) == len({error.path for error in policy.errors})
    assert policy.restricts_pods or not policy.restricts_templates
