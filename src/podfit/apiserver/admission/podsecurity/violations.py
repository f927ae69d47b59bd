"""The result of a Pod Security check, and the wording that the checks share.

A check is a function of a pod or a pod template: an object with `metadata` and `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from podfit.api.objects import Object


class Violation(NamedTuple):
    """`detail` names the containers and values; it is used only in responses about a single pod."""

    reason: str
    detail: str


Check = Callable[[Object], Violation | None]


def spec_of(pod: Object) -> dict[str, Any]:
    return pod.get("spec") or {}


def annotations_of(pod: Object) -> dict[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def containers(pod: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """All containers with their names: init containers, then containers, then ephemeral ones."""
    spec = spec_of(pod)
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or ():
            yield container.get("name") or "", container


def contexts(pod: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names of all containers with their security contexts."""
    for name, container in containers(pod):
        yield name, container.get("securityContext") or {}


def pod_context(pod: Object) -> dict[str, Any]:
    return spec_of(pod).get("securityContext") or {}


def is_windows(pod: Object) -> bool:
    return (spec_of(pod).get("os") or {}).get("name") == "windows"


def has_user_namespace(pod: Object) -> bool:
    return spec_of(pod).get("hostUsers") is False


def plural(word: str, counted: Collection[object], more: str = "") -> str:
    return word if len(counted) == 1 else more or f"{word}s"


def quoted(values: Collection[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def named(word: str, names: Collection[str]) -> str:
    """`container "a"`, or `containers "a", "b"`."""
    return f"{plural(word, names)} {quoted(names)}"


def setters(pod: bool, names: Sequence[str]) -> str:
    """Names the pod, the containers or both, if they set a field. Empty if neither does."""
    where = ["pod"] if pod else []
    if names:
        where.append(named("container", names))
    return " and ".join(where)
