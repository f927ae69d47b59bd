"""The two kinds of patches that mutating policies create: an apply configuration, and a JSON patch."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.patches.apply import typed as typed_values
from podfit.api.patches.apply.check import complaints
from podfit.api.patches.json_patch import apply_operations
from podfit.api.schema.decoding.decode import DecodeError, convert
from podfit.api.schema.decoding.notes import UNSTRUCTURED
from podfit.api.schema.types import ATOMIC, ListOf, MapOf, Struct, Type
from podfit.api.status import ApiError, internal_error
from podfit.api.text.formats import fits


class BadPatch(Exception):
    """A patch does not apply; the policy's failure policy decides."""


def merged(obj: Object, applied: Object, struct: Struct) -> Object:
    applied = {**applied, "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    if found := complaints(applied, struct):
        text = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in found)
        raise BadPatch(f"error applying patch: failed to convert patch object to typed object: {text}")
    if atomics := _atomics(applied, struct, ""):
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        raise BadPatch(f"error applying patch: invalid ApplyConfiguration: {why}")
    result: Object = typed_values.merge(obj, applied, struct)
    return result


def _atomics(value: Any, kind: Type, path: str) -> list[str]:
    """The paths of arrays, maps or structs in a configuration that would be replaced as a whole."""
    found: list[str] = []
    if isinstance(value, dict) and isinstance(kind, Struct | MapOf):
        if kind.atomic if isinstance(kind, Struct) else kind.relation == ATOMIC:
            found.append(path)
        fields = kind.fields if isinstance(kind, Struct) else {}
        for name, inner in value.items():
            if (row := fields.get(name)) is not None:
                found += _atomics(inner, row.type, f"{path}.{name}")
    elif isinstance(value, list) and isinstance(kind, ListOf):
        if kind.relation == ATOMIC:
            found.append(path)
        for at, inner in enumerate(value):
            found += _atomics(inner, kind.item, f"{path}[{at}]")
    return found


def patched(obj: Object, operations: list[Object]) -> Object:
    """The patched object; the original if a test operation fails."""
    result: Any = obj
    for operation in operations:
        try:
            result = apply_operations(result, [operation])
        except ApiError:
            if operation["op"] == "test" and _holder(operation["path"], result) is not None:
                return obj
            raise BadPatch(f"JSON Patch: {_why(operation, result)}") from None
    if not isinstance(result, dict):
        raise internal_error("the patched object is no object")
    return result


def _why(operation: Object, document: Any) -> str:
    op, path = operation["op"], operation["path"]
    if op not in ("add", "remove", "replace", "move", "copy", "test"):
        return f"Unexpected kind: {op or 'unknown'}"
    if op in ("move", "copy"):
        source = str(operation.get("from", ""))
        if op == "copy" or _holder(source, document) is None:
            return f"{op} operation does not apply: doc is missing from path: {source}: missing value"
        key = _parts(source)[-1]
        return f"error in move for path: '{key}': Unable to remove nonexistent key: {key}: missing value"
    if op == "test":
        return f"test operation does not apply: is missing path: {path}: missing value"
    parts, holder = _parts(path), _holder(path, document)
    if holder is None:
        shown = f'"{path}"' if op != "replace" else path
        return f"{op} operation does not apply: doc is missing path: {shown}: missing value"
    if op == "replace":
        return f"replace operation does not apply: doc is missing key: {path}: missing value"
    if op == "remove" and isinstance(holder, dict):
        return f"error in remove for path: '{path}': Unable to remove nonexistent key: {parts[-1]}: missing value"
    return f"error in {op} for path: '{path}': Unable to access invalid index: {parts[-1]}: invalid index referenced"


def _parts(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _holder(path: str, document: Any) -> Any:
    """The container of the value at a path; None if it does not exist."""
    holder = document
    for part in _parts(path)[:-1]:
        holder = _below(holder, part)
    return holder if isinstance(holder, dict | list) else None


def _below(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)
    if isinstance(holder, list) and fits(part, len(holder) - 1):
        return holder[int(part)]
    return None


def typed(obj: Object, struct: Struct, before: Object, is_patch: bool) -> Object:
    """The result of a mutation, decoded as its kind."""
    try:
        if is_patch:
            return convert(obj, struct, field_validation="Strict", base=before).obj
        return convert(obj, struct, field_validation="Ignore", dialect=UNSTRUCTURED, base=before).obj
    except DecodeError as error:
        if is_patch:
            raise internal_error(str(error)) from None
        what = f"{obj.get('apiVersion')}, Kind={obj.get('kind')}"
        raise BadPatch(f"unable to convert unstructured object to {what}: {error}") from None
