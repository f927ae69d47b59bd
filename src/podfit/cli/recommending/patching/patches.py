"""Writes the changes per workload as patches for a pull request, and as a diff to read. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.cli.recommending.texts import resources
from podfit.vpa.observe.caches import WELL_KNOWN
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.findings import Finding, as_written
from podfit.vpa.report.decide.sizing import ContainerSizes

RANKS = {"none": 0, "low": 1, "medium": 2, "high": 3}
IN_PLACE = "podfit.dev/resize-policy"


@dataclass(frozen=True, slots=True)
class Change:
    """The containers of one workload with new sizes."""

    workload: Workload
    sizes: Mapping[tuple[str, str], ContainerSizes]
    """The new sizes, by field of the pod's spec and container."""

    @property
    def key(self) -> Key:
        return self.workload.key

    @property
    def containers(self) -> dict[str, list[dict[str, Any]]]:
        """A strategic merge patch of a pod's spec."""
        made: dict[str, list[dict[str, Any]]] = {}
        for (field_name, name), sizes in self.sizes.items():
            made.setdefault(field_name, []).append({"name": name, "resources": resources(sizes)})
        return made

    @property
    def template(self) -> dict[str, Any] | None:
        """A strategic merge patch of the workload itself; None if its template cannot be changed."""
        if self.workload.foreign or self.key.kind not in WELL_KNOWN or self.key.kind == "Job":
            return None
        inside: dict[str, Any] = {"template": {"spec": self.containers}}
        return {"spec": {"jobTemplate": {"spec": inside}} if self.key.kind == "CronJob" else inside}

    @property
    def resizes_by_itself(self) -> bool:
        """Whether podfit's controllers resize the pods when the template changes."""
        meta = (self.workload.object or {}).get("metadata") or {}
        return (meta.get("annotations") or {}).get(IN_PLACE) == "InPlace"

    @property
    def rolls_out(self) -> bool:
        """Whether a change of the template recreates the pods."""
        spec = (self.workload.object or {}).get("spec") or {}
        how = (spec.get("updateStrategy") or {}).get("type")
        rolled = self.key.kind in ("Deployment", "StatefulSet", "DaemonSet") and how != "OnDelete"
        return rolled and not self.resizes_by_itself


def changes(
    listed: Iterable[Finding],
    workloads: Mapping[Key, Workload],
    least: float,
    confidence: str = "none",
    *,
    templates: bool = False,
) -> list[Change]:
    """The changes, in the report's order. Containers with less than `confidence` are not changed. `templates`: compared
    with the templates, which keep their sizes when pods are resized in place.
    """
    made: dict[Key, dict[tuple[str, str], ContainerSizes]] = {}
    for finding in listed:
        known = finding.evidence.confidence if finding.evidence is not None else "none"
        finding = as_written(finding, workloads[finding.key]) if templates else finding
        sizes = finding.changes(least)
        if sizes.requests and RANKS[known] >= RANKS[confidence]:
            made.setdefault(finding.key, {})[finding.field_name, finding.container] = sizes
    return [Change(workloads[key], sizes) for key, sizes in made.items()]


def files(changed: Iterable[Change]) -> tuple[dict[str, Any], list[str]]:
    """The patch files as names with contents, and the workloads without a file, with the reason."""
    made: dict[str, Any] = {}
    left: list[str] = []
    for change in changed:
        patch = change.template
        if patch is None:
            left.append(f"{change.key}: {_no_template(change)}")
            continue
        kind = WELL_KNOWN[change.key.kind]
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        meta = {"metadata": {"name": change.key.name, "namespace": change.key.namespace}}
        made[f"{change.key.namespace}-{change.key.kind.lower()}-{change.key.name}.yaml"] = {**head, **meta, **patch}
    return made, left


def _no_template(change: Change) -> str:
    if change.key.kind == "Pod":
        return "a pod without an owner has no template; --apply resizes it in place"
    if change.key.kind == "Job":
        return "the template of a Job cannot be changed"
    return f"its template belongs to a {change.key.kind}, which podfit does not know"


def diff(change: Change) -> str:
    """The sizes of the changed containers, as a unified diff."""
    import yaml

    before: dict[str, list[dict[str, Any]]] = {}
    after: dict[str, list[dict[str, Any]]] = {}
    for field_name, container in change.workload.containers:
        sizes = change.sizes.get((field_name, container.get("name") or ""))
        if sizes is not None:
            written = container.get("resources") or {}
            merged = {
                kind: {**(written.get(kind) or {}), **amounts}
                for kind, amounts in {**{key: {} for key in written}, **resources(sizes)}.items()
                if isinstance(written.get(kind) or {}, dict)
            }
            before.setdefault(field_name, []).append({"name": container["name"], "resources": written})
            after.setdefault(field_name, []).append({"name": container["name"], "resources": merged})
    old, new = (yaml.safe_dump(side, sort_keys=False).splitlines() for side in (before, after))
    return "\n".join(
        difflib.unified_diff(old, new, f"now/{change.key}", f"recommended/{change.key}", n=99, lineterm="")
    )
