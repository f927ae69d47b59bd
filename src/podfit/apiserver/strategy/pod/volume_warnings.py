"""Warnings about volumes: storage types without effect, and conflicting paths in a volume."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.quantity import NANO, Quantity
from podfit.api.status import go_quote

OLD_VOLUMES = {
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
SPELLED = {"storageos": "storageOS"}
_FILES = (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", ""))
_PROJECTED = (("configMap", "ConfigMap"), ("secret", "Secret"), ("downwardAPI", "DownwardAPI"))


def volume_warnings(volumes: list[Object], path: str, found: list[str]) -> None:
    for at, volume in enumerate(volumes):
        for kind, text in OLD_VOLUMES.items():
            if volume.get(kind) is not None:
                found.append(f"{path}[{at}].{SPELLED.get(kind, kind)}: {text}")
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            claim_warnings(template.get("spec") or {}, f"{path}[{at}].ephemeral.volumeClaimTemplate.spec", found)
    for volume in volumes:
        _overlaps(volume, found)


def claim_warnings(spec: Object, path: str, found: list[str]) -> None:
    for kind in ("requests", "limits"):
        text = ((spec.get("resources") or {}).get(kind) or {}).get("storage")
        if text is not None and Quantity.parse(text).nanos % NANO:
            where = f"{path}.resources.{kind}[storage]"
            found.append(f"{where}: fractional byte value {go_quote(text)} is invalid, must be an integer")


def _overlaps(volume: Object, found: list[str]) -> None:
    name = go_quote(volume.get("name", ""))
    for kind, word, naming in _FILES:
        source = volume.get(kind)
        if source and source.get("items"):
            what = f"{word} {go_quote(source.get(naming, ''))}" if naming else word
            _collisions(_paths(source), f"volume {name} ({what}): overlapping paths", found)
    taken: set[str] = set()
    for source in (volume.get("projected") or {}).get("sources") or ():
        if all(value is None for value in source.values()):
            found.append(f"volume {name} (Projected) has no sources provided")
            continue
        what, paths = _projection(source)
        if paths:
            text = f"volume {name} (Projected {what}): overlapping paths"
            _collisions(paths, text, found)
            _collisions(sorted([*set(paths), *taken]), text, found)
            taken.update(paths)


def _projection(source: Object) -> tuple[str, list[str]]:
    for kind, word in _PROJECTED:
        part = source.get(kind)
        if part is not None and part.get("items"):
            return (word if kind == "downwardAPI" else f"{word} {go_quote(part.get('name', ''))}"), _paths(part)
    if source.get("serviceAccountToken") is not None:
        return "ServiceAccountToken", [source["serviceAccountToken"].get("path", "")]
    bundle = source.get("clusterTrustBundle")
    if bundle is not None:
        return f"ClusterTrustBundle {go_quote(bundle.get('name') or bundle.get('signerName') or '')}", [
            bundle.get("path", "")
        ]
    return "", []


def _paths(source: Object) -> list[str]:
    return [item.get("path", "") for item in source.get("items") or ()]


def _collisions(paths: Iterable[str], text: str, found: list[str]) -> None:
    seen: list[str] = []
    for path in paths:
        mine = path.rstrip("/")
        other = _collision(seen, mine)
        if other:
            found.append(f"{text}: {go_quote(mine)} with {go_quote(other)}")
        seen.append(mine)


def _collision(seen: list[str], path: str) -> str:
    """A path that contains another one. Like Kubernetes, this also treats "ab" as being inside "a"."""
    for other in seen:
        if not other or not path:
            return ""
        if f"{other}/".startswith(path) or f"{path}/".startswith(other):
            return other
    return ""
