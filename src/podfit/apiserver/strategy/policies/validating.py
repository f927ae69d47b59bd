"""Strategies of ValidatingAdmissionPolicies and their bindings."""

from __future__ import annotations

from typing import Any

from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_many
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal, expression_error, label_selector, names_valid
from podfit.apiserver.strategy.kinds.extending.webhooks import rule_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.meta import reset_for_status

_POLICIES, _MATCHES = ("Fail", "Ignore"), ("Equivalent", "Exact")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ONE_AT_LEAST = "validations or auditAnnotations must contain at least one item"
_MOST_CONDITIONS, _MOST_ANNOTATIONS, _LONGEST_EXPRESSION = 64, 20, 5 * 1024


def default_resources(resources: Object | None) -> None:
    if resources is None:
        return
    set_default(resources, "matchPolicy", "Equivalent")
    set_default(resources, "namespaceSelector", {})
    set_default(resources, "objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            set_default(rule, "scope", "*")


class ValidatingAdmissionPolicyStrategy(Strategy):
    update_checks = "w"
    strict_finalizers = False
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "failurePolicy", "Fail")
        default_resources(spec.get("matchConstraints"))

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            reset_for_status(new, old)
        super().prepare_update(new, old, subresource)

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource != "status" and equal(new.get("spec"), old.get("spec")):
            # Values accepted by an older version remain valid until they are changed.
            return self.validate_update_meta(new, old, subresource)
        return super().validate_update(new, old, subresource)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        policy = spec.get("failurePolicy")
        if policy not in _POLICIES:
            errors.append(not_supported("spec.failurePolicy", policy, _POLICIES))
        if spec.get("paramKind") is not None:
            param_kind(spec["paramKind"], errors)
        match_constraints(spec.get("matchConstraints"), errors)
        _expressions(spec, (obj.get("metadata") or {}).get("name", ""), errors)
        return errors


def param_kind(kind: Object, errors: Errors) -> None:
    version, word, path = kind.get("apiVersion", ""), kind.get("kind", ""), "spec.paramKind"
    if not version:
        errors.append(required(f"{path}.apiVersion"))
    elif version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    else:
        group, _, number = version.rpartition("/")
        if group and (found := names.dns_subdomain(group)):
            errors.append(invalid(f"{path}.apiVersion", group, ",".join(found)))
        if not number:
            errors.append(invalid(f"{path}.apiVersion", version, "version must be specified"))
        elif found := names.dns_1035(number):
            errors.append(invalid(f"{path}.apiVersion", number, ",".join(found)))
    if not word:
        errors.append(required(f"{path}.kind"))
    elif found := names.dns_1035(word.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(found)
        errors.append(invalid(f"{path}.kind", word, detail))


def match_constraints(constraints: Object | None, errors: Errors) -> None:
    if constraints is None:
        errors.append(required("spec.matchConstraints"))
        return
    match_resources(constraints, "spec.matchConstraints", errors)
    if not constraints.get("resourceRules"):
        errors.append(required("spec.matchConstraints.resourceRules"))


def match_resources(resources: Object, path: str, errors: Errors) -> None:
    policy = resources.get("matchPolicy")
    if policy not in _MATCHES:
        errors.append(not_supported(f"{path}.matchPolicy", policy, _MATCHES))
    for field in ("namespaceSelector", "objectSelector"):
        label_selector(resources.get(field), f"{path}.{field}", errors)
    for field in ("resourceRules", "excludeResourceRules"):
        for at, rule in enumerate(resources.get(field) or ()):
            here, given = f"{path}.{field}[{at}]", rule.get("resourceNames") or []
            for number, name in enumerate(given):
                names_valid(name, f"{here}.resourceNames[{number}]", names.path_segment(name), errors)
                if name in given[:number]:
                    errors.append(duplicate(f"{here}.resourceNames[{number}]", name))
            rule_valid(rule, here, errors)


def compiler_of(spec: Object, errors: Errors) -> Any:
    """A compiler with the variables of a policy. Compiles conditions and variables as well."""
    # Few servers have policies, so the compiler is imported on first use.
    from podfit.apiserver.admission.policies.expressions import TRUTH, Compiler, is_identifier

    compiler = Compiler(spec)
    conditions, path = spec.get("matchConditions") or [], "spec.matchConditions"
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    for at, row in enumerate(conditions):
        _expression(compiler, row.get("expression", ""), f"{path}[{at}].expression", TRUTH, "", errors)
        _condition_name(row.get("name", ""), conditions[:at], f"{path}[{at}].name", errors)
    for at, row in enumerate(spec.get("variables") or ()):
        word, text, here = row.get("name", ""), row.get("expression", ""), f"spec.variables[{at}]"
        compiler.composed = True
        if not word.strip():
            errors.append(required(f"{here}.name", "name is not specified"))
        elif not is_identifier(word):
            errors.append(invalid(f"{here}.name", word, "must be a valid CEL identifier"))
        if not text.strip():
            errors.append(required(f"{here}.expression", "expression is not specified"))
            continue
        try:
            compiler.variable(word, text)
        except BadExpression as error:
            errors.append(expression_error(f"{here}.expression", text, str(error)))
    return compiler


def _expressions(spec: Object, name: str, errors: Errors) -> None:
    from podfit.apiserver.admission.policies.expressions import TEXT, TEXT_OR_NULL, TRUTH

    compiler = compiler_of(spec, errors)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        errors += [required(f"spec.{field}", _ONE_AT_LEAST) for field in ("validations", "auditAnnotations")]
    for at, row in enumerate(validations):
        here = f"spec.validations[{at}]"
        words = "expression is not specified"
        _expression(compiler, row.get("expression", ""), f"{here}.expression", TRUTH, words, errors)
        text = row.get("messageExpression") or ""
        if text.strip():
            _expression(compiler, text, f"{here}.messageExpression", TEXT, "", errors)
        elif text:
            errors.append(invalid(f"{here}.messageExpression", text, "must be non-empty if specified"))
        _message(row.get("message") or "", f"{here}.message", errors)
        if row.get("reason") is not None and row["reason"] not in _REASONS:
            errors.append(not_supported(f"{here}.reason", row["reason"], _REASONS))
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        errors.append(invalid("spec.auditAnnotations", annotations, detail))
    for at, row in enumerate(annotations):
        here, key = f"spec.auditAnnotations[{at}]", row.get("key", "")
        names_valid(f"{name}/{key}", f"{here}.key", names.qualified_name(f"{name}/{key}"), errors)
        words = "valueExpression is not specified"
        _expression(compiler, row.get("valueExpression", ""), f"{here}.valueExpression", TEXT_OR_NULL, words, errors)
        if key in [other.get("key", "") for other in annotations[:at]]:
            errors.append(duplicate(f"{here}.key", key))


def _condition_name(name: str, before: list[Object], path: str, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    names_valid(name, path, names.qualified_name(name), errors)
    if any(other.get("name") == name for other in before):
        errors.append(duplicate(path, name))


def _expression(compiler: Any, text: str, path: str, allowed: Any, missing: str, errors: Errors) -> None:
    if not text.strip():
        errors.append(required(path, missing))
    elif len(text.encode()) > _LONGEST_EXPRESSION and path.endswith("valueExpression"):
        errors.append(required(path, f"must not exceed {_LONGEST_EXPRESSION} bytes in length"))
    elif found := compiler.problem(text.strip() if path.endswith("valueExpression") else text, allowed):
        errors.append(expression_error(path, text, found))


def _message(text: str, path: str, errors: Errors) -> None:
    if text and not text.strip():
        errors.append(invalid(path, text, "must be non-empty if specified"))
    elif "\n" in text.strip() or "\r" in text.strip():
        errors.append(invalid(path, text, "must not contain line breaks"))
