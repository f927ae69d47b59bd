"""The admission plugin ValidatingAdmissionPolicy: evaluates the policies whose bindings match a write.

Policies are evaluated by name, their bindings too. The client gets the first refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podfit.api.kinds import NAMESPACE, Kind, kind_named
from podfit.api.status import ApiError, Object
from podfit.apiserver.admission.base import Attributes, Cluster, Plugin, meta_of
from podfit.apiserver.admission.policies.params import BadBinding, FindKind, params_of
from podfit.apiserver.admission.webhooks.match import rules_match, selectors_match
from podfit.apiserver.admission.webhooks.plugins import Equivalents
from podfit.apiserver.admission.webhooks.review import Shown, request_of
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.usable import usable
from podfit.kit.aside import Aside

POLICY, BINDING = kind_named("ValidatingAdmissionPolicy"), kind_named("ValidatingAdmissionPolicyBinding")
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, "Invalid": 422}
_FAILED = "validation.policy.admission.k8s.io/validation_failure"


class ValidatingAdmissionPolicies(Plugin):
    name = "ValidatingAdmissionPolicy"

    def __init__(
        self,
        cluster: Cluster,
        find: FindKind,
        equivalents: Equivalents | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._cluster, self._find = cluster, find
        self._equivalents, self._authorization = equivalents, authorization
        self._aside = Aside()
        self._stored: tuple[Sequence[Object], Sequence[Object]] = ((), ())
        self._bound: list[tuple[Object, list[Object]]] = []
        """Policies that have bindings, both by name."""

    def close(self) -> None:
        self._aside.close()

    def handles(self, attrs: Attributes) -> bool:
        # Policies may not stand in the way of repairing policies.
        return attrs.kind.group != POLICY.group or attrs.kind.plural.endswith("webhookconfigurations")

    async def validate(self, attrs: Attributes) -> None:
        policies = self._cluster.list(POLICY)
        if not policies:
            return
        refusals: list[ApiError] = []
        for policy, bindings in self._with_bindings(policies):
            kind = self._kind(policy["spec"].get("matchConstraints") or {}, attrs)
            if kind is None:
                continue
            for binding in bindings:
                if self._kind(binding["spec"].get("matchResources"), attrs) is not None:
                    refusals += await self._evaluate(policy, binding, attrs, kind)
        if refusals:
            raise refusals[0]

    def _with_bindings(self, policies: Sequence[Object]) -> list[tuple[Object, list[Object]]]:
        bindings = self._cluster.list(BINDING)
        if self._stored[0] is not policies or self._stored[1] is not bindings:
            self._stored = (policies, bindings)
            ordered = sorted((row for row in usable(BINDING, bindings) if row.get("spec")), key=_name)
            pairs = [
                (policy, [row for row in ordered if row["spec"].get("policyName") == _name(policy)])
                for policy in sorted((row for row in usable(POLICY, policies) if row.get("spec")), key=_name)
            ]
            self._bound = [(policy, rows) for policy, rows in pairs if rows]
        return self._bound

    def _kind(self, resources: Object | None, attrs: Attributes) -> Kind | None:
        """The kind that the rules know the object as; None where they do not match."""
        if resources is None:
            return attrs.kind
        alike = self._equivalents.alike if self._equivalents is not None else lambda kind: ()
        policy = {"matchPolicy": resources.get("matchPolicy")}
        excluded = _named(resources.get("excludeResourceRules"), attrs)
        if excluded and rules_match({**policy, "rules": excluded}, attrs, alike) is not None:
            return None
        rules = resources.get("resourceRules")
        # A binding without rules takes everything that its policy does.
        found = rules_match({**policy, "rules": _named(rules, attrs)}, attrs, alike) if rules else attrs.kind
        return found if found is not None and selectors_match(resources, attrs, self._cluster) else None

    async def _evaluate(self, policy: Object, binding: Object, attrs: Attributes, kind: Kind) -> list[ApiError]:
        # Few servers have policies, and few need all it takes to evaluate them.
        from podfit.apiserver.admission.policies.evaluate import Denied, evaluate
        from podfit.apiserver.admission.webhooks.conditions import values_of
        from podfit.apiserver.evaluation import evaluated

        try:
            params = params_of(policy, binding, attrs, self._cluster, self._find)
        except BadBinding as error:
            if policy["spec"].get("failurePolicy") == "Ignore":
                return []
            return [_refusal(policy, binding, attrs, Denied(f"failed to configure binding: {error}"))]
        refusals: list[ApiError] = []
        shown = Shown(
            kind, await self._converted(attrs.object, attrs, kind), await self._converted(attrs.old, attrs, kind)
        )
        values = values_of(request_of(attrs, shown), attrs, self._authorization)
        values["namespaceObject"] = self._namespace(attrs)
        for param in params:
            bound: dict[str, Any] = {**values, "params": param}
            outcome = await evaluated(self._aside, 0, lambda pace, bound=bound: evaluate(policy, bound, pace))  # type: ignore[misc]
            for key, value in outcome.annotations.items():
                attrs.annotations[f"{_name(policy)}/{key}"] = value
            for denied in outcome.denied:
                refusals += _act(policy, binding, attrs, denied)
        return refusals

    async def _converted(self, obj: Object | None, attrs: Attributes, kind: Kind) -> Object | None:
        if obj is None or kind is attrs.kind or self._equivalents is None or obj.get("kind") != attrs.kind.kind:
            return obj
        return await self._equivalents.convert(obj, attrs.kind, kind)

    def _namespace(self, attrs: Attributes) -> Object | None:
        if not attrs.namespace or attrs.resource == ("", "namespaces"):
            return None
        return self._cluster.get(NAMESPACE, "", attrs.namespace)


def _name(obj: Object) -> str:
    return str(meta_of(obj).get("name"))


def _named(rules: list[Object] | None, attrs: Attributes) -> list[Object]:
    return [row for row in rules or () if not row.get("resourceNames") or attrs.name in row["resourceNames"]]


def _act(policy: Object, binding: Object, attrs: Attributes, denied: Any) -> list[ApiError]:
    """What the binding has done with a refusal."""
    refusals: list[ApiError] = []
    for action in binding["spec"].get("validationActions") or ():
        if action == "Deny":
            refusals.append(_refusal(policy, binding, attrs, denied))
        elif action == "Warn":
            whose = f"ValidatingAdmissionPolicy '{_name(policy)}' with binding '{_name(binding)}'"
            attrs.warnings.append(f"Validation failed for {whose}: {denied.message}")
        elif action == "Audit":
            attrs.annotations[_FAILED] = denied.message
    return refusals


def _refusal(policy: Object, binding: Object, attrs: Attributes, denied: Any) -> ApiError:
    whose = f"ValidatingAdmissionPolicy '{_name(policy)}' with binding '{_name(binding)}'"
    message = f"{whose} denied request: {denied.message}"
    error = attrs.forbid(message)
    error.reason = denied.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
