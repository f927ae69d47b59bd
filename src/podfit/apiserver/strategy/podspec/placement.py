"""Validates scheduling constraints: node selectors, affinity, spreading, tolerations."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, label_name, label_selector, names_valid

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"


def affinity(wanted: Object, path: str, errors: Errors) -> None:
    node = wanted.get("nodeAffinity")
    if node:
        if node.get(_REQUIRED) is not None:
            node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}", errors)
        for at, term in enumerate(node.get(_PREFERRED) or ()):
            here = f"{path}.nodeAffinity.{_PREFERRED}[{at}]"
            if not 1 <= term.get("weight", 0) <= 100:
                errors.append(invalid(f"{here}.weight", term.get("weight", 0), _WEIGHT))
            _node_term(term.get("preference") or {}, f"{here}.preference", errors, check_values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = wanted.get(kind)
        if not pods:
            continue
        for at, term in enumerate(pods.get(_REQUIRED) or ()):
            _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{at}]", errors)
        for at, term in enumerate(pods.get(_PREFERRED) or ()):
            here = f"{path}.{kind}.{_PREFERRED}[{at}]"
            if not 1 <= term.get("weight", 0) <= 100:
                errors.append(invalid(f"{here}.weight", term.get("weight", 0), _WEIGHT))
            _pod_term(term.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm", errors)


def node_selector(selector: Object, path: str, errors: Errors) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for at, term in enumerate(terms):
        _node_term(term, f"{path}.nodeSelectorTerms[{at}]", errors, check_values=True)


def _node_term(term: Object, path: str, errors: Errors, *, check_values: bool) -> None:
    for at, requirement in enumerate(term.get("matchExpressions") or ()):
        _node_requirement(requirement, f"{path}.matchExpressions[{at}]", errors, check_values)
    for at, requirement in enumerate(term.get("matchFields") or ()):
        _field_requirement(requirement, f"{path}.matchFields[{at}]", errors)


def _node_requirement(requirement: Object, path: str, errors: Errors, check_values: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    label_name(requirement.get("key", ""), f"{path}.key", errors)
    if check_values:
        for at, value in enumerate(values):
            names_valid(value, f"{path}.values[{at}]", names.label_value(value), errors)


def _field_requirement(requirement: Object, path: str, errors: Errors) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for at, value in enumerate(values):
        names_valid(value, f"{path}.values[{at}]", names.dns_subdomain(value), errors)


def _pod_term(term: Object, path: str, errors: Errors) -> None:
    label_selector(term.get("labelSelector"), f"{path}.labelSelector", errors)
    label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", errors)
    for name in term.get("namespaces") or ():
        names_valid(name, f"{path}.namespace", names.dns_label(name), errors)
    _label_keys(term, ("matchLabelKeys", "mismatchLabelKeys"), path, errors)
    _asked_twice(term, path, errors)
    both = set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())
    for at, key in enumerate(term.get("matchLabelKeys") or ()):
        if key in both:
            errors.append(
                invalid(f"{path}.matchLabelKeys[{at}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")
            )
    topology = term.get("topologyKey", "")
    if not topology:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    label_name(topology, f"{path}.topologyKey", errors)


def _label_keys(term: Object, fields: tuple[str, ...], path: str, errors: Errors) -> None:
    for field in fields:
        keys = term.get(field)
        if not keys:
            continue
        if term.get("labelSelector") is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
            continue
        for at, key in enumerate(keys):
            label_name(key, f"{path}.{field}[{at}]", errors)


def _asked_twice(term: Object, path: str, errors: Errors) -> None:
    """Rejects matchLabelKeys that were also in the selector, into which they have been merged already."""
    selector, keys = term.get("labelSelector"), term.get("matchLabelKeys") or []
    if not keys or selector is None:
        return
    seen = set(selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in keys and key in seen:
            # Kubernetes indexes the term itself here, not its list of keys.
            at = len(keys) - 1 - keys[::-1].index(key)
            errors.append(invalid(f"{path}[{at}]", key, "exists in both matchLabelKeys and labelSelector"))
        seen.add(key)


def spread(constraints: list[Object], path: str, errors: Errors) -> None:
    pairs = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in constraints]
    last = {pair: at for at, pair in enumerate(pairs)}
    for at, constraint in enumerate(constraints):
        here, action = f"{path}[{at}]", constraint.get("whenUnsatisfiable", "")
        if constraint.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        topology = constraint.get("topologyKey", "")
        if not topology:
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            allowed = ("DoNotSchedule", "ScheduleAnyway")
            errors.append(not_supported(f"{here}.whenUnsatisfiable", action, allowed))
        if last[topology, action] > at:
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{topology}, {action}}}"))
        _min_domains(constraint.get("minDomains"), action, f"{here}.minDomains", errors)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in ("Honor", "Ignore"):
                errors.append(not_supported(f"{here}.{field}", policy, ("Honor", "Ignore")))
        _label_keys(constraint, ("matchLabelKeys",), here, errors)
        _asked_twice(constraint, here, errors)
        label_selector(constraint.get("labelSelector"), f"{here}.labelSelector", errors)


def _min_domains(least: int | None, action: str, path: str, errors: Errors) -> None:
    if least is None:
        return
    if least <= 0:
        errors.append(invalid(path, least, "must be greater than zero"))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, least, detail))


def tolerations(listed: list[Object], path: str, errors: Errors) -> None:
    for at, toleration in enumerate(listed):
        here = f"{path}[{at}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            label_name(key, f"{here}.key", errors)
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{here}.operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{here}.effect", effect, detail))
        if operator in ("Equal", ""):
            complaints = names.label_value(value)
            if complaints:
                errors.append(invalid(f"{here}.operator", value, ";".join(complaints)))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                errors.append(invalid(f"{here}.operator", value, detail))
        else:
            known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            errors.append(not_supported(f"{here}.operator", operator, known))
        if effect and effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{here}.effect", effect, TAINT_EFFECTS))


def merge_label_keys(pod: Object) -> None:
    """Converts matchLabelKeys to selector requirements with the pod's own labels, once, when the pod is created."""
    spec, labels = pod["spec"], (pod.get("metadata") or {}).get("labels") or {}
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, "matchLabelKeys", "In", labels)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = (spec.get("affinity") or {}).get(kind) or {}
        terms = [*(pods.get(_REQUIRED) or ())]
        terms += [each.get("podAffinityTerm") or {} for each in pods.get(_PREFERRED) or ()]
        for term in terms:
            _merge(term, "matchLabelKeys", "In", labels)
            _merge(term, "mismatchLabelKeys", "NotIn", labels)


def _merge(term: Object, field: str, operator: str, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for key in term.get(field) or ():
        if key in labels:
            added = {"key": key, "operator": operator, "values": [labels[key]]}
            selector.setdefault("matchExpressions", []).append(added)
