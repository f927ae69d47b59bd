"""Writes the rules of aggregated ClusterRoles: those of all ClusterRoles that their selectors select.

podfit's API server computes them itself; a kube-apiserver leaves it to its controllers.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.selectors import LabelSelector
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Result

ROLE = kind_named("ClusterRole")


class RoleAggregationController:
    name = "clusterrole-aggregation-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._roles = context.client, context.cache(ROLE)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._roles.subscribe(self._changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        """Any role may be part of any aggregated one."""
        for role in self._roles:
            if role.get("aggregationRule") is not None:
                self._engine.add(role["metadata"]["name"])

    async def _reconcile(self, name: str) -> Result:
        role = self._roles.get("", name)
        if role is None or role.get("aggregationRule") is None:
            return DONE
        rules = aggregated(role, self._roles)
        if rules != (role.get("rules") or []):
            body = {"apiVersion": ROLE.api_version, "kind": ROLE.kind, "metadata": {"name": name}, "rules": rules}
            await self._client.apply(ROLE, body, force=True, manager=self.name)
        return DONE


def aggregated(role: Object, roles: Iterable[Object]) -> list[Object]:
    """The rules of an aggregated role: each rule of the selected roles once, in the order of the roles' names."""
    by_name = sorted(roles, key=lambda other: str(other["metadata"]["name"]))
    rules: list[Object] = []
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        selects = LabelSelector.from_object(selector).matches
        for other in by_name:
            if other["metadata"]["name"] != role["metadata"]["name"] and selects(other["metadata"].get("labels")):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules
