"""Strategies of MutatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.status import invalid, not_supported, required
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal, expression_error
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.policies.validating import (
    compiler_of,
    default_resources,
    match_constraints,
    param_kind,
)

_POLICIES, _AGAIN = ("Fail", "Ignore"), ("IfNeeded", "Never")
_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_PATCHES = ("ApplyConfiguration", "JSONPatch")
_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


class MutatingAdmissionPolicyStrategy(Strategy):
    update_checks = "w"
    strict_finalizers = False
    unconditional_update = False
    has_status = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "failurePolicy", "Fail")
        default_resources(spec.get("matchConstraints"))

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if equal(new.get("spec"), old.get("spec")):
            # Values accepted by an older version remain valid until they are changed.
            return self.validate_update_meta(new, old, subresource)
        return super().validate_update(new, old, subresource)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        policy, again = spec.get("failurePolicy"), spec.get("reinvocationPolicy")
        if policy not in _POLICIES:
            errors.append(not_supported("spec.failurePolicy", policy, _POLICIES))
        if spec.get("paramKind") is not None:
            param_kind(spec["paramKind"], errors)
        match_constraints(spec.get("matchConstraints"), errors)
        match_operations(spec.get("matchConstraints") or {}, "spec.matchConstraints", errors)
        compiler = compiler_of(spec, errors)
        if not spec.get("mutations"):
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        for at, row in enumerate(spec.get("mutations") or ()):
            _mutation(compiler, row, f"spec.mutations[{at}]", errors)
        if not again:
            errors.append(required("spec.reinvocationPolicy"))
        elif again not in _AGAIN:
            errors.append(not_supported("spec.reinvocationPolicy", again, _AGAIN))
        return errors


def match_operations(resources: Object, path: str, errors: Errors) -> None:
    """Validates operations: only objects of CREATE and UPDATE can be mutated."""
    for rule in resources.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _OPERATIONS:
                errors.append(not_supported(f"{path}.resourceRules.operations", operation, _OPERATIONS))


def _mutation(compiler: Any, row: Object, path: str, errors: Errors) -> None:
    from podfit.api.cel.checking.messages import APPLIED, PATCHES

    kind = row.get("patchType")
    if not kind:
        errors.append(required(f"{path}.patchType"))
        return
    if kind not in _FIELDS:
        errors.append(not_supported(f"{path}.patchType", kind, _PATCHES))
        return
    name = _FIELDS[kind]
    other = next(field for field in _FIELDS.values() if field != name)
    if row.get(name) is None:
        errors.append(required(f"{path}.{name}", f"must be specified when patchType is {kind}"))
    else:
        text = (row[name].get("expression") or "").strip()
        if not text:
            errors.append(required(f"{path}.{name}.expression"))
        elif found := compiler.mutation_problem(text, PATCHES if kind == "JSONPatch" else APPLIED):
            errors.append(expression_error(f"{path}.{name}.expression", text, found))
    if row.get(other) is not None:
        errors.append(invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}"))
