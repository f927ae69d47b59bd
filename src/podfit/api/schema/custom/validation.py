"""Validates custom resources against their schema, with apiextensions' messages.

The order of errors is that of a Kubernetes server: per value its type, the logical combinations, then strings, formats,
numbers, lists, enumerations and objects; fields by name, missing ones last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from podfit.api.cel.cost.budget import NEVER_YIELD, YieldPolicy
from podfit.api.schema.celrules.rule_places import has_rules
from podfit.api.schema.custom.measures import as_go, composite, error, number_errors, type_errors
from podfit.api.schema.custom.scalepaths import scale_errors
from podfit.api.status import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    FieldError,
    not_supported,
)
from podfit.api.status import go_value as _json_value
from podfit.api.text.formats import FORMATS
from podfit.api.text.goprint import go_value
from podfit.api.text.patterns import BadPattern, compile_pattern

if TYPE_CHECKING:
    from podfit.api.schema.celrules.rules import RuleTree

Schema = dict[str, Any]
_BLOCKING = (NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MISSING: Any = object()


class Validator:
    def __init__(self, schema: Schema, scale: dict[str, Any] | None = None) -> None:
        self._schema, self._scale = schema, scale
        self._has_rules = has_rules(schema)
        self._rules: RuleTree | None = None

    def validate(
        self,
        obj: Any,
        old: Any = None,
        yielding: YieldPolicy = NEVER_YIELD,
        inside: Sequence[FieldError] = (),
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """`inside`: errors in the metadata of objects inside the resource. Rules that an unchanged value violates are
        added to `warnings`."""
        errors = errors_of(obj, self._schema, "", _MISSING if old is None else old)
        return self._with_rules([*errors, *scale_errors(obj, self._scale, ""), *inside], obj, old, yielding, warnings)

    def validate_status(
        self, obj: Any, old: Any = None, yielding: YieldPolicy = NEVER_YIELD, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """Validates an update of the status. Messages name fields as if the status were an object of its own."""
        schema, before = (self._schema.get("properties") or {}).get("status"), (old or {}).get("status")
        errors: list[FieldError] = []
        if schema is not None and obj.get("status") is not None:
            found = errors_of(obj["status"], schema, "", _MISSING if before is None else before)
            errors = [_within(error, "status") for error in found]
        return self._with_rules(errors + scale_errors(obj, self._scale, "status"), obj, old, yielding, warnings)

    def _with_rules(
        self, errors: list[FieldError], obj: Any, old: Any, yielding: YieldPolicy, warnings: list[str] | None
    ) -> list[FieldError]:
        if old is None or not duplicates(old, self._schema, ""):
            errors += duplicates(obj, self._schema, "")
        if not self._has_rules:
            return errors
        if any(error.kind in _BLOCKING for error in errors):
            return [*errors, FieldError(INVALID, "<nil>", _UNCHECKED, "null")]
        return errors + self._tree(yielding).errors(obj, old, yielding, warnings)

    def _tree(self, yielding: YieldPolicy) -> RuleTree:
        if self._rules is None:
            from podfit.api.schema.celrules.rules import rule_tree

            self._rules = rule_tree(self._schema, yielding, root=True)
            assert self._rules is not None
        return self._rules


def errors_of(value: Any, schema: Schema, path: str, old: Any = _MISSING) -> list[FieldError]:
    """Errors of a value and all below it; a part equal to the old one has none."""
    if old is not _MISSING and old == value and old.__class__ is value.__class__:
        return []
    if value is None and schema.get("nullable"):
        return []
    value = as_go(value)
    errors = type_errors(value, schema, path)
    errors += _combinations(value, schema, path)
    if isinstance(value, str):
        errors += _string_errors(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        errors += number_errors(value, schema, path)
    elif isinstance(value, list):
        errors += _list_errors(value, schema, path, old)
    if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
        words = [word if isinstance(word, str) else json.dumps(word) for word in schema["enum"]]
        errors.append(not_supported(path or "<nil>", value, words))
    if isinstance(value, dict):
        errors += _object_errors(value, schema, path, old)
    return errors


def default_problems(schema: Schema, path: str) -> list[FieldError]:
    """Defaults of a definition that its own schema would reject or prune."""
    errors: list[FieldError] = []
    default = schema.get("default")
    if default is not None:
        if _has_unknown(default, schema):
            errors.append(FieldError(INVALID, f"{path}.default", "must not have unknown fields", _json_value(default)))
        errors += [_within(error, f"{path}.default") for error in errors_of(default, schema, "")]
    if isinstance(schema.get("items"), dict):
        errors += default_problems(schema["items"], f"{path}.items")
    for name in sorted(schema.get("properties") or {}):
        errors += default_problems(schema["properties"][name], f"{path}.properties[{name}]")
    return errors


def _within(error: FieldError, path: str) -> FieldError:
    """The error with a longer path. Its message still names the field as if the part were an object of its own."""
    if not error.path or error.path == "<nil>":
        return replace(error, path=path)
    return replace(error, path=f"{path}{error.path if error.path[0] == '[' else '.' + error.path}")


def _has_unknown(value: Any, schema: Schema) -> bool:
    """Whether a value contains fields that are pruned."""
    if isinstance(value, list):
        return any(_has_unknown(item, schema.get("items") or {}) for item in value)
    if not isinstance(value, dict):
        return False
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    kept = more is True or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = _META_FIELDS if schema.get("x-kubernetes-embedded-resource") else ()
    for name, item in value.items():
        below = properties.get(name, more)
        if isinstance(below, dict):
            if _has_unknown(item, below):
                return True
        elif not kept and name not in embedded:
            return True
    return False


_META_FIELDS = ("apiVersion", "kind", "metadata")


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _combinations(value: Any, schema: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if "anyOf" in schema:
        results = [errors_of(value, branch, path) for branch in schema["anyOf"]]
        if all(results):
            errors += [composite(f'"{path}" must validate at least one schema (anyOf)'), *_closest(value, results)]
    if "oneOf" in schema:
        results = [errors_of(value, branch, path) for branch in schema["oneOf"]]
        valid = sum(not found for found in results)
        if valid != 1:
            how = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            errors.append(composite(f'"{path}" must validate one and only one schema (oneOf). {how}'))
            if not valid:
                errors += _closest(value, results)
    if "allOf" in schema:
        results = [errors_of(value, branch, path) for branch in schema["allOf"]]
        if any(results):
            how = ". None validated" if all(results) else ""
            errors += [complaint for found in results for complaint in found]
            errors.append(composite(f'"{path}" must validate all the schemas (allOf){how}'))
    if "not" in schema and not errors_of(value, schema["not"], path):
        errors.append(composite(f'"{path}" must not validate the schema (not)'))
    return errors


def _closest(value: Any, results: list[list[FieldError]]) -> list[FieldError]:
    """The errors of the branch that matched best: for a scalar that is always the first."""
    return min(results, key=len) if isinstance(value, (dict, list)) else results[0]


def _fits(pattern: str, value: str) -> bool:
    try:
        return compile_pattern(pattern).search(value) is not None
    except BadPattern:
        # From a definition stored before such patterns were rejected.
        return True


def _string_errors(value: str, schema: Schema, path: str) -> list[FieldError]:
    """The first violation of length or pattern, and the format."""
    errors = []
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        errors.append(FieldError(TOO_LONG, path, f"may not be more than {schema['maxLength']} bytes"))
    elif "minLength" in schema and len(value) < schema["minLength"]:
        errors.append(error(INVALID, path, f"should be at least {schema['minLength']} chars long", go_value(value)))
    elif schema.get("pattern") and not _fits(schema["pattern"], value):
        errors.append(error(INVALID, path, f"should match '{schema['pattern']}'", go_value(value)))
    check = FORMATS.get(schema.get("format", ""))
    if check is not None and not check(value):
        what = f"must be of type {schema['format']}: {go_value(value)}"
        errors.append(error(TYPE_INVALID, path, what, go_value(value)))
    return errors


def _too_many(path: str, actual: int, most: int) -> FieldError:
    return FieldError(TOO_MANY, path, f"must have at most {most} {'item' if most == 1 else 'items'}", str(actual))


def _list_errors(value: list[Any], schema: Schema, path: str, old: Any) -> list[FieldError]:
    items = schema.get("items") or {}
    before = _old_items(old, schema)
    errors = []
    for index, item in enumerate(value):
        errors += errors_of(item, items, f"{path}[{index}]", before(item))
    if "minItems" in schema and len(value) < schema["minItems"]:
        what = f"should have at least {schema['minItems']} items"
        errors.append(error(INVALID, path, what, go_value(len(value))))
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        errors.append(_too_many(path, len(value), schema["maxItems"]))
    if schema.get("uniqueItems") and any(item in value[:index] for index, item in enumerate(value)):
        errors.append(error(INVALID, path, "shouldn't contain duplicates", '""'))
    return errors


def _old_items(old: Any, schema: Schema) -> Callable[[Any], Any]:
    """A function that finds the old version of an item: only items of keyed lists have one."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list):
        return lambda _: _MISSING
    known = {_keyed(item, keys): item for item in old}
    return lambda item: known.get(_keyed(item, keys), _MISSING)


def _keyed(item: Any, keys: list[str]) -> str:
    return json.dumps([item.get(key) for key in keys] if isinstance(item, dict) else item, sort_keys=True)


def _object_errors(value: dict[str, Any], schema: Schema, path: str, old: Any) -> list[FieldError]:
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    before = old if isinstance(old, dict) else {}
    errors: list[FieldError] = []
    for name in sorted(value):
        below = properties.get(name, more)
        if isinstance(below, dict) and not (not path and name in ("apiVersion", "kind", "metadata")):
            errors += errors_of(value[name], below, _join(path, name), before.get(name, _MISSING))
    for name in schema.get("required") or ():
        if name not in value:
            errors.append(FieldError(REQUIRED, _join(path, name)))
    if "minProperties" in schema and len(value) < schema["minProperties"]:
        what = f"should have at least {schema['minProperties']} properties"
        errors.append(error(INVALID, path, what, go_value(len(value))))
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        errors.append(_too_many(path, len(value), schema["maxProperties"]))
    return errors


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def duplicates(value: Any, schema: Schema, path: str) -> list[FieldError]:
    """Duplicate items of sets and keyed lists."""
    errors: list[FieldError] = []
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            below = properties.get(name, more)
            if isinstance(below, dict) and isinstance(item, (dict, list)):
                errors += duplicates(item, below, _join(path, name))
    elif isinstance(value, list):
        relation, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
        odd = [at for at, item in enumerate(value) if item is not None and not isinstance(item, dict)]
        if relation == "map" and odd:
            what = "must be an object for an array of list-type map"
            return [FieldError(INVALID, f"{path}[{odd[0]}]", what, go_value(value[odd[0]]))]
        seen: set[str] = set()
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if relation in ("set", "map"):
                identity = _keyed(item, keys) if relation == "map" else json.dumps(item, sort_keys=True)
                if identity in seen:
                    shown = {key: (item or {}).get(key) for key in keys} if relation == "map" else item
                    errors.append(FieldError(DUPLICATE, where, "", go_value(shown)))
                seen.add(identity)
            errors += duplicates(item, schema.get("items") or {}, where)
    return errors
