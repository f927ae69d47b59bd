"""Rolls out a changed policy to the pods of an autoscaler in steps: decides which pod has to wait, and for which
others. Pure.

A pod has settled when it is ready, its resize is complete, and it has run with its new size for a while. A container
that terminates before that pauses the rollout: the policy may be the cause, so no other pod is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import ObjectView
from podfit.vpa.model.changing.rolling import ROLLING, at_once, policy_digest, sized_under
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.pods import condition
from podfit.vpa.model.objects.policy import CPU_STARVED
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339, to_rfc3339
from podfit.vpa.updater.decide.resizing import ResizeStatus, resize_status


class Rollout:
    """The rollout of one autoscaler's policy in one pass."""

    def __init__(
        self, vpa: ObjectView, pods: Sequence[ObjectView], now: Seconds, settle_s: float, awaited: int = 0
    ) -> None:
        """`awaited` is the number of evicted pods whose successors do not exist yet."""
        self._vpa, self._pods, self._now, self._settle_s = vpa, pods, now, settle_s
        self.most = at_once(vpa, len(pods) + awaited)
        self._digest = policy_digest(vpa) if self.most else ""
        self._under_way = awaited

    def wait(self, pod: ObjectView, raises: bool) -> Wait | None:
        """Why a pod has to wait for its change; None if it need not. `raises` is set if the change lowers nothing."""
        if not self.most or sized_under(pod)[0] == self._digest or self._in_need(pod, raises):
            return None
        new = [other for other in self._pods if sized_under(other)[0] == self._digest]
        for other in new:
            if ended := _ended(other):
                words = f"{ended}, under the changed policy: the other pods keep theirs until the policy is changed"
                return Wait("RolloutPaused", words)
        unsettled = [other["metadata"]["name"] for other in new if not self._settled(other)]
        if len(unsettled) + self._under_way < self.most:
            return None
        others = f" ({', '.join(sorted(unsettled))})" if unsettled else ""
        return Wait(
            "RollingOut",
            f"the policy has changed, and {self.most} of the pods at a time get it (annotation {ROLLING}): "
            f"it waits until {len(unsettled) + self._under_way} of them{others} have been ready for "
            f"{self._settle_s:g} s (--rolling-settle)",
        )

    def changed(self, pod: ObjectView) -> None:
        """Records that a pod was resized or evicted."""
        if self.most and sized_under(pod)[0] != self._digest:
            self._under_way += 1

    def _in_need(self, pod: ObjectView, raises: bool) -> bool:
        """Whether a pod is short of memory or CPU under its old policy; such a pod does not wait for others."""
        if any(_killed(status) for status in _statuses(pod)):
            return True
        return raises and (condition(self._vpa, CPU_STARVED) or {}).get("status") == "True"

    def _settled(self, pod: ObjectView) -> bool:
        ready = condition(pod, "Ready") or {}
        if ready.get("status") != "True" or resize_status(pod) is not ResizeStatus.NONE:
            return False
        since = max(sized_under(pod)[1], from_rfc3339(ready.get("lastTransitionTime")))
        return self._now - since >= self._settle_s


def _statuses(pod: ObjectView) -> Sequence[ObjectView]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _killed(status: ObjectView) -> bool:
    holders = status.get("state") or {}, status.get("lastState") or {}
    return any((holder.get("terminated") or {}).get("reason") == "OOMKilled" for holder in holders)


def _ended(pod: ObjectView) -> str:
    """The container that failed since the pod was sized; empty if there is none."""
    since = sized_under(pod)[1]
    for status in _statuses(pod):
        for holder in (status.get("state") or {}, status.get("lastState") or {}):
            end = holder.get("terminated") or {}
            at = from_rfc3339(end.get("finishedAt"))
            if end and end.get("exitCode") != 0 and (since == NEVER or at > since):
                why = end.get("reason") or "Error"
                return (
                    f"container {status.get('name')} of pod {pod['metadata']['name']} ended ({why}) at {to_rfc3339(at)}"
                )
    return ""
