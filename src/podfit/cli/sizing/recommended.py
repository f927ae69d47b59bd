"""An autoscaler's recommendation beside the current requests of its pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.cli.printing.amounts import RESOURCES, amount_text, number, quantity
from podfit.cli.targets import NoSuchTarget, alive, find_kind, pods_of
from podfit.client import Client
from podfit.vpa.model.objects.matching import own_selector
from podfit.vpa.model.objects.policy import update_mode
from podfit.vpa.observe.caches import WELL_KNOWN
from podfit.vpa.recommender.decide.histograms.amounts import MAX_AMOUNT

TOLERANCE = 0.1
"""A request within a tenth of the target counts as reached."""


@dataclass(frozen=True)
class Recommendation:
    vpa: str
    mode: str
    container: str
    resource: str
    now: tuple[int, ...]
    """Requests of the pods, in no order."""
    lower: int | None
    target: int | None
    upper: int | None

    @property
    def off(self) -> int:
        if self.target is None:
            return 0
        return sum(abs(request - self.target) > TOLERANCE * max(request, 1) for request in self.now)

    def cells(self) -> list[str]:
        shown = [amount_text(self.resource, amount) for amount in (self.lower, self.target)]
        shown.append("none yet" if self.unbounded else amount_text(self.resource, self.upper))
        return [self.vpa, self.mode, self.container, self.resource, self._now(), *shown, f"{self.off}/{len(self.now)}"]

    def _now(self) -> str:
        if not self.now:
            return "-"
        low, high = (amount_text(self.resource, request) for request in (min(self.now), max(self.now)))
        return low if low == high else f"{low}..{high}"

    @property
    def unbounded(self) -> bool:
        """Whether the upper bound means "no bound": without confidence it is the autoscaler's maximum amount."""
        return self.upper is not None and self.upper >= MAX_AMOUNT

    def data(self) -> dict[str, Any]:
        """The recommendation for JSON output: amounts are quantities, and upperBound is omitted if there is none
        yet."""
        bounds = {"lowerBound": self.lower, "target": self.target, "upperBound": None if self.unbounded else self.upper}
        return {
            "resource": self.resource,
            "requests": [quantity(self.resource, request) for request in self.now],
            **{name: quantity(self.resource, amount) for name, amount in bounds.items() if amount is not None},
            "podsOffTarget": self.off,
        }


async def target_pods(client: Client, vpa: Object) -> list[Object]:
    """The running pods of the autoscaler's target; none if it does not exist."""
    ref = vpa["spec"].get("targetRef") or {}
    selected = own_selector(vpa)
    group = (ref.get("apiVersion") or "").rpartition("/")[0]
    try:
        if selected is not None:
            text = str(LabelSelector.from_object(selected))
            listed = await client.list(POD, vpa["metadata"]["namespace"], labelSelector=text)
            return [pod for pod in listed["items"] if alive(pod)]
        # For these kinds the autoscaler ignores the group, which may be wrong in a targetRef.
        kind = WELL_KNOWN.get(ref.get("kind", "")) or await find_kind(
            client, f"{ref.get('kind', '')}.{group}" if group else ref.get("kind", "")
        )
        obj = await client.get(kind, vpa["metadata"]["namespace"], ref.get("name", ""))
        pods = await pods_of(client, kind, obj)
    except (ApiError, NoSuchTarget):
        return []
    return [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]


async def recommendations(client: Client, vpa: Object) -> list[Recommendation]:
    """A row for each container and resource; a VPA without a recommendation yet has one empty row."""
    mine = await target_pods(client, vpa)
    name, mode = vpa["metadata"]["name"], update_mode(vpa)
    given = (((vpa.get("status") or {}).get("recommendation")) or {}).get("containerRecommendations") or []
    if not given:
        return [Recommendation(name, mode, "-", "-", (), None, None, None)]
    found = []
    for row in given:
        for resource in RESOURCES:
            if resource in (row.get("target") or {}):
                numbers = [_bound(row, bound, resource) for bound in ("lowerBound", "target", "upperBound")]
                now = tuple(_requests(mine, row["containerName"], resource))
                found.append(Recommendation(name, mode, row["containerName"], resource, now, *numbers))
    return found


def _bound(entry: Object, bound: str, resource: str) -> int | None:
    amount = (entry.get(bound) or {}).get(resource)
    return None if amount is None else number(resource, amount)


def _requests(pods: list[Object], container: str, resource: str) -> list[int]:
    return [
        number(resource, ((member.get("resources") or {}).get("requests") or {}).get(resource))
        for pod in pods
        for member in pod["spec"]["containers"]
        if member["name"] == container
    ]
