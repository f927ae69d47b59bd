"""Finds the workload of a deleted pod: as kube-state-metrics recorded it, or else inferred from the pod's name.
Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from podfit.vpa.report.cluster.workloads import Key

_HASH = "[bcdfghjklmnpqrstvwxz2456789]"
"""The letters of generated names: no vowels, no digits that look like letters."""
_FORMS = {
    "Deployment": re.compile(rf"^(?P<name>.+)-{_HASH}{{1,10}}-{_HASH}{{5}}$"),
    "ReplicaSet": re.compile(rf"^(?P<name>.+)-{_HASH}{{5}}$"),
    "ReplicationController": re.compile(rf"^(?P<name>.+)-{_HASH}{{5}}$"),
    "DaemonSet": re.compile(rf"^(?P<name>.+)-{_HASH}{{5}}$"),
    "StatefulSet": re.compile(r"^(?P<name>.+)-\d+$"),
    "CronJob": re.compile(rf"^(?P<name>.+)-\d{{8,11}}(-\d+)?-{_HASH}{{5}}$"),
    "Job": re.compile(rf"^(?P<name>.+?)(-\d+)?-{_HASH}{{5}}$"),
}
_MADE = re.compile(rf"^(?P<name>.+)-({_HASH}{{1,10}}|\d{{8,11}})$")
"""ReplicaSets of Deployments and Jobs of CronJobs."""
_ABOVE = {"ReplicaSet": "Deployment", "Job": "CronJob"}

Owner = tuple[str, str]
"""Kind and name."""


class Owners:
    """Resolves existing and deleted pods."""

    def __init__(
        self,
        workloads: Iterable[Key],
        pods: Mapping[tuple[str, str], Key],
        recorded: Mapping[tuple[str, str], Owner] | None = None,
        above: Mapping[tuple[str, str, str], Owner] | None = None,
    ) -> None:
        """`recorded` are the owners of pods, by namespace and pod; `above` are the owners of owners, by namespace, kind
        and name."""
        self._known = set(workloads)
        self._pods, self._recorded, self._above = dict(pods), dict(recorded or {}), dict(above or {})
        self._found: dict[tuple[str, str], Key | None] = {}

    def of(self, namespace: str, pod: str) -> Key | None:
        """The workload of a pod; None if it no longer exists."""
        at = (namespace, pod)
        if at in self._pods:
            return self._pods[at]
        if at not in self._found:
            self._found[at] = self._by_record(namespace, pod) or self._by_name(namespace, pod)
        return self._found[at]

    def _by_record(self, namespace: str, pod: str) -> Key | None:
        owner = self._recorded.get((namespace, pod))
        if owner is None:
            return None
        candidates = (self._above.get((namespace, *owner)), guessed(owner), owner)
        keys = (Key(namespace, *candidate) for candidate in candidates if candidate is not None)
        return next((key for key in keys if key in self._known), None)

    def _by_name(self, namespace: str, pod: str) -> Key | None:
        """The workload with the longest matching name: a pod of `web-front` does not belong to `web`."""
        fitting = []
        for kind, form in _FORMS.items():
            if (match := form.match(pod)) and (key := Key(namespace, kind, match["name"])) in self._known:
                fitting.append(key)
        return max(fitting, key=lambda key: len(key.name), default=None)


def guessed(owner: Owner) -> Owner:
    """The owner's own owner, inferred from a generated name: the Deployment of a ReplicaSet, or the CronJob of
    a Job."""
    kind, name = owner
    match = _MADE.match(name)
    return (_ABOVE[kind], match["name"]) if match and kind in _ABOVE else owner


def owner_by_name(pod: str) -> Owner:
    """The owner that a pod's name implies, for use when the workloads are unknown."""
    for kind in ("CronJob", "Deployment", "DaemonSet", "StatefulSet"):
        if match := _FORMS[kind].match(pod):
            return kind, match["name"]
    return "Pod", pod
