"""Restricts the labels that a node may change on its own Node object: those that describe it, not those that attract
pods."""

from __future__ import annotations

_RESTRICTION = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


def forbidden_labels(new: dict[str, str], old: dict[str, str]) -> list[str]:
    """Changed labels that a node may not change: they influence which pods are scheduled to it."""
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if not _may_label(key))


def _may_label(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    if not slash:
        return True
    if _within(domain, _RESTRICTION):
        return False
    if not _within(domain, "kubernetes.io") and not _within(domain, "k8s.io"):
        return True
    return key in _OWN_LABELS or any(_within(domain, own) for own in _OWN_LABEL_DOMAINS)


def _within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith("." + parent)
