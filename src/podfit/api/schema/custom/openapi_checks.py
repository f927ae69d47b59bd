"""Checks the schema of a CustomResourceDefinition beyond being structural: known types, lists and maps, rules.

`definition_problems` combines all checks in the order of a Kubernetes server: structural errors, then defaults, then
those found here; rules are compiled only if the schema has no other errors.
"""

from __future__ import annotations

import re
from typing import Any

from podfit.api.schema.celrules.rule_places import has_rules
from podfit.api.schema.custom.structure import structural_problems
from podfit.api.schema.custom.validation import default_problems
from podfit.api.status import FieldError, field_forbidden, invalid, not_supported, required

Schema = dict[str, Any]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES, _MAP_TYPES = ("atomic", "set", "map"), ("atomic", "granular")
_META = ("apiVersion", "kind", "metadata")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LIST, _KEYS, _MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"
_KEPT, _EMBEDDED, _RULES = (
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-validations",
)


def definition_problems(schema: Schema, path: str, stored: bool = False) -> list[FieldError]:
    """All errors of a definition's schema. If it is `stored` (accepted before), the cost of single rules is
    unlimited."""
    errors = []
    if schema.get("nullable"):
        errors.append(field_forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    errors += structural_problems(schema, path) or default_problems(schema, path)
    errors += openapi_problems(schema, path)
    if errors or not has_rules(schema):
        return errors
    from podfit.api.schema.celrules.rule_checks import rule_problems

    return rule_problems(schema, path, stored)


def openapi_problems(schema: Schema, path: str) -> list[FieldError]:
    return _place(schema, path, root=True)


def _place(
    schema: Schema, path: str, *, root: bool = False, meta: bool = False, no_default: str = ""
) -> list[FieldError]:
    """Checks one schema. `meta`: it is inside the fields that every object has; `no_default`: why no default is
    allowed here."""
    errors = _keywords(schema, path, meta, no_default)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(field_forbidden(f"{path}.uniqueItems", why))
    errors += _below(schema, path, root, meta, no_default)
    if schema.get(_KEPT) is False:
        errors.append(invalid(f"{path}.{_KEPT}", False, "must be true or undefined"))
    return errors + _maps(schema, path) + _lists(schema, path) + _rules(schema, path)


def _keywords(schema: Schema, path: str, meta: bool, no_default: str) -> list[FieldError]:
    errors = []
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, _TYPES))
    if schema.get("default") is not None and no_default:
        errors.append(field_forbidden(f"{path}.default", f"must not be set {no_default}"))
    for word in ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"):
        if schema.get(word) not in (None, "", {}):
            errors.append(field_forbidden(f"{path}.{word}", f"{word} is not supported"))
    if kind == "null":
        errors.append(field_forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(field_forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if meta and schema.get(_EMBEDDED):
        errors.append(field_forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta"))
    return errors


def _below(schema: Schema, path: str, root: bool, meta: bool, no_default: str) -> list[FieldError]:
    errors = []
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if properties and more is not None and more is not True:
        why = "additionalProperties and properties are mutual exclusive"
        errors.append(field_forbidden(f"{path}.additionalProperties", why))
    if isinstance(more, dict):
        reason = "inside additionalProperties applying to object metadata" if meta else no_default
        errors += _place(more, f"{path}.additionalProperties", meta=meta, no_default=reason)
    for name in sorted(properties):
        special = name in _META and (root or bool(schema.get(_EMBEDDED)))
        reason = f"in top-level {name}" if special and root else no_default
        errors += _place(properties[name], f"{path}.properties[{name}]", meta=meta or special, no_default=reason)
    if isinstance(schema.get("not"), dict):
        errors += _place(schema["not"], f"{path}.not", meta=meta, no_default=no_default)
    for word in ("allOf", "oneOf", "anyOf"):
        for at, branch in enumerate(schema.get(word) or ()):
            errors += _place(branch, f"{path}.{word}[{at}]", meta=meta, no_default=no_default)
    if isinstance(schema.get("items"), dict):
        errors += _place(schema["items"], f"{path}.items", meta=meta, no_default=no_default)
    return errors


def _expect_type(schema: Schema, path: str, wanted: str, word: str) -> list[FieldError]:
    why, kind = f"must be {wanted} if {word} is specified", schema.get("type")
    if kind == wanted:
        return []
    return [invalid(f"{path}.type", kind, why) if kind else required(f"{path}.type", why)]


def _maps(schema: Schema, path: str) -> list[FieldError]:
    kind = schema.get(_MAP)
    if kind is None:
        return []
    errors = _expect_type(schema, path, "object", _MAP)
    if kind not in _MAP_TYPES:
        errors.append(not_supported(f"{path}.{_MAP}", kind, _MAP_TYPES))
    return errors


def _lists(schema: Schema, path: str) -> list[FieldError]:
    kind, keys, items = schema.get(_LIST), schema.get(_KEYS) or [], schema.get("items")
    errors = []
    if kind is not None:
        errors += _expect_type(schema, path, "array", _LIST)
        if not errors and kind == "set" and isinstance(items, dict):
            errors += _atomic(items, f"{path}.items")
        if kind not in _LIST_TYPES:
            errors.append(not_supported(f"{path}.{_LIST}", kind, _LIST_TYPES))
    if keys and kind != "map":
        why = f"must be map if {_KEYS} is non-empty"
        errors.append(required(f"{path}.{_LIST}", why) if kind is None else invalid(f"{path}.{_LIST}", kind, why))
    if kind == "map":
        errors += _keyed(items, keys, path)
    if kind in ("set", "map") and isinstance(items, dict):
        errors += _never_null(items, keys if kind == "map" else [], kind, f"{path}.items")
    return errors


def _atomic(items: Schema, path: str) -> list[FieldError]:
    """Checks that the elements of a set are scalars or atomic, because they are compared as a whole."""
    own, why = items.get(_LIST), f"must be atomic as item of a list with {_LIST}=set"
    if items.get("type") == "array" and own not in (None, "atomic"):
        return [invalid(f"{path}.{_LIST}", own, why)]
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        # Kubernetes shows the list type here.
        return [invalid(f"{path}.{_MAP}", own, why)]
    return []


def _keyed(items: Any, keys: list[str], path: str) -> list[FieldError]:
    errors = []
    if not keys:
        errors.append(required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map"))
    if items is None:
        errors.append(required(f"{path}.items", f"must have a schema if {_LIST} is map"))
    if not isinstance(items, dict):
        return errors
    if items.get("type") != "object":
        why = f"must be object if parent array's {_LIST} is map"
        return [*errors, invalid(f"{path}.items.type", items.get("type") or "", why)]
    properties = items.get("properties") or {}
    for at, key in enumerate(keys):
        if key not in properties:
            errors.append(invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties"))
        elif properties[key].get("type") in ("array", "object"):
            why = f"must be a scalar type if parent array's {_LIST} is map"
            errors.append(invalid(f"{path}.items.properties[{key}].type", "object", why))
        if key in keys[:at]:
            errors.append(invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries"))
    return errors


def _never_null(items: Schema, keys: list[str], kind: str, path: str) -> list[FieldError]:
    errors = []
    if items.get("nullable"):
        errors.append(field_forbidden(f"{path}.nullable", f"cannot be nullable when {_LIST} is {kind}"))
    for key in keys:
        place, where = (items.get("properties") or {}).get(key), f"{path}.properties[{key}]"
        if place is None:
            continue
        why = f"this property is in {_KEYS}, so it"
        if key not in (items.get("required") or ()) and place.get("default") is None:
            errors.append(required(f"{where}.default", f"{why} must have a default or be a required property"))
        if place.get("nullable"):
            errors.append(field_forbidden(f"{where}.nullable", f"{why} cannot be nullable"))
    return errors


def _rules(schema: Schema, path: str) -> list[FieldError]:
    errors = []
    for at, rule in enumerate(schema.get(_RULES) or ()):
        where = f"{path}.{_RULES}[{at}]"
        text, message = rule.get("rule") or "", rule.get("message") or ""
        if not text.strip():
            errors.append(required(f"{where}.rule", "rule is not specified"))
        elif message and not message.strip():
            errors.append(invalid(f"{where}.message", message, "must be non-empty if specified"))
        elif _several_lines(message.strip()):
            errors.append(invalid(f"{where}.message", message, "must not contain line breaks"))
        elif _several_lines(text.strip()) and not message.strip():
            errors.append(required(f"{where}.message", "message must be specified if rule contains line breaks"))
        expression = rule.get("messageExpression") or ""
        if expression and not expression.strip():
            errors.append(required(f"{where}.messageExpression", "messageExpression must be non-empty if specified"))
        if rule.get("reason") is not None and rule["reason"] not in _REASONS:
            errors.append(not_supported(f"{where}.reason", rule["reason"], _REASONS))
        errors += _field_path(schema, rule.get("fieldPath") or "", f"{where}.fieldPath")
    return errors


def _field_path(schema: Schema, path: str, where: str) -> list[FieldError]:
    errors = []
    if path and not path.strip():
        errors.append(invalid(where, path, "must be non-empty if specified"))
    if _several_lines(path):
        errors.append(invalid(where, path, "must not contain line breaks"))
    if path and not _leads_to_a_field(schema, path):
        errors.append(invalid(where, path, "must be a valid path"))
    return errors


_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")


def _leads_to_a_field(schema: Schema, path: str) -> bool:
    """Whether a path of names (`.a`, `['a']`) leads through properties and maps; items of lists have no path."""
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            return False
        name, at = step[1] if step[1] is not None else re.sub(r"\\(.)", r"\1", step[2]), step.end()
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        below = properties.get(name) if properties is not None else more
        if not isinstance(below, dict):
            return False
        schema = below
    return True


def schema_at(schema: Schema, path: str) -> Schema | None:
    """The schema of the field that a simple path (`.a.b`) leads to."""
    for name in path[1:].split("."):
        below: Schema | None = (schema.get("properties") or {}).get(name)
        if below is None:
            return None
        schema = below
    return schema


def _several_lines(text: str) -> bool:
    return "\n" in text or "\r" in text
