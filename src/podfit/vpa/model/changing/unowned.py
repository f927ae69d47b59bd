"""Pods without a controller, under an autoscaler that changes pods only by eviction: after an eviction they would be
lost."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.matching import own_selector
from podfit.vpa.model.objects.pods import controller_of, phase_of
from podfit.vpa.model.objects.policy import EVICTING_MODES, IN_PLACE_MODES, update_mode

HELP = "update mode InPlaceOrRecreate resizes them in place"


def may_have_unowned(vpa: ObjectView) -> bool:
    """Whether the autoscaler may evict pods without a controller: only selectors match those, and only some modes
    evict."""
    mode = update_mode(vpa)
    return own_selector(vpa) is not None and mode in EVICTING_MODES and mode not in IN_PLACE_MODES


def unowned(pods: Iterable[ObjectView]) -> list[str]:
    """The names of live pods that have no controller."""
    alive = (pod for pod in pods if phase_of(pod) not in ("Succeeded", "Failed"))
    return sorted(pod["metadata"]["name"] for pod in alive if controller_of(pod) is None)


def warning(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"no controller recreates pods {shown}: they are never evicted, so nothing changes them; {HELP}"
