"""Strategic merge patch: `apply(document, raw, struct)`; lists merge by the keys their type declares.

Directives: `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.
The document is not changed: what differs is copied.
"""

from __future__ import annotations

from typing import Any

from podfit.api.patches.merge_patch import GO_MAP
from podfit.api.patches.ordering import Places, enforce_order, validate_order
from podfit.api.schema.decoding.decode import duplicate_fields
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.schema.golang.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact
from podfit.api.schema.types import Field, ListOf, MapOf, Struct, Type
from podfit.api.status import ApiError, bad_request
from podfit.api.text.goprint import go_print

DIRECTIVE, RETAIN_KEYS = "$patch", "$retainKeys"
DELETE_PREFIX, ORDER_PREFIX = "$deleteFromPrimitiveList/", "$setElementOrder/"
Map = dict[str, Any]


def apply(document: Map, raw: bytes, struct: Struct) -> Map:
    return merged(document, read_patch(raw), struct)


def read_patch(raw: bytes) -> Map:
    try:
        patch = parse(raw)
    except GoSyntaxError as error:
        raise bad_request(str(error)) from None
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {json_word(patch)} into Go value of type {GO_MAP}")
    return patch


def strict_problems(raw: bytes, patch: Map) -> list[str]:
    """Keys that the patch itself, as it was read, holds twice."""
    return duplicate_fields(parse_exact(raw)) if may_hold_duplicates(raw, patch) else []


def server_error(message: str) -> ApiError:
    """An error Kubernetes gives no reason for: a plain 500."""
    return ApiError(500, "", message)


def no_merge_key(item: Map, key: str) -> ApiError:
    return server_error(f"map: {go_print(item)} does not contain declared merge key: {key}")


def bad_directive(said: Any, item: Map) -> ApiError:
    return server_error(f"unknown patch type: {go_print(said)} in map: {go_print(item)}")


def merged(document: Map, patch: Map, kind: Type) -> Map:
    """The document with the patch merged into it; `kind` says how its fields merge."""
    if DIRECTIVE in patch:
        return _directed(patch)
    out = dict(document)
    rest = _retained(out, patch)
    rest = _ordered_lists(out, rest, kind)
    for key, value in rest.items():
        deleting = key.startswith(DELETE_PREFIX)
        if deleting:
            key = key[len(DELETE_PREFIX) :]
            if not isinstance(value, list):
                raise bad_request("invalid patch format of primitive list")
        if value is None:
            out.pop(key, None)
        elif out.get(key).__class__ is not value.__class__:
            if not deleting:
                out[key] = without_directives(value)
        elif isinstance(value, dict):
            out[key] = _merge_maps(out[key], value, kind, key)
        elif isinstance(value, list):
            out[key] = _merge_lists(out[key], value, kind, key, deleting)
        else:
            out[key] = value
    return out


def _directed(patch: Map) -> Map:
    said = patch[DIRECTIVE]
    if said == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if said == "delete":
        return {}
    raise bad_directive(said, patch)


def _retained(out: Map, patch: Map) -> Map:
    """Obeys `$retainKeys`: drops from `out` what it does not name. Returns the patch without the directive."""
    if RETAIN_KEYS not in patch:
        return patch
    named = patch[RETAIN_KEYS]
    rest = {key: value for key, value in patch.items() if key != RETAIN_KEYS}
    given = (key for key, value in rest.items() if value is not None and not key.startswith("$"))
    if not isinstance(named, list) or any(key not in named for key in given):
        raise bad_request("invalid patch format of retainKeys")
    for key in list(out):
        if key not in named:
            del out[key]
    return rest


def _row(kind: Type, key: str) -> Field:
    """How the field merges; inside a map every key merges like its values."""
    if isinstance(kind, Struct):
        row = kind.fields.get(key)
        if row is not None:
            return row
        raise server_error(f'unable to find api field in struct {kind.name} for the json field "{key}"')
    if isinstance(kind, MapOf):
        return Field(key, kind.value)
    return Field(key, kind)


def _merge_maps(document: Map, patch: Map, kind: Type, key: str) -> Map:
    row = _row(kind, key)
    if row.replace:
        return patch
    return merged(document, patch, row.type)


def _merge_lists(document: list[Any], patch: list[Any], kind: Type, key: str, deleting: bool) -> list[Any]:
    row = _row(kind, key)
    if deleting:
        unwanted = Places(patch, None)
        return [item for item in document if unwanted.of(item) < 0]
    if not row.merge:
        return patch
    return merged_list(document, patch, row)


def merged_list(document: list[Any], patch: list[Any], row: Field) -> list[Any]:
    if not document and not patch:
        return document
    if not _holds_maps(document, patch):
        both = list(dict.fromkeys([*document, *patch]))
        return enforce_order(both, patch, document, None)
    if not row.merge_key:
        raise server_error(f"cannot merge lists without merge key for {row.name}")
    assert isinstance(row.type, ListOf)
    remaining, given, replaced = _special_elements(document, patch, row.merge_key)
    if replaced:
        return given
    out = _merge_elements(remaining, given, row.merge_key, row.type.item)
    return enforce_order(out, given, remaining, row.merge_key)


def _holds_maps(document: list[Any], patch: list[Any]) -> bool:
    """Whether both lists hold maps; elements of several types are refused."""
    first, *others = (item.__class__ for item in document + patch)
    if first is list:
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    if any(other is not first for other in others):
        raise server_error(f"list element types are not identical: {go_print([document, patch])}")
    return first is dict


def _special_elements(document: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any], bool]:
    """Obeys the elements that carry `$patch`: what remains of the list, the plain elements, and whether to replace."""
    given, replace = [], False
    deleted: list[Any] = []
    for item in patch:
        said = item.get(DIRECTIVE)
        if said is None:
            given.append(item)
        elif said == "delete":
            if key not in item:
                raise no_merge_key(item, key)
            deleted.append(item)
        elif said == "replace":
            replace = True
        elif said == "merge":
            raise server_error("merging lists cannot yet be specified in the patch")
        else:
            raise bad_directive(said, item)
    if deleted:
        unwanted = Places(deleted, key)
        document = [other for other in document if unwanted.of(other) < 0]
    return document, given, replace


def _merge_elements(document: list[Any], patch: list[Any], key: str, kind: Type) -> list[Any]:
    out = list(document)
    places = Places([], key)
    for index, other in enumerate(document):
        if key in other:
            places.add(other, index)
    for item in patch:
        if key not in item:
            raise no_merge_key(item, key)
        place = places.of(item)
        if place >= 0:
            out[place] = merged(out[place], item, kind)
        else:
            places.add(item, len(out))
            out.append(without_directives(item))
    return out


def _ordered_lists(out: Map, patch: Map, kind: Type) -> Map:
    """Obeys `$setElementOrder`: merges those lists into `out` in the wanted order and takes them off the patch."""
    directives = [key for key in patch if key.startswith(ORDER_PREFIX)]
    if not directives:
        return patch
    rest = dict(patch)
    for directive in directives:
        order = rest.pop(directive)
        key = directive[len(ORDER_PREFIX) :]
        before, given = out.get(key), rest.get(key)
        if not isinstance(order, list) or any(x is not None and not isinstance(x, list) for x in (before, given)):
            raise bad_request("invalid patch format of setElementOrder list")
        row = _row(kind, key)
        validate_order(given or [], order, row.merge_key)
        if before is None and given is None:
            continue
        result = _list_to_order(before, given, row)
        out[key] = enforce_order(result, order, before or [], row.merge_key)
        rest.pop(key, None)
    return rest


def _list_to_order(before: list[Any] | None, given: list[Any] | None, row: Field) -> list[Any]:
    if given is None:
        return before or []
    if before is None:
        return list(without_directives(given))
    return merged_list(before, given, row) if row.merge else given


def without_directives(value: Any) -> Any:
    """A patch value used as a plain value: no directives, no nulls."""
    if isinstance(value, dict):
        return {
            key: without_directives(item)
            for key, item in value.items()
            if item is not None
            and key not in (DIRECTIVE, RETAIN_KEYS)
            and not key.startswith((DELETE_PREFIX, ORDER_PREFIX))
        }
    if isinstance(value, list):
        return [without_directives(x) for x in value if not (isinstance(x, dict) and x.get(DIRECTIVE) == "delete")]
    return value
