"""Finds the policies that apply to a write: those with a binding, if the rules of both match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, Kind
from podfit.apiserver.admission.base import Attributes, Cluster, meta_of
from podfit.apiserver.admission.webhooks.match import rules_match, selectors_match
from podfit.apiserver.admission.webhooks.plugins import Equivalents
from podfit.apiserver.storage.usable import usable


class Bindings:
    """The policies of one kind that have bindings; policies and bindings are indexed by name."""

    def __init__(self, cluster: Cluster, policy: Kind, binding: Kind, equivalents: Equivalents | None) -> None:
        self._cluster, self._policy, self._binding = cluster, policy, binding
        self.equivalents = equivalents
        self._stored: tuple[Sequence[Object], Sequence[Object]] = ((), ())
        self._bound: list[tuple[Object, list[Object]]] = []

    def concerning(self, attrs: Attributes) -> Iterator[tuple[Object, Object, Kind]]:
        """The matching pairs of policy and binding, with the kind in which the policy matched the object."""
        policies = self._cluster.list(self._policy)
        if not policies:
            return
        for policy, bindings in self._with_bindings(policies):
            kind = self._kind(policy["spec"].get("matchConstraints") or {}, attrs)
            if kind is None:
                continue
            for binding in bindings:
                if self._kind(binding["spec"].get("matchResources"), attrs) is not None:
                    yield policy, binding, kind

    def _with_bindings(self, policies: Sequence[Object]) -> list[tuple[Object, list[Object]]]:
        bindings = self._cluster.list(self._binding)
        if self._stored[0] is not policies or self._stored[1] is not bindings:
            self._stored = (policies, bindings)
            ordered = sorted((row for row in usable(self._binding, bindings) if row.get("spec")), key=name_of)
            pairs = [
                (policy, [row for row in ordered if row["spec"].get("policyName") == name_of(policy)])
                for policy in sorted((row for row in usable(self._policy, policies) if row.get("spec")), key=name_of)
            ]
            self._bound = [(policy, rows) for policy, rows in pairs if rows]
        return self._bound

    def _kind(self, resources: Object | None, attrs: Attributes) -> Kind | None:
        """The kind in which the rules match the object; None if they do not match."""
        if resources is None:
            return attrs.kind
        alike = self.equivalents.equivalents if self.equivalents is not None else lambda kind: ()
        policy = {"matchPolicy": resources.get("matchPolicy")}
        excluded = _named(resources.get("excludeResourceRules"), attrs)
        if excluded and rules_match({**policy, "rules": excluded}, attrs, alike) is not None:
            return None
        rules = resources.get("resourceRules")
        # A binding without rules matches everything that its policy matches.
        found = rules_match({**policy, "rules": _named(rules, attrs)}, attrs, alike) if rules else attrs.kind
        return found if found is not None and selectors_match(resources, attrs, self._cluster) else None

    async def converted(self, obj: Object | None, attrs: Attributes, kind: Kind) -> Object | None:
        """An object of the write, converted to the kind of the policy."""
        if obj is None or kind is attrs.kind or self.equivalents is None or obj.get("kind") != attrs.kind.kind:
            return obj
        return await self.equivalents.convert(obj, attrs.kind, kind)

    async def converted_back(self, obj: Object, attrs: Attributes, kind: Kind) -> Object:
        if kind is attrs.kind or self.equivalents is None or obj.get("kind") != kind.kind:
            return obj
        return await self.equivalents.convert(obj, kind, attrs.kind)

    def namespace(self, attrs: Attributes) -> Object | None:
        if not attrs.namespace or attrs.resource == ("", "namespaces"):
            return None
        return self._cluster.get(NAMESPACE, "", attrs.namespace)


def is_exempt(attrs: Attributes, group: str) -> bool:
    """Whether policies ignore the kind: they must not be able to block the repair of policies."""
    return attrs.kind.group == group and not attrs.kind.plural.endswith("webhookconfigurations")


def name_of(obj: Object) -> str:
    return str(meta_of(obj).get("name"))


def _named(rules: list[Object] | None, attrs: Attributes) -> list[Object]:
    return [row for row in rules or () if not row.get("resourceNames") or attrs.name in row["resourceNames"]]
