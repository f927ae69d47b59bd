"""The heaps of the pods that an autoscaler scales, as lower bounds of their sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.runtimes.heaps import HEAP, Heap, heap_of

PodId = tuple[str, str]


class Heaps:
    """Heaps by pod. Pods whose containers configure no heap are omitted."""

    def __init__(self) -> None:
        self._by_pod: dict[PodId, dict[str, Heap]] = {}

    def note(self, pod: PodId, containers: Iterable[Mapping[str, Any]]) -> None:
        found = {container.get("name") or "": container[HEAP] for container in containers if HEAP in container}
        if found:
            self._by_pod[pod] = found
        else:
            self._by_pod.pop(pod, None)

    def forget(self, pod: PodId) -> None:
        self._by_pod.pop(pod, None)

    def of(self, pods: Iterable[PodId]) -> dict[str, Heap]:
        """The heaps by container; if pods differ (during a rollout), the largest one."""
        if not self._by_pod:
            return {}
        found: dict[str, Heap] = {}
        for pod in pods:
            for name, heap in self._by_pod.get(pod, {}).items():
                if name not in found or _order(heap) > _order(found[name]):
                    found[name] = heap
        return found


def heaps_of(pods: Iterable[Mapping[str, Any]]) -> dict[str, Heap]:
    """The heaps by container, from whole pods."""
    known = Heaps()
    for at, pod in enumerate(pods):
        listed = [
            {**container, HEAP: heap}
            for container in pod["spec"]["containers"]
            if (heap := heap_of(container)) is not None
        ]
        known.note(("", str(at)), listed)
    return known.of(list(known._by_pod))


def _order(heap: Heap) -> tuple[int, float, str]:
    return heap.floor, heap.percent or 0.0, heap.setting


def floored(size: Estimate, floor: int) -> Estimate:
    """Raises memory sizes to the floor; an estimate without a size below it is unchanged."""
    if "memory" not in size.target or size.lower["memory"] >= floor:
        return size
    target, lower, upper = (
        {**amounts, "memory": max(amounts["memory"], floor)} for amounts in (size.target, size.lower, size.upper)
    )
    return replace(size, target=target, lower=lower, upper=upper)


def with_floors(sizes: Mapping[str, Estimate], heaps: Mapping[str, Heap]) -> dict[str, Estimate]:
    return {name: floored(size, heaps[name].floor) if name in heaps else size for name, size in sizes.items()}
