"""The strategy of FlowSchemas."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal, names_valid
from podfit.apiserver.strategy.flows.mandatory import mandatory_spec
from podfit.apiserver.strategy.meta import keep

GROUP = "flowcontrol.apiserver.k8s.io"
_DISTINGUISHERS = ("ByNamespace", "ByUser")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_PRECEDENCE, _HIGHEST = 1000, 10_000
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "
_KEPT = ("name", "namespace", "uid", "labels", "annotations", "finalizers", "ownerReferences", "generation")


class FlowStrategy(Strategy):
    """Common base for schemas and levels: conditions, and a status endpoint that changes only the status."""

    update_checks = "w"
    status_checks = ""

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            keep(new.setdefault("metadata", {}), old.get("metadata") or {}, *_KEPT)
        super().prepare_update(new, old, subresource)

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for at, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
            kind, path = condition.get("type", ""), f"status.conditions[{at}].type"
            if kind in seen:
                errors.append(duplicate(path, kind))
            seen.add(kind)
            if not kind:
                errors.append(required(path))
        return errors


class FlowSchemaStrategy(FlowStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = _PRECEDENCE

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
        _precedence(spec.get("matchingPrecedence", 0), name, errors)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in _DISTINGUISHERS:
            shown = as_go(method, type_named("FlowDistinguisherMethod", GROUP))
            errors.append(not_supported("spec.distinguisherMethod.type", shown, _DISTINGUISHERS))
        level, path = (
            (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
            "spec.priorityLevelConfiguration.name",
        )
        if level:
            names_valid(level, path, names.dns_subdomain(level), errors)
        else:
            errors.append(required(path, "must reference a priority level"))
        for at, rule in enumerate(spec.get("rules") or ()):
            _rule(rule, f"spec.rules[{at}]", errors)
        fixed = mandatory_spec("FlowSchema", name)
        if fixed is not None and not equal(spec, fixed):
            shown = as_go(spec, type_named("FlowSchemaSpec", GROUP))
            errors.append(invalid("spec", shown, f"spec of '{name}' must equal the fixed value"))
        return errors + self.validate_status(obj, {})


def _precedence(number: int, name: str, errors: Errors) -> None:
    path = "spec.matchingPrecedence"
    if number <= 0:
        errors.append(invalid(path, number, "must be a positive value"))
    if number > _HIGHEST:
        errors.append(invalid(path, number, f"must not be greater than {_HIGHEST}"))
    if number == 1 and name != "exempt":
        errors.append(invalid(path, number, "only the schema named 'exempt' may have matchingPrecedence 1"))


def _rule(rule: Object, path: str, errors: Errors) -> None:
    subjects, resources, others = (rule.get(field) or [] for field in ("subjects", "resourceRules", "nonResourceRules"))
    if not subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    for at, subject in enumerate(subjects):
        _subject(subject, f"{path}.subjects[{at}]", errors)
    if not resources and not others:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, detail))
    for at, row in enumerate(resources):
        _resources(row, f"{path}.resourceRules[{at}]", errors)
    for at, row in enumerate(others):
        _paths(row, f"{path}.nonResourceRules[{at}]", errors)


def _subject(subject: Object, path: str, errors: Errors) -> None:
    kind = subject.get("kind", "")
    field = _SUBJECTS.get(kind)
    if field is None:
        errors.append(not_supported(f"{path}.kind", kind, tuple(_SUBJECTS)))
        return
    named, where = subject.get(field), f"{path}.{field}"
    if named is None:
        errors.append(required(where, f"{field} is required when subject kind is '{kind}'"))
    else:
        name = named.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif kind == "ServiceAccount" and name != "*":
            names_valid(name, f"{where}.name", names.dns_subdomain(name), errors)
        if kind == "ServiceAccount":
            _namespace(named.get("namespace", ""), f"{where}.namespace", errors)
    for other in ("ServiceAccount", "User", "Group"):
        if other != kind and subject.get(_SUBJECTS[other]) is not None:
            detail = f"{_SUBJECTS[other]} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{path}.{_SUBJECTS[other]}", detail))


def _namespace(name: str, path: str, errors: Errors) -> None:
    if name:
        names_valid(name, path, names.dns_label(name), errors)
    else:
        errors.append(required(path, "must specify namespace for service account"))


def _verbs(verbs: list[str], path: str, errors: Errors) -> None:
    if not verbs:
        errors.append(required(path, "verbs must contain at least one value"))
    elif "*" in verbs:
        if len(verbs) > 1:
            errors.append(invalid(path, verbs, "if '*' is present, must not specify other verbs"))
    elif not set(verbs) <= set(_VERBS):
        errors.append(not_supported(path, verbs, _VERBS))


def _resources(rule: Object, path: str, errors: Errors) -> None:
    _verbs(rule.get("verbs") or [], f"{path}.verbs", errors)
    for field, one, several in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        given = rule.get(field) or []
        if not given:
            errors.append(required(f"{path}.{field}", f"resource rules must supply at least one {one}"))
        elif len(given) > 1 and "*" in given:
            errors.append(invalid(f"{path}.{field}", given, f"if '*' is present, must not specify other {several}"))
    namespaces = rule.get("namespaces") or []
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(f"{path}.namespaces", detail))
    elif "*" in namespaces:
        if len(namespaces) > 1:
            detail = "if '*' is present, must not specify other namespaces"
            errors.append(invalid(f"{path}.namespaces", namespaces, detail))
    else:
        for at, name in enumerate(namespaces):
            complaints = [_NAMESPACE + text for text in names.dns_label(name)]
            names_valid(name, f"{path}.namespaces[{at}]", complaints, errors)


def _paths(rule: Object, path: str, errors: Errors) -> None:
    _verbs(rule.get("verbs") or [], f"{path}.verbs", errors)
    urls, where = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not urls:
        errors.append(required(where, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        if len(urls) > 1:
            detail = "if '*' is present, must not specify other non-resource URLs"
            errors.append(invalid(where, urls, detail))
    else:
        for at, url in enumerate(urls):
            if detail := _bad_url(url):
                errors.append(invalid(f"{where}[{at}]", url, detail))


def _bad_url(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""
