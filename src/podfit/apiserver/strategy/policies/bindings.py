"""Validates bindings of admission policies, which select the resources and the parameters of a policy."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import label_selector, names_valid
from podfit.apiserver.strategy.policies.mutating import match_operations
from podfit.apiserver.strategy.policies.validating import default_resources, match_resources

_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND = ("Allow", "Deny")


class _BindingStrategy(Strategy):
    update_checks = "w"
    strict_finalizers = False
    unconditional_update = False
    has_status = False

    def default(self, obj: Object) -> None:
        default_resources((obj.get("spec") or {}).get("matchResources"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        name = spec.get("policyName", "")
        if name:
            names_valid(name, "spec.policyName", names.dns_subdomain(name), errors)
        else:
            errors.append(required("spec.policyName"))
        if spec.get("paramRef") is not None:
            _param_ref(spec["paramRef"], errors)
        if spec.get("matchResources") is not None:
            match_resources(spec["matchResources"], "spec.matchResources", errors)
        return errors


class MutatingAdmissionPolicyBindingStrategy(_BindingStrategy):
    def validate(self, obj: Object) -> Errors:
        errors = super().validate(obj)
        resources = (obj.get("spec") or {}).get("matchResources")
        if resources is not None:
            match_operations(resources, "spec.matchResources", errors)
        return errors


class ValidatingAdmissionPolicyBindingStrategy(_BindingStrategy):
    def validate(self, obj: Object) -> Errors:
        errors = super().validate(obj)
        actions = (obj.get("spec") or {}).get("validationActions") or []
        for at, action in enumerate(actions):
            if action not in _ACTIONS:
                errors.append(not_supported(f"spec.validationActions[{at}]", action, _ACTIONS))
            if action in actions[:at]:
                errors.append(duplicate(f"spec.validationActions[{at}]", action))
        if "Deny" in actions and "Warn" in actions:
            detail = (
                "must not contain both Deny and Warn (repeating the same validation failure information in the API "
                "response and headers serves no purpose)"
            )
            errors.append(invalid("spec.validationActions", actions, detail))
        if not actions:
            errors.append(required("spec.validationActions", "at least one validation action is required"))
        return errors


def _param_ref(reference: Object, errors: Errors) -> None:
    path, name, selector = "spec.paramRef", reference.get("name", ""), reference.get("selector")
    if name:
        names_valid(name, f"{path}.name", names.path_segment(name), errors)
        if selector is not None:
            errors.append(forbidden(f"{path}.name", "name and selector are mutually exclusive"))
    if selector is not None:
        label_selector(selector, f"{path}.selector", errors)
        if name:
            errors.append(forbidden(f"{path}.selector", "name and selector are mutually exclusive"))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif action not in _NOT_FOUND:
        errors.append(not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow")))
