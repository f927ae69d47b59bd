"""Is the schema of a CustomResourceDefinition structural? Every place must say its type once, outside of logic.

Called when a definition is created or changed; the objects themselves are checked by `validation`.
"""

from __future__ import annotations

from typing import Any

from podfit.api.status import FORBIDDEN, FieldError, invalid, required

Schema = dict[str, Any]
ROOT = "spec.validation.openAPIV3Schema"
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_LOGIC = ("allOf", "anyOf", "oneOf")
_STRUCTURE = ("default", "nullable", "title", "description", "additionalProperties")
_INT_OR_STRING = ([{"type": "integer"}, {"type": "string"}],)


def structural_problems(schema: Schema, path: str = ROOT) -> list[FieldError]:
    """What keeps the schema from being structural, each with its place in the definition."""
    return _place(schema, path, "root")


def _place(schema: Schema, path: str, level: str) -> list[FieldError]:
    errors = _type_problems(schema, path, level) + _unsupported(schema, path)
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if properties and isinstance(more, dict):
        errors.append(_forbidden(f"{path}.additionalProperties", "must not be used together with properties"))
    for name in sorted(properties):
        if level == "root" and name in ("apiVersion", "kind", "metadata"):
            errors += _meta_problems(name, properties[name], f"{path}.properties[{name}]")
            continue
        errors += _place(properties[name], f"{path}.properties[{name}]", "field")
    if isinstance(more, dict):
        errors += _place(more, f"{path}.additionalProperties", "field")
    if isinstance(schema.get("items"), dict):
        errors += _place(schema["items"], f"{path}.items", "item")
    return errors + _logic_problems(schema, path)


def _type_problems(schema: Schema, path: str, level: str) -> list[FieldError]:
    kind, errors = schema.get("type"), []
    either = bool(schema.get("x-kubernetes-int-or-string"))
    free = either or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if not kind and (level == "root" or not free):
        errors.append(required(f"{path}.type", _EMPTY_TYPE[level]))
    if level == "root" and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if kind and either:
        errors.append(invalid(f"{path}.type", kind, "must be empty if x-kubernetes-int-or-string is true"))
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        errors.append(invalid(f"{path}.type", kind or "", "must be object if x-kubernetes-embedded-resource is true"))
    if kind == "array" and schema.get("items") is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        where, why = f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map"
        errors.append(required(where, why))
    return errors


def _unsupported(schema: Schema, path: str) -> list[FieldError]:
    errors = []
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(_forbidden(f"{path}.uniqueItems", why))
    if schema.get("additionalProperties") is False:
        errors.append(_forbidden(f"{path}.additionalProperties", "additionalProperties cannot be set to false"))
    for name in ("definitions", "dependencies", "patternProperties"):
        if schema.get(name):
            errors.append(_forbidden(f"{path}.{name}", f"{name} is not supported"))
    if schema.get("$ref"):
        errors.append(_forbidden(f"{path}.$ref", "$ref is not supported"))
    return errors


def _meta_problems(name: str, schema: Schema, path: str) -> list[FieldError]:
    """The parts every object has may be restricted a little, never described."""
    if name != "metadata":
        return [] if schema.get("type") == "string" else [_wrong_type(path, schema, "string")]
    errors = [] if schema.get("type") == "object" else [_wrong_type(path, schema, "object")]
    if set(schema.get("properties") or {}) - {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(_forbidden(path, why))
    return errors


def _wrong_type(path: str, schema: Schema, wanted: str) -> FieldError:
    return invalid(f"{path}.type", schema.get("type", ""), f"must be {wanted}")


def _logic_problems(schema: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for word in _LOGIC:
        branches = schema.get(word) or []
        if word == "anyOf" and schema.get("x-kubernetes-int-or-string") and branches in _INT_OR_STRING:
            continue
        for index, branch in enumerate(branches):
            errors += _branch_problems(branch, f"{path}.{word}[{index}]", schema)
    if isinstance(schema.get("not"), dict):
        errors += _branch_problems(schema["not"], f"{path}.not", schema)
    return errors


def _branch_problems(branch: Schema, path: str, outside: Schema) -> list[FieldError]:
    """Logic restricts what is specified outside of it; it specifies nothing itself."""
    errors = [
        _forbidden(f"{path}.{word}", "must be undefined to be structural" if word == "default" else _MUST_BE_EMPTY)
        for word in ("type", *_STRUCTURE)
        if branch.get(word) not in (None, "", False)
    ]
    known = outside.get("properties") or {}
    for name, below in sorted((branch.get("properties") or {}).items()):
        where = f"properties[{name}]"
        if name not in known and not outside.get("additionalProperties"):
            at = path[: path.rindex(".")] if "." in path else path
            errors.append(required(f"{at}.{where}", f"because it is defined in {path}.{where}"))
        else:
            errors += _branch_problems(below, f"{path}.{where}", known.get(name) or {})
    for word in _LOGIC:
        for index, below in enumerate(branch.get(word) or []):
            errors += _branch_problems(below, f"{path}.{word}[{index}]", outside)
    return errors


_MUST_BE_EMPTY = "must be empty to be structural"


def _forbidden(path: str, why: str) -> FieldError:
    return FieldError(FORBIDDEN, path, why)
