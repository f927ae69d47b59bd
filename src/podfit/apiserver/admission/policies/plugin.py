"""The admission plugin ValidatingAdmissionPolicy: evaluates the policies whose bindings match a write.

Policies are evaluated in order of their names, and so are their bindings. The client gets the first denial.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import Attributes, Cluster, Plugin
from podfit.apiserver.admission.policies.bindings import Bindings, is_exempt, name_of
from podfit.apiserver.admission.policies.params import BadBinding, FindKind, params_of
from podfit.apiserver.admission.webhooks.plugins import Equivalents
from podfit.apiserver.admission.webhooks.review import HookView, request_of
from podfit.apiserver.auth.authorize import Authorization
from podfit.kit.concurrency.worker_threads import WorkerThreads

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
        self._cluster, self._find, self._authorization = cluster, find, authorization
        self._bindings = Bindings(cluster, POLICY, BINDING, equivalents)
        self._threads = WorkerThreads()

    def close(self) -> None:
        self._threads.close()

    def handles(self, attrs: Attributes) -> bool:
        return not is_exempt(attrs, POLICY.group)

    async def validate(self, attrs: Attributes) -> None:
        refusals: list[ApiError] = []
        for policy, binding, kind in self._bindings.concerning(attrs):
            refusals += await self._evaluate(policy, binding, attrs, kind)
        if refusals:
            raise refusals[0]

    async def _evaluate(self, policy: Object, binding: Object, attrs: Attributes, kind: Kind) -> list[ApiError]:
        # Few servers have policies, so the evaluator is imported on first use.
        from podfit.apiserver.admission.policies.evaluate import Denied, evaluate
        from podfit.apiserver.admission.webhooks.conditions import values_of
        from podfit.apiserver.writing.evaluation import evaluated

        try:
            params = params_of(policy, binding, attrs, self._cluster, self._find)
        except BadBinding as error:
            if policy["spec"].get("failurePolicy") == "Ignore":
                return []
            return [_refusal(policy, binding, attrs, Denied(f"failed to configure binding: {error}"))]
        refusals: list[ApiError] = []
        converted = self._bindings.converted
        shown = HookView(kind, await converted(attrs.object, attrs, kind), await converted(attrs.old, attrs, kind))
        values = values_of(request_of(attrs, shown), attrs, self._authorization)
        values["namespaceObject"] = self._bindings.namespace(attrs)
        for param in params:
            bound: dict[str, Any] = {**values, "params": param}
            outcome = await evaluated(self._threads, 0, lambda yielding, bound=bound: evaluate(policy, bound, yielding))  # type: ignore[misc]
            for key, value in outcome.annotations.items():
                attrs.annotations[f"{name_of(policy)}/{key}"] = value
            for denied in outcome.denied:
                refusals += _act(policy, binding, attrs, denied)
        return refusals


def _act(policy: Object, binding: Object, attrs: Attributes, denied: Any) -> list[ApiError]:
    """Applies the binding's validation actions to a denial."""
    refusals: list[ApiError] = []
    for action in binding["spec"].get("validationActions") or ():
        if action == "Deny":
            refusals.append(_refusal(policy, binding, attrs, denied))
        elif action == "Warn":
            whose = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
            attrs.warnings.append(f"Validation failed for {whose}: {denied.message}")
        elif action == "Audit":
            attrs.annotations[_FAILED] = denied.message
    return refusals


def _refusal(policy: Object, binding: Object, attrs: Attributes, denied: Any) -> ApiError:
    whose = f"ValidatingAdmissionPolicy '{name_of(policy)}' with binding '{name_of(binding)}'"
    message = f"{whose} denied request: {denied.message}"
    error = attrs.forbid(message)
    error.reason = denied.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
