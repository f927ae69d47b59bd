"""Warnings about pods that are accepted and yet probably not what was meant."""

from __future__ import annotations

from typing import Any

from podfit.api.quantity import NANO, Quantity
from podfit.api.status import go_quote
from podfit.apiserver.strategy import names

Object = dict[str, Any]

_OLD_LABELS = {
    "beta.kubernetes.io/arch": ("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": ("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": ("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": ("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": ("v1.17", "node.kubernetes.io/instance-type"),
}
_OLD_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_BYTES = ("memory", "ephemeral-storage")


def pod_warnings(pod: Object, old: Object | None) -> list[str]:
    spec, metadata = pod.get("spec") or {}, pod.get("metadata") or {}
    found: list[str] = []
    if old is None:
        complaints = names.dns_label(metadata.get("name", ""))
        if complaints:
            found.append(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(complaints)}]"
            )
    found += spec_warnings(spec, metadata, "spec", "metadata")
    return found


def template_warnings(template: Object, path: str) -> list[str]:
    metadata = template.get("metadata") or {}
    return spec_warnings(template.get("spec") or {}, metadata, f"{path}.spec", f"{path}.metadata")


def spec_warnings(spec: Object, metadata: Object, path: str, meta_path: str) -> list[str]:
    found: list[str] = []
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            since, instead = _OLD_LABELS[key]
            found.append(f'{path}.nodeSelector[{key}]: deprecated since {since}; use "{instead}" instead')
    for at, volume in enumerate(spec.get("volumes") or ()):
        found += [f"{path}.volumes[{at}].{kind}: {_OLD_VOLUMES[kind]}" for kind in volume if kind in _OLD_VOLUMES]
    _pull_secrets(spec.get("imagePullSecrets") or (), f"{path}.imagePullSecrets", found)
    if metadata.get("annotations"):
        _annotations(metadata["annotations"], f"{meta_path}.annotations", found)
    for key in ("initContainers", "containers"):
        for at, container in enumerate(spec.get(key) or ()):
            _container(container, f"{path}.{key}[{at}]", found)
    return found


def _pull_secrets(secrets: Any, path: str, found: list[str]) -> None:
    seen: set[str] = set()
    for at, secret in enumerate(secrets):
        name = secret.get("name", "")
        if not name:
            found.append(f'{path}[{at}].name: invalid empty name ""')
        elif name in seen:
            found.append(f"{path}[{at}].name: duplicate name {go_quote(name)}")
        seen.add(name)


def _annotations(annotations: dict[str, str], path: str, found: list[str]) -> None:
    for key in annotations:
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            found.append(f'{path}[{key}]: non-functional in v1.27+; use the "seccompProfile" field instead')
        elif key.startswith(_APP_ARMOR):
            found.append(f'{path}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead')


def _container(container: Object, path: str, found: list[str]) -> None:
    resources = container.get("resources")
    if resources:
        for name in _BYTES:
            for kind in ("limits", "requests"):
                text = (resources.get(kind) or {}).get(name)
                if text is not None and Quantity.parse(text).nanos % NANO:
                    where = f"{path}.resources.{kind}[{name}]"
                    found.append(f"{where}: fractional byte value {go_quote(text)} is invalid, must be an integer")
    seen: set[str] = set()
    for at, variable in enumerate(container.get("env") or ()):
        name = variable.get("name", "")
        if name in seen:
            where = f"{path}.env[{at}]"
            hidden = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            found.append(f"{where}: {hidden}")
        seen.add(name)
