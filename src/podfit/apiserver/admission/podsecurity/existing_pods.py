"""Computes the warnings about existing pods when a namespace enforces a stricter standard than before."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.apiserver.admission.base import meta_of
from podfit.apiserver.admission.podsecurity.policy import Standard
from podfit.apiserver.admission.podsecurity.table import violations
from podfit.kit.clock import Clock

MOST_PODS = 3000
LONGEST_S = 1.0
_AT_ONCE = 50
"""Pods checked before other requests get a turn."""


async def warnings(namespace: str, standard: Standard, pods: Sequence[Object], clock: Clock) -> list[str]:
    """One warning for each set of reasons, with the name of the first pod. The number of pods and the time are
    bounded."""
    end = clock.monotonic() + LONGEST_S
    names: dict[str, list[str]] = {}
    checked = 0
    for pod in one_of_each_owner_first(pods)[:MOST_PODS]:
        checked += 1
        found = violations(standard, pod)
        if found:
            reasons = ", ".join(violation.reason for violation in found)
            names.setdefault(reasons, []).append(meta_of(pod).get("name", ""))
        if clock.monotonic() > end:
            break
        if checked % _AT_ONCE == 0:
            await clock.sleep(0)
    texts = []
    if checked < len(pods):
        texts.append(
            f"new PodSecurity enforce level only checked against the first {checked} of {len(pods)} existing pods"
        )
    if names:
        texts.append(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{standard}"')
    return texts + sorted(f"{_with_others(found)}: {reasons}" for reasons, found in names.items())


def _with_others(names: Sequence[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'s' if others > 1 else ''})"


def one_of_each_owner_first(pods: Sequence[Object]) -> list[Object]:
    """Puts further pods of the same controller last: they usually have the same violations."""
    first, more, seen = [], [], set()
    for pod in pods:
        owner = next(
            (ref.get("uid") for ref in meta_of(pod).get("ownerReferences") or () if ref.get("controller")), None
        )
        if owner is not None and owner in seen:
            more.append(pod)
            continue
        first.append(pod)
        seen.add(owner)
    return first + more
