"""The folder of `--patch-dir`. Patches of earlier runs stay: a workload fits because of its patch, and a folder with
only the latest changes would undo it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from podfit.cli.recommending.patching.patches import Change, files
from podfit.kit.badsetting import BadSetting

LIST = "kustomization.yaml"
Patch = Mapping[str, Any]


def write(folder: Path, changed: Iterable[Change]) -> list[str]:
    """Writes the patches and a kustomize component that lists them, and returns notes. Raises BadSetting for a folder
    with a kustomization that another program wrote.
    """
    changes = list(changed)
    earlier = _listed(folder)
    made, left = files(changes)
    notes = [f"no patch for {words}" for words in left]
    if not made:
        return [*notes, f"no patches in {folder}"]
    for name, content in made.items():
        if name in earlier:
            content = _merged(_patch(folder / name), content, _containers(changes, content))
        made[name] = content
    kept = [name for name in earlier if name not in made and (folder / name).is_file()]
    head = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    component = {**head, "patches": [{"path": name} for name in sorted([*made, *kept])]}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**made, LIST: component}.items():
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))
    more = f", which also lists {len(kept)} of earlier runs," if kept else ""
    return [*notes, f"{len(made)} patches and a kustomization{more} in {folder}"]


def _listed(folder: Path) -> list[str]:
    """The patches that an earlier run listed."""
    try:
        text = (folder / LIST).read_text()
    except FileNotFoundError:
        return []
    foreign = BadSetting(f"--patch-dir {folder}: its {LIST} is not one of podfit's; choose another folder")
    try:
        found = yaml.safe_load(text)
        if set(found) != {"apiVersion", "kind", "patches"} or found["kind"] != "Component":
            raise foreign
        names = [patch["path"] for patch in found["patches"] if set(patch) == {"path"}]
    except (yaml.YAMLError, TypeError, KeyError):
        raise foreign from None
    if len(names) != len(found["patches"]) or any("/" in name for name in names):
        raise foreign
    return names


def _patch(file: Path) -> Patch:
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _containers(changes: Iterable[Change], patch: Patch) -> set[tuple[str, str]]:
    """The containers that the workload of a patch has, by field of the pod's spec."""
    meta = patch["metadata"]
    for change in changes:
        if change.key == (meta["namespace"], patch["kind"], meta["name"]):
            return {(field_name, container["name"]) for field_name, container in change.workload.containers}
    return set()


def _merged(earlier: Patch, newer: Patch, there: set[tuple[str, str]]) -> Patch:
    """The newer patch with what only the earlier one sets, for containers that are still there."""
    old, new = _spec_of(earlier), _spec_of(newer)
    for field_name, name in sorted(there):
        before, after = _resources(old, field_name, name), _resources(new, field_name, name)
        if before is None:
            continue
        if after is None:
            new.setdefault(field_name, []).append({"name": name, "resources": before})
            continue
        for kind in ("requests", "limits"):
            if both := {**(before.get(kind) or {}), **(after.get(kind) or {})}:
                after[kind] = both
    return newer


def _spec_of(patch: Patch) -> dict[str, Any]:
    """The pod's spec within a patch of a workload."""
    spec = patch.get("spec") or {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or {} if "jobTemplate" in spec else spec
    found = (spec.get("template") or {}).get("spec")
    return found if isinstance(found, dict) else {}


def _resources(spec: Mapping[str, Any], field_name: str, name: str) -> dict[str, Any] | None:
    for container in spec.get(field_name) or ():
        if container.get("name") == name:
            found = container.setdefault("resources", {})
            return found if isinstance(found, dict) else None
    return None
