"""Validates a Job's spec, in a Job or in the template of a CronJob: counts, indexes, and the policies for failure and
success.
"""

from __future__ import annotations

import re
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import (
    INVALID,
    FieldError,
    duplicate,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid, non_negative
from podfit.apiserver.strategy.podspec.spec import validate_template

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)
_MOST_INDEXES = 100_000
_MOST_OF_MANY = 10_000
_LONGEST_MANAGER = 63
_LONGEST_INDEXES = 64 * 1024
_MOST_RULES = 20
_MOST_EXIT_CODES = 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_NEEDS_INDEXED = "requires indexed completion mode"
_managed_by = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def job_spec(spec: Object, path: str, errors: Errors) -> None:
    """Validates a Job's spec except the selector, which a CronJob's template does not have."""
    for field in _COUNTS:
        non_negative(spec, field, path, errors)
    if spec.get("maxFailedIndexes") is not None:
        non_negative(spec, "maxFailedIndexes", path, errors)
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("managedBy") is not None:
        _manager(spec["managedBy"], f"{path}.managedBy", errors)
    _completion(spec, path, errors)
    if spec.get("podFailurePolicy") is not None:
        _failure_policy(spec, f"{path}.podFailurePolicy", errors)
    if spec.get("successPolicy") is not None:
        _success_policy(spec, f"{path}.successPolicy", errors)
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        errors.append(not_supported(f"{path}.podReplacementPolicy", policy, allowed))
    _template(spec, f"{path}.template", errors)


def _template(spec: Object, path: str, errors: Errors) -> None:
    template = spec.get("template") or {}
    validate_template(template, path, errors)
    policy, where = (template.get("spec") or {}).get("restartPolicy", ""), f"{path}.spec.restartPolicy"
    if policy in ("Always", ""):
        errors.append(required(where, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(where, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def _manager(name: str, path: str, errors: Errors) -> None:
    """Validates `domain/path`, the format of names of field managers and other controllers."""
    domain, slash, rest = name.partition("/")
    if not name:
        errors.append(required(path))
        return
    if not slash or not domain or not rest:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        errors.append(invalid(path, name, detail))
        return
    names_valid(domain, path, names.dns_subdomain(domain), errors)
    if not _managed_by.fullmatch(rest):
        detail = names.regex_complaint("Invalid path", _managed_by.pattern)
        errors.append(invalid(path, rest, detail))
    if len(name) > _LONGEST_MANAGER:
        errors.append(too_long(path, _LONGEST_MANAGER))


def _completion(spec: Object, path: str, errors: Errors) -> None:
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        errors.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        _indexed(spec, path, errors)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                errors.append(invalid(f"{path}.{field}", spec[field], _NEEDS_INDEXED))


def _indexed(spec: Object, path: str, errors: Errors) -> None:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    parallelism = spec.get("parallelism") or 0
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MOST_INDEXES:
        detail = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        errors.append(invalid(f"{path}.parallelism", parallelism, detail))
    if completions is not None and failed is not None and failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    if failed is not None and failed > _MOST_INDEXES:
        detail = f"must be less than or equal to {_MOST_INDEXES}"
        errors.append(invalid(f"{path}.maxFailedIndexes", failed, detail))
    if (completions or 0) > _MOST_INDEXES and spec.get("backoffLimitPerIndex") is not None:
        if failed is None:
            detail = f"must be specified when completions is above {_MOST_INDEXES}"
            errors.append(required(f"{path}.maxFailedIndexes", detail))
        bound = (
            f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST_INDEXES} and used with "
            "backoff limit per index"
        )
        for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed or 0)):
            if value > _MOST_OF_MANY:
                errors.append(invalid(f"{path}.{field}", value, bound))


def _failure_policy(spec: Object, path: str, errors: Errors) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    known = {each.get("name") for key in ("containers", "initContainers") for each in pod.get(key) or ()}
    for at, rule in enumerate(rules):
        _failure_rule(rule, known, spec.get("backoffLimitPerIndex"), f"{path}.rules[{at}]", errors)


def _failure_rule(rule: Object, known: set[Any], per_index: int | None, path: str, errors: Errors) -> None:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if not action:
        errors.append(required(f"{path}.action", f"valid values: {_listed(_ACTIONS)}"))
    elif action == "FailIndex":
        if per_index is None:
            errors.append(invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _ACTIONS))
    if codes is not None:
        _exit_codes(codes, known, f"{path}.onExitCodes", errors)
    _pod_conditions(conditions, f"{path}.onPodConditions", errors)
    if codes is not None and conditions:
        errors.append(_whole(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(_whole(path, "specifying one of OnExitCodes and OnPodConditions is required"))


def _whole(path: str, detail: str) -> FieldError:
    """An error that shows no value."""
    return FieldError(INVALID, path, detail)


def _listed(words: tuple[str, ...]) -> str:
    return "[" + " ".join(map(go_quote, words)) + "]"


def _exit_codes(codes: Object, known: set[Any], path: str, errors: Errors) -> None:
    operator, values, container = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    if not operator:
        errors.append(required(f"{path}.operator", f"valid values: {_listed(('In', 'NotIn'))}"))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    if container is not None and container not in known:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", container, detail))
    if not values:
        errors.append(invalid(f"{path}.values", codes.get("values"), "at least one value is required"))
    elif len(values) > _MOST_EXIT_CODES:
        errors.append(too_many(f"{path}.values", len(values), _MOST_EXIT_CODES))
    for at, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{path}.values[{at}]", value, "must not be 0 for the In operator"))
        if value in values[:at]:
            errors.append(duplicate(f"{path}.values[{at}]", value))
    if values != sorted(values):
        errors.append(invalid(f"{path}.values", values, "must be ordered"))


def _pod_conditions(conditions: list[Object], path: str, errors: Errors) -> None:
    if len(conditions) > _MOST_RULES:
        errors.append(too_many(path, len(conditions), _MOST_RULES))
    words = ("False", "True", "Unknown")
    for at, pattern in enumerate(conditions):
        kind, status = pattern.get("type", ""), pattern.get("status", "")
        names_valid(kind, f"{path}[{at}].type", names.qualified_name(kind), errors)
        if not status:
            errors.append(required(f"{path}[{at}].status", f"valid values: {_listed(words)}"))
        elif status not in words:
            errors.append(not_supported(f"{path}[{at}].status", status, words))


def _success_policy(spec: Object, path: str, errors: Errors) -> None:
    policy = spec["successPolicy"]
    rules, completions = policy.get("rules") or [], spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        errors.append(invalid(path, success_as_go(policy), _NEEDS_INDEXED))
        return
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(f"{path}.rules", detail))
    if len(rules) > _MOST_RULES:
        errors.append(too_many(f"{path}.rules", len(rules), _MOST_RULES))
    for at, rule in enumerate(rules):
        _success_rule(rule, completions or 0, f"{path}.rules[{at}]", errors)


def success_as_go(policy: Object | None) -> Object | None:
    """A success policy with the names of the Go structs, as shown in messages."""
    if policy is None:
        return None
    rules = policy.get("rules")
    shown = [
        {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
        for rule in rules or ()
    ]
    return {"Rules": None if rules is None else shown}


def failure_as_go(policy: Object | None) -> Object | None:
    """A pod failure policy with the names of the Go structs."""
    if policy is None:
        return None
    rules = []
    for rule in policy.get("rules") or ():
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        rules.append(
            {
                "Action": rule.get("action", ""),
                "OnExitCodes": codes
                and {
                    "ContainerName": codes.get("containerName"),
                    "Operator": codes.get("operator", ""),
                    "Values": codes.get("values"),
                },
                "OnPodConditions": conditions
                and [{"Type": row.get("type", ""), "Status": row.get("status", "")} for row in conditions],
            }
        )
    return {"Rules": rules}


def _success_rule(rule: Object, completions: int, path: str, errors: Errors) -> None:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, detail))
    total = 0
    if indexes is not None:
        if len(indexes) > _LONGEST_INDEXES:
            errors.append(too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES))
        total, complaint = count_indexes(indexes, completions)
        if complaint:
            detail = f"error parsing succeededIndexes: {complaint}"
            errors.append(invalid(f"{path}.succeededIndexes", indexes, detail))
    if count is None:
        return
    non_negative(rule, "succeededCount", path, errors)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(f"{path}.succeededCount", count, detail))
    if indexes is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )
        errors.append(invalid(f"{path}.succeededCount", count, detail))


_LONGEST_INDEX = 18


def count_indexes(text: str, completions: int) -> tuple[int, str]:
    """The number of indexes in a list like "0,2-4", or the error in it."""
    total, last = 0, -1
    for interval in text.split(",") if text else ():
        ends = interval.split("-")
        if len(ends) > 2:
            return 0, (
                f"the fragment {go_quote(interval)} violates the requirement that an index interval can have at most "
                "two parts separated by '-'"
            )
        for end in ends:
            if not re.fullmatch(r"[+]?[0-9]+", end) or len(end.lstrip("+0")) > _LONGEST_INDEX:
                return 0, f"cannot convert string to integer for index: {go_quote(end)}"
            if int(end) >= completions:
                return 0, f"too large index: {go_quote(end)}"
        first, final = int(ends[0]), int(ends[-1])
        if len(ends) == 2 and first >= final:
            return 0, f"non-increasing order, previous: {first}, current: {final}"
        if last >= first:
            return 0, f"non-increasing order, previous: {last}, current: {first}"
        total, last = total + final - first + 1, final
    return total, ""
