"""Warnings about volumes: storage types without effect, and conflicting paths in a volume."""

from __future__ import annotations

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
_Place = tuple[str, str]
"""A path in a volume, and the projected source that it is from."""


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
            _collisions(_places(source, ""), [], f"volume {name} ({what}): overlapping paths", found)
    taken: list[_Place] = []
    for source in (volume.get("projected") or {}).get("sources") or ():
        if all(value is None for value in source.values()):
            found.append(f"volume {name} (Projected) has no sources provided")
        else:
            _collisions(_projection(source), taken, f"volume {name} (Projected): overlapping paths", found)


def _projection(source: Object) -> list[_Place]:
    for kind, word in _PROJECTED:
        part = source.get(kind)
        if part is not None and part.get("items"):
            return _places(part, word if kind == "downwardAPI" else f"{word} {go_quote(part.get('name', ''))}")
    if source.get("serviceAccountToken") is not None:
        return [(source["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    bundle = source.get("clusterTrustBundle")
    if bundle is not None:
        name = go_quote(bundle.get("name") or bundle.get("signerName") or "")
        return [(bundle.get("path", ""), f"ClusterTrustBundle {name}")]
    return []


def _places(source: Object, word: str) -> list[_Place]:
    return [(item.get("path", ""), word) for item in source.get("items") or ()]


def _collisions(places: list[_Place], taken: list[_Place], text: str, found: list[str]) -> None:
    """Adds the places to those that are taken."""
    for path, word in places:
        mine = path.rstrip("/"), word
        if mine[0]:
            found.extend(f"{text}: {_shown(mine)} with {_shown(other)}" for other in taken if _overlap(mine, other))
        taken.append(mine)


def _shown(place: _Place) -> str:
    path, word = place
    return f"{go_quote(path)} ({word})" if word else go_quote(path)


def _overlap(one: _Place, other: _Place) -> bool:
    """Whether one path contains the other."""
    mine, theirs = f"{one[0]}/", f"{other[0]}/"
    return bool(other[0]) and (mine.startswith(theirs) or theirs.startswith(mine))
