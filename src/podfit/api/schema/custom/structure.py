"""Checks that the schema of a CustomResourceDefinition is structural: every field has its type declared once, outside
of logical combinations.

Called when a definition is created or changed; objects are checked by `validation`.
"""

from __future__ import annotations

from typing import Any

from podfit.api.status import FORBIDDEN, FieldError, invalid, required
from podfit.api.text.patterns import BadPattern, compile_pattern

Schema = dict[str, Any]
ROOT = "spec.validation.openAPIV3Schema"
_EMPTY_TYPE = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_LOGIC = ("anyOf", "allOf", "oneOf")
_EITHER, _KEPT, _EMBEDDED = (
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
)
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMPTY = "must be empty to be structural"
_UNDEFINED = "must be undefined to be structural"
_FALSE = "must be false to be structural"
_NOT_IN_LOGIC = {
    "type": _EMPTY,
    "additionalProperties": _UNDEFINED,
    "default": _UNDEFINED,
    "title": _EMPTY,
    "description": _EMPTY,
    "nullable": _FALSE,
    "externalDocs": _UNDEFINED,
    _KEPT: _FALSE,
    _EMBEDDED: _FALSE,
    _EITHER: _FALSE,
    "x-kubernetes-list-map-keys": _EMPTY,
    "x-kubernetes-list-type": _UNDEFINED,
    "x-kubernetes-map-type": _UNDEFINED,
    "x-kubernetes-validations": _EMPTY,
}


def structural_problems(schema: Schema, path: str = ROOT) -> list[FieldError]:
    """The reasons why the schema is not structural, each with its path in the definition; sorted by text."""
    return sorted(_place(schema, path, "root") + _incomplete(schema, path), key=str)


def _place(schema: Schema, path: str, level: str) -> list[FieldError]:
    errors = _type_problems(schema, path, level)
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    if more is not None and level == "root":
        errors.append(_forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if more is not None and schema.get(_EMBEDDED):
        why = f"must not be used if {_EMBEDDED} is set"
        errors.append(_forbidden(f"{path}.additionalProperties", why))
    for name, place in properties.items():
        errors += _place(place, f"{path}.properties[{name}]", "field")
    errors += _meta_problems(schema, properties, path, level)
    if isinstance(more, dict):
        errors += _place(more, f"{path}.additionalProperties", "field")
    if isinstance(schema.get("items"), dict):
        errors += _place(schema["items"], f"{path}.items", "item")
    return errors + _logic_problems(schema, path, schema.get("anyOf") == _INT_OR_STRING, _starts_with_either(schema))


def _type_problems(schema: Schema, path: str, level: str) -> list[FieldError]:
    kind, errors = schema.get("type"), []
    either, kept, embedded = (bool(schema.get(word)) for word in (_EITHER, _KEPT, _EMBEDDED))
    if kind == "array" and schema.get("items") is None:
        errors.append(required(f"{path}.items", "must be specified"))
    for word, given in ((_KEPT, kept), (_EMBEDDED, embedded)):
        if either and given:
            errors.append(invalid(f"{path}.{word}", True, f"must be false if {_EITHER} is true"))
    if embedded and kind != "object":
        why = f"must be object if {_EMBEDDED} is true"
        errors.append(invalid(f"{path}.type", kind, why) if kind else required(f"{path}.type", why))
    elif not kind and not either and not kept:
        errors.append(required(f"{path}.type", _EMPTY_TYPE[level]))
    if level == "root" and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if embedded and not kept and not schema.get("properties"):
        why = f"must not be empty if {_EMBEDDED} is true without {_KEPT}"
        errors.append(required(f"{path}.properties", why))
    return errors


def _meta_problems(schema: Schema, properties: Schema, path: str, level: str) -> list[FieldError]:
    """Checks how a schema declares the fields that every object has: their types, and restrictions of names only."""
    if level != "root" and not schema.get(_EMBEDDED):
        return []
    errors = []
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and properties[name].get("type") != wanted:
            where = f"{path}.properties[{name}].type"
            errors.append(invalid(where, properties[name].get("type") or "", f"must be {wanted}"))
    metadata = properties.get("metadata")
    if level == "root" and metadata is not None and not _restricts_names_only(metadata):
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        errors.append(_forbidden(f"{path}.properties[metadata]", why))
    return errors


def _restricts_names_only(metadata: Schema) -> bool:
    said = {word for word, value in metadata.items() if value not in (None, "", False, [], {})}
    return said <= {"type", "default", "properties"} and (metadata.get("properties") or {}).keys() <= {
        "name",
        "generateName",
    }


def _starts_with_either(schema: Schema) -> bool:
    branches: list[Schema] = schema.get("allOf") or []
    return bool(branches) and branches[0].get("anyOf") == _INT_OR_STRING


def _logic_problems(schema: Schema, path: str, skip_any: bool = False, skip_first: bool = False) -> list[FieldError]:
    """Checks the logical combinations at a path; both notations of "integer or string" are allowed."""
    errors: list[FieldError] = []
    for word in _LOGIC:
        if word == "anyOf" and skip_any:
            continue
        for at, branch in enumerate(schema.get(word) or ()):
            errors += _branch_problems(branch, f"{path}.{word}[{at}]", word == "allOf" and at == 0 and skip_first)
    if isinstance(schema.get("not"), dict):
        errors += _branch_problems(schema["not"], f"{path}.not")
    if schema.get("pattern") and (problem := pattern_problem(schema["pattern"])):
        why = f"must be a valid regular expression, but isn't: {problem}"
        errors.append(invalid(f"{path}.pattern", schema["pattern"], why))
    return errors


def _branch_problems(branch: Schema, path: str, skip_any: bool = False) -> list[FieldError]:
    """Checks a branch of a combination: it may restrict fields that are declared outside, but declare none itself."""
    errors = _logic_problems(branch, path, skip_any)
    if isinstance(branch.get("items"), dict):
        errors += _branch_problems(branch["items"], f"{path}.items")
    for name, below in (branch.get("properties") or {}).items():
        errors += _branch_problems(below, f"{path}.properties[{name}]")
    for word, why in _NOT_IN_LOGIC.items():
        if branch.get(word) not in (None, "", False, []):
            errors.append(_forbidden(f"{path}.{word}", why))
    if "metadata" in (branch.get("properties") or {}):
        errors.append(_forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return errors


def _incomplete(schema: Schema, path: str) -> list[FieldError]:
    """Paths that occur only in logical combinations at the root; Kubernetes does not check other combinations."""
    return _missing_in_logic(schema, schema, path, path)


def _missing_in_logic(outside: Schema, branch: Schema, path: str, named: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for word in _LOGIC:
        for at, below in enumerate(branch.get(word) or ()):
            errors += _missing(outside, below, path, f"{named}.{word}[{at}]")
    if isinstance(branch.get("not"), dict):
        errors += _missing(outside, branch["not"], path, f"{named}.not")
    return errors


def _missing(outside: Schema, branch: Schema, path: str, named: str) -> list[FieldError]:
    errors: list[FieldError] = []
    items = branch.get("items")
    if isinstance(items, dict):
        if isinstance(outside.get("items"), dict):
            errors += _missing(outside["items"], items, f"{path}.items", f"{named}.items")
        else:
            errors.append(required(f"{path}.items", f"because it is defined in {named}.items"))
    known = outside.get("properties") or {}
    for name, below in (branch.get("properties") or {}).items():
        where = f"properties[{name}]"
        if name in known:
            errors += _missing(known[name], below, f"{path}.{where}", f"{named}.{where}")
        else:
            errors.append(required(f"{path}.{where}", f"because it is defined in {named}.{where}"))
    return errors + _missing_in_logic(outside, branch, path, named)


def pattern_problem(pattern: str) -> str:
    """The error in a regular expression, in Go's wording; empty if it is valid."""
    try:
        compile_pattern(pattern)
    except BadPattern as error:
        return str(error)
    return ""


def _forbidden(path: str, why: str) -> FieldError:
    return FieldError(FORBIDDEN, path, why)
