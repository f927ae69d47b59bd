"""PodSecurity: checks pods against the standards that the labels of their namespace select.

The enforced standard applies to pods only. The standards for warnings and audit also apply to the pod templates of
workloads, so that the author of a template sees its violations. Namespaces without such labels restrict nothing.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, POD
from podfit.api.status import aggregate, internal_error, unprocessable
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Cluster, Plugin, meta_of, spec_of
from podfit.apiserver.admission.podsecurity import existing_pods
from podfit.apiserver.admission.podsecurity.policy import PREFIX, PRIVILEGED, UNRESTRICTED, Policy, Standard, policy_of
from podfit.apiserver.admission.podsecurity.table import violations
from podfit.kit.clock import Clock, RealClock

_TEMPLATES: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "podtemplates"): ("template",),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
}
"""The path of the pod template in each kind of workload."""
_HARMLESS = frozenset(
    # A resize changes only resources, which no standard checks; other subresources do not contain the pod's spec.
    ("resize", "exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
)


class PodSecurity(Plugin):
    name = "PodSecurity"

    def __init__(self, cluster: Cluster, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or RealClock()

    def handles(self, attrs: Attributes) -> bool:
        if attrs.operation not in (CREATE, UPDATE):
            return False
        if attrs.resource == ("", "pods"):
            return attrs.subresource not in _HARMLESS
        return not attrs.subresource and (attrs.resource == ("", "namespaces") or attrs.resource in _TEMPLATES)

    async def validate(self, attrs: Attributes) -> None:
        plural = attrs.kind.plural
        if plural == "pods":
            self._check_pod(attrs)
        elif plural == "namespaces":
            await self._check_namespace(attrs)
        else:
            self._check_template(attrs)

    def _check_pod(self, attrs: Attributes) -> None:
        namespace = self._cluster.get(NAMESPACE, "", attrs.namespace)
        if namespace is None:
            raise internal_error(f'failed to lookup namespace "{attrs.namespace}"')
        policy = policy_of(meta_of(namespace).get("labels"))
        if policy is UNRESTRICTED or not policy.restricts_pods:
            return
        pod = attrs.object or {}
        if attrs.operation == UPDATE and not is_significant(spec_of(pod), spec_of(attrs.old)):
            return
        attrs.annotations[PREFIX + "enforce-policy"] = str(policy.enforce)
        _note(attrs, policy, pod)
        found = _detailed(policy.enforce, pod)
        if found:
            raise attrs.forbid(f'violates PodSecurity "{policy.enforce}": {found}')
        _warn(attrs, policy, pod)

    def _check_template(self, attrs: Attributes) -> None:
        # If the namespace does not exist, a workload is admitted; its pods will be rejected.
        policy = policy_of(meta_of(self._cluster.get(NAMESPACE, "", attrs.namespace)).get("labels"))
        if not policy.restricts_templates:
            return
        template = attrs.object
        for field in _TEMPLATES[attrs.resource]:
            template = (template or {}).get(field)
        if template is not None:
            _note(attrs, policy, template)
            _warn(attrs, policy, template)

    async def _check_namespace(self, attrs: Attributes) -> None:
        new = policy_of(meta_of(attrs.object).get("labels"))
        old = policy_of(meta_of(attrs.old).get("labels"))
        # An update may keep the errors that the labels already have.
        if new.errors and (attrs.operation == CREATE or new.errors != old.errors):
            raise unprocessable(attrs.kind.kind, attrs.name, new.errors)
        if attrs.operation == CREATE or new.enforce == old.enforce or new.enforce.level == PRIVILEGED:
            return
        if new.enforce.minor == old.enforce.minor and not new.enforce.stricter_than(old.enforce):
            return
        pods = self._cluster.list(POD, attrs.name)
        attrs.warnings += await existing_pods.warnings(attrs.name, new.enforce, pods, self._clock)


def is_significant(new: Object, old: Object) -> bool:
    """Whether an update changes fields of a pod's spec that may both change and violate a standard."""
    for field in ("containers", "initContainers"):
        ours, theirs = new.get(field) or (), old.get(field) or ()
        if ours is not theirs and [row.get("image") for row in ours] != [row.get("image") for row in theirs]:
            return True
    images = {row.get("name"): row.get("image") for row in old.get("ephemeralContainers") or ()}
    return any(
        row.get("name") not in images or row.get("image") != images[row.get("name")]
        for row in new.get("ephemeralContainers") or ()
    )


def _note(attrs: Attributes, policy: Policy, pod: Object) -> None:
    if policy.errors:
        attrs.annotations[PREFIX + "error"] = f"Failed to parse policy: {aggregate(policy.errors)}"
    found = _detailed(policy.audit, pod)
    if found:
        attrs.annotations[PREFIX + "audit-violations"] = f'would violate PodSecurity "{policy.audit}": {found}'


def _warn(attrs: Attributes, policy: Policy, pod: Object) -> None:
    found = _detailed(policy.warn, pod)
    if found:
        attrs.warnings.append(f'would violate PodSecurity "{policy.warn}": {found}')


def _detailed(standard: Standard, pod: Object) -> str:
    return ", ".join(f"{found.reason} ({found.detail})" for found in violations(standard, pod))
