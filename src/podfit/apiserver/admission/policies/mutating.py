"""The admission plugin MutatingAdmissionPolicy: applies the policies whose bindings match a write.

Policies are applied in order of their names, and so are their bindings; each sees the result of the previous ones. A
policy with reinvocationPolicy IfNeeded is applied again if the object changed afterwards.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.schema import struct_of, type_of
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import Attributes, Cluster, Plugin, meta_of
from podfit.apiserver.admission.policies.bindings import Bindings, is_exempt, name_of
from podfit.apiserver.admission.policies.params import BadBinding, FindKind, params_of
from podfit.apiserver.admission.webhooks.plugins import Defaulter, Equivalents
from podfit.apiserver.admission.webhooks.review import HookView, request_of
from podfit.apiserver.auth.authorize import Authorization
from podfit.kit.concurrency.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from podfit.apiserver.admission.policies.mutate import Mutated

POLICY, BINDING = kind_named("MutatingAdmissionPolicy"), kind_named("MutatingAdmissionPolicyBinding")
Invocation = tuple[Object, Object, Kind, Object | None]
"""Policy, binding, the kind by which the policy matched the object, and the parameters."""
_Refusal = tuple[Object, Object, str, str]
"""Policy, binding, the error, and the reason for the client."""


class MutatingAdmissionPolicies(Plugin):
    name = "MutatingAdmissionPolicy"

    def __init__(
        self,
        cluster: Cluster,
        find: FindKind,
        defaulter: Defaulter = lambda attrs, obj: obj,
        equivalents: Equivalents | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._cluster, self._find, self._authorization = cluster, find, authorization
        self._defaulter = defaulter
        self._bindings = Bindings(cluster, POLICY, BINDING, equivalents)
        self._threads = WorkerThreads()

    def close(self) -> None:
        self._threads.close()

    def handles(self, attrs: Attributes) -> bool:
        return attrs.operation in ("CREATE", "UPDATE") and not is_exempt(attrs, POLICY.group)

    async def admit(self, attrs: Attributes) -> None:
        refusals: list[_Refusal] = []
        invocations: list[Invocation] = []
        for policy, binding, kind in self._bindings.concerning(attrs):
            try:
                params = params_of(policy, binding, attrs, self._cluster, self._find)
            except BadBinding as error:
                refusals.append((policy, binding, f"failed to configure binding: {error}", ""))
                continue
            invocations += [(policy, binding, kind, param) for param in params]
        if invocations and attrs.object is not None:
            refusals += await self._invoke(attrs, invocations)
        kept = [row for row in refusals if row[0]["spec"].get("failurePolicy") != "Ignore"]
        if kept:
            raise _refusal(attrs, kept)

    async def _invoke(self, attrs: Attributes, invocations: list[Invocation]) -> list[_Refusal]:
        memory: dict[str, Any] = attrs.state.setdefault(self.name, {"called": set(), "again": set(), "left": None})
        if attrs.reinvocation and attrs.object != memory["left"]:
            memory["again"], memory["called"] = memory["again"] | memory["called"], set()
        refusals: list[_Refusal] = []
        patched = False
        for invocation in invocations:
            policy, binding, _, param = invocation
            identity = name_of(policy), name_of(binding), meta_of(param).get("namespace"), meta_of(param).get("name")
            if attrs.reinvocation and identity not in memory["again"]:
                continue
            made = await self._mutate(attrs, invocation)
            refusals += [(policy, binding, why, "Invalid") for why in made.problems]
            patched = patched or made.patched
            if made.matched and policy["spec"].get("reinvocationPolicy") == "IfNeeded":
                memory["called"].add(identity)
        if patched:
            memory["again"], memory["called"] = memory["again"] | memory["called"], set()
            attrs.reinvoke = attrs.reinvoke or not attrs.reinvocation
        memory["left"] = deepcopy(attrs.object)
        return refusals

    async def _mutate(self, attrs: Attributes, invocation: Invocation) -> Mutated:
        # Few servers have policies, so the evaluator is imported on first use.
        from podfit.apiserver.admission.policies.mutate import mutate
        from podfit.apiserver.admission.webhooks.conditions import values_of
        from podfit.apiserver.writing.evaluation import evaluated

        policy, _, kind, param = invocation
        converted = self._bindings.converted
        shown = HookView(kind, await converted(attrs.object, attrs, kind), await converted(attrs.old, attrs, kind))
        obj, struct = shown.object, _struct(shown.object or {}, kind)
        if obj is None or struct is None:
            raise _unknown(kind)
        values = values_of(request_of(attrs, shown), attrs, self._authorization)
        values |= {"namespaceObject": self._bindings.namespace(attrs), "params": param}
        made = await evaluated(
            self._threads,
            0,
            lambda yielding: mutate(
                policy, values, obj, struct, lambda result: self._defaulted(attrs, kind, result), yielding
            ),
        )
        if made.error is not None:
            raise made.error
        if made.object is not obj and made.object != obj:
            attrs.object = _in_place(await self._bindings.converted_back(made.object, attrs, kind), attrs)
        return made

    def _defaulted(self, attrs: Attributes, kind: Kind, obj: Object) -> Object:
        # An object converted to another kind gets its defaults when it is converted back.
        return self._defaulter(attrs, obj) if kind is attrs.kind else obj


def _in_place(obj: Object, attrs: Attributes) -> Object:
    """Restores the namespace of the request, which a patch may have removed."""
    if attrs.kind.namespaced and not meta_of(obj).get("namespace"):
        return {**obj, "metadata": {**meta_of(obj), "namespace": attrs.namespace}}
    return obj


def _struct(obj: Object, kind: Kind) -> Struct | None:
    if obj.get("kind") == kind.kind:
        return type_of(kind)
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return struct_of(group, version, str(obj.get("kind")))


def _unknown(kind: Kind) -> ApiError:
    shown = f"{kind.group}/{kind.version}, Kind={kind.kind}"
    why = "There can be a delay between when CustomResourceDefinitions are created and when they are available."
    return ApiError(503, "ServiceUnavailable", f"Resource kind {shown} not found. {why}")


def _refusal(attrs: Attributes, refusals: list[_Refusal]) -> ApiError:
    messages = [
        f"policy '{name_of(policy)}' with binding '{name_of(binding)}' denied request: {why}"
        for policy, binding, why, _ in refusals
    ]
    error = attrs.forbid(messages[0])
    error.message = messages[0]
    error.reason = refusals[0][3] or error.reason
    error.details = {**(error.details or {}), "causes": [{"message": message} for message in messages]}
    return error
