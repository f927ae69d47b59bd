"""Warnings about pods that are accepted but probably not intended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from podfit.api.objects import Object
from podfit.api.quantity import NANO, Quantity
from podfit.api.status import go_quote
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import ip_warnings
from podfit.apiserver.strategy.pod.volume_warnings import volume_warnings
from podfit.apiserver.strategy.podspec.annotations import APP_ARMOR, APP_ARMOR_TEXT, app_armor_field

_OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NO_POD = "a null labelSelector results in matching no pod"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_TEXT = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_BYTES = ("memory", "ephemeral-storage")
_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_warnings(pod: Object) -> list[str]:
    """Warnings about a new pod; updates get none."""
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    found: list[str] = []
    complaints = names.dns_label(metadata.get("name", ""))
    if complaints:
        found.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(complaints)}]"
        )
    _spec(spec, metadata, "", found)
    return found


def template_warnings(template: Object, path: str) -> list[str]:
    found: list[str] = []
    _spec(template.get("spec") or {}, template.get("metadata") or {}, f"{path}.", found)
    return found


def _spec(spec: Object, metadata: Object, prefix: str, found: list[str]) -> None:
    path, annotations = f"{prefix}spec", metadata.get("annotations") or {}
    _node_labels(spec, path, found)
    for key, text in _OLD_ANNOTATIONS.items():
        if key in annotations:
            found.append(f"{prefix}metadata.annotations[{key}]: {text}")
    if spec.get("volumes"):
        volume_warnings(spec["volumes"], f"{path}.volumes", found)
    _repeated((each.get("ip", "") for each in spec.get("hostAliases") or ()), f"{path}.hostAliases", "ip", found)
    secrets = [each.get("name", "") for each in spec.get("imagePullSecrets") or ()]
    _repeated(secrets, f"{path}.imagePullSecrets", "name", found)
    found += [
        f'{path}.imagePullSecrets[{at}].name: invalid empty name ""' for at, name in enumerate(secrets) if not name
    ]
    if spec.get("overhead"):
        _fractions({"overhead": spec["overhead"]}, path, found)
    if _SECCOMP_POD in annotations and not (spec.get("securityContext") or {}).get("seccompProfile"):
        found.append(f"{prefix}metadata.annotations[{_SECCOMP_POD}]: {_SECCOMP_TEXT}")
    for where, container in _containers(spec, path):
        if annotations:
            _profiles(container, spec, annotations, prefix, found)
        _container(container, where, found)
    _ports(spec, path, found)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{path}.terminationGracePeriodSeconds: {text}")
    if spec.get("affinity"):
        _pod_affinity(spec["affinity"], f"{path}.affinity", found)
    for at, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        found += ip_warnings(server, f"{path}.dnsConfig.nameservers[{at}]")
    for at, alias in enumerate(spec.get("hostAliases") or ()):
        found += ip_warnings(alias.get("ip", ""), f"{path}.hostAliases[{at}].ip")


def deprecated_node_label(key: str) -> str:
    """The replacement of a deprecated node label, or ""."""
    return _OLD_LABELS.get(key, "")


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for key in _LISTS:
        for at, container in enumerate(spec.get(key) or ()):
            yield f"{path}.{key}[{at}]", container


def _node_labels(spec: Object, path: str, found: list[str]) -> None:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            found.append(f"{path}.nodeSelector[{key}]: {_OLD_LABELS[key]}")
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if affinity:
        for at, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
            _term(term, f"{path}.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[{at}]", found)
        for at, preference in enumerate(affinity.get(_PREFERRED) or ()):
            where = f"{path}.affinity.nodeAffinity.{_PREFERRED}[{at}].preference"
            _term(preference.get("preference") or {}, where, found)
    for at, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}.topologySpreadConstraints[{at}]", constraint.get("topologyKey", "")
        if key in _OLD_LABELS:
            found.append(f"{where}.topologyKey: {key} is {_OLD_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            found.append(f"{where}.labelSelector: {_NO_POD}")


def _term(term: Object, path: str, found: list[str]) -> None:
    for at, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key", "")
        if key in _OLD_LABELS:
            found.append(f"{path}.matchExpressions[{at}].key: {key} is {_OLD_LABELS[key]}")


def _pod_affinity(affinity: Object, path: str, found: list[str]) -> None:
    """Warns of affinity terms that match nothing because they have no selector."""
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        places = [(f"{path}.{kind}.{_REQUIRED}[{at}]", term) for at, term in enumerate(terms.get(_REQUIRED) or ())]
        places += [
            (f"{path}.{kind}.{_PREFERRED}[{at}].podAffinityTerm", weighted.get("podAffinityTerm") or {})
            for at, weighted in enumerate(terms.get(_PREFERRED) or ())
        ]
        found += [f"{where}.labelSelector: {_NO_POD}" for where, term in places if term.get("labelSelector") is None]


def _repeated(values: Iterable[str], path: str, field: str, found: list[str]) -> None:
    seen: set[str] = set()
    for at, value in enumerate(values):
        if value in seen:
            found.append(f"{path}[{at}].{field}: duplicate {field} {go_quote(value)}")
        seen.add(value)


def _profiles(container: Object, spec: Object, annotations: Object, prefix: str, found: list[str]) -> None:
    """Warns of annotations that have been replaced by fields, if the field is not set."""
    own, pod = container.get("securityContext") or {}, spec.get("securityContext") or {}
    key = _SECCOMP_CONTAINER + container.get("name", "")
    if key in annotations and not own.get("seccompProfile"):
        found.append(f"{prefix}metadata.annotations[{key}]: {_SECCOMP_TEXT}")
    key = APP_ARMOR + container.get("name", "")
    # Annotations of pods are reported when they are copied to the field.
    if prefix and key in annotations and own.get("appArmorProfile") is None:
        of_pod = pod.get("appArmorProfile")
        if of_pod is None or of_pod != app_armor_field(annotations[key]):
            found.append(f"{prefix}metadata.annotations[{key}]: {APP_ARMOR_TEXT}")


def _container(container: Object, path: str, found: list[str]) -> None:
    if container.get("resources"):
        _fractions(container["resources"], f"{path}.resources", found)
    variables = container.get("env") or ()
    if len(variables) < 2:
        return
    seen: set[str] = set()
    for at, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        # A later definition that refers to the earlier one is intended.
        builds_on = variable.get("valueFrom") is None and value != reference and reference in value
        if name in seen and not builds_on:
            text = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            found.append(f"{path}.env[{at}]: {text}")
        seen.add(name)


def _fractions(resources: Object, path: str, found: list[str]) -> None:
    for name in _BYTES:
        for kind in ("overhead", "limits", "requests"):
            text = (resources.get(kind) or {}).get(name)
            if text is not None and Quantity.parse(text).nanos % NANO:
                where = f"{path}.{kind}[{name}]"
                found.append(f"{where}: fractional byte value {go_quote(text)} is invalid, must be an integer")


def _ports(spec: Object, path: str, found: list[str]) -> None:
    known: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for where, container in _containers(spec, path):
        for at, port in enumerate(container.get("ports") or ()):
            here = f"{where}.ports[{at}]"
            if port.get("hostIP") and not port.get("hostPort"):
                found.append(f"{here}: hostIP set without hostPort: {_as_go(port)}")
            others = known.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            for place, other in others:
                how = _overlap(port, other)
                if how:
                    found.append(f"{here}: {how} port definition with {place}")
            others.append((here, port))


def _as_go(port: Object) -> str:
    """Formats a port like Go's %+v."""
    numbers = f"HostPort:{port.get('hostPort', 0)} ContainerPort:{port.get('containerPort', 0)}"
    return (
        f"{{Name:{port.get('name', '')} {numbers} Protocol:{port.get('protocol', '')} HostIP:{port.get('hostIP', '')}}}"
    )


def _overlap(port: Object, other: Object) -> str:
    mine, theirs = port.get("hostPort", 0), other.get("hostPort", 0)
    address, their_address = port.get("hostIP", ""), other.get("hostIP", "")
    if (address, mine) == (their_address, theirs):
        return "duplicate"
    if not mine or not theirs:
        return "overlapping"
    if mine == theirs and bool(address) != bool(their_address):
        return "dangerously ambiguous"
    return ""
