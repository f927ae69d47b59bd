"""Strategic merge patch: `apply(document, raw, struct)`; lists merge by the keys that their type declares.

Directives: `$patch` (replace, delete), `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`. The
document is not modified: changed containers are copied. Unchanged parts remain the identical object, so that typed
decoding and all later comparisons skip them: the cost of a patch depends on its changes, not on the size of the
document.
"""

from __future__ import annotations

from typing import Any

import msgspec

from podfit.api.patches.merge_patch import GO_MAP
from podfit.api.patches.ordering import enforce_order, names_of, places_of, validate_order
from podfit.api.schema.decoding.decode import duplicate_fields
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.schema.types import Field, ListOf, MapOf, Struct, Type
from podfit.api.status import ApiError, bad_request
from podfit.api.text.gojson import GoSyntaxError, may_hold_duplicates, parse, parse_exact
from podfit.api.text.goprint import go_print, go_type

DIRECTIVE, RETAIN_KEYS = "$patch", "$retainKeys"
DELETE_PREFIX, ORDER_PREFIX = "$deleteFromPrimitiveList/", "$setElementOrder/"
Map = dict[str, Any]


def apply(document: Map, raw: bytes, struct: Struct) -> Map:
    return merged(document, read_patch(raw), struct)


def read_patch(raw: bytes | Map) -> Map:
    """The patch as JSON. A patch that was passed as an object is copied: nothing mutable of it is retained."""
    if not isinstance(raw, bytes):
        copy: Map = msgspec.to_builtins(raw, str_keys=True)
        return copy
    try:
        patch = parse(raw)
    except GoSyntaxError as error:
        raise bad_request(str(error)) from None
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise bad_request(f"json: cannot unmarshal {json_word(patch)} into Go value of type {GO_MAP}")
    return patch


def strict_problems(raw: bytes | Map, patch: Map) -> list[str]:
    """Duplicate keys of the patch itself, as parsed."""
    if not isinstance(raw, bytes) or not may_hold_duplicates(raw, patch):
        return []
    return duplicate_fields(parse_exact(raw))


def server_error(message: str) -> ApiError:
    """An error to which Kubernetes assigns no reason: a plain 500."""
    return ApiError(500, "", message)


def no_merge_key(item: Map, key: str) -> ApiError:
    return server_error(f"map: {go_print(item)} does not contain declared merge key: {key}")


def bad_directive(said: Any, item: Map) -> ApiError:
    return server_error(f"unknown patch type: {go_print(said)} in map: {go_print(item)}")


def merged(document: Map, patch: Map, kind: Type) -> Map:
    """The document with the patch merged into it; `kind` determines how its fields merge. Unchanged parts remain the
    identical object: the document itself, if nothing changes."""
    if DIRECTIVE in patch:
        return _directed(patch)
    out = document
    for key in patch:
        if key.startswith("$"):
            out = dict(document)
            patch = _with_directives(out, patch, kind)
            break
    for key, value in patch.items():
        before, form = out.get(key), value.__class__
        if form is before.__class__:
            if form is dict or form is list:
                item = _merged_container(before, value, kind, key)
            elif value == before:
                continue
            else:
                item = value
        elif value is None:
            item = None
        elif key.startswith(DELETE_PREFIX):
            key = key[len(DELETE_PREFIX) :]
            before = out.get(key)
            item = _without_elements(before, value, kind, key)
        else:
            item = without_directives(value) if form is dict or form is list else value
        if item is not before:
            out = dict(document) if out is document else out
            if item is None:
                del out[key]
            else:
                out[key] = item
    return out


def _merged_container(before: Any, value: Any, kind: Type, key: str) -> Any:
    """The new value of a field that is and remains a map or a list."""
    row = (kind.fields.get(key) if kind.__class__ is Struct else None) or _row(kind, key)
    if value.__class__ is dict:
        return value if row.replace else merged(before, value, row.type)
    return merged_list(before, value, row) if row.merge else value


def _directed(patch: Map) -> Map:
    said = patch[DIRECTIVE]
    if said == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if said == "delete":
        return {}
    raise bad_directive(said, patch)


def _with_directives(out: Map, patch: Map, kind: Type) -> Map:
    """Applies `$retainKeys` and `$setElementOrder` to `out`. Returns the rest of the patch."""
    rest = _ordered_lists(out, _retained(out, patch), kind)
    if any(key.startswith(DELETE_PREFIX) and not isinstance(value, list) for key, value in rest.items()):
        raise bad_request("invalid patch format of primitive list")
    return rest


def _retained(out: Map, patch: Map) -> Map:
    """Applies `$retainKeys`: drops all other keys from `out`. Returns the patch without the directive."""
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
    """The field of a key, which determines how it merges; inside a map all keys merge alike."""
    if isinstance(kind, Struct):
        row = kind.fields.get(key)
        if row is not None:
            return row
        raise server_error(f'unable to find api field in struct {kind.name} for the json field "{key}"')
    if isinstance(kind, MapOf):
        return Field(key, kind.value)
    return Field(key, kind)


def _without_elements(before: Any, patch: list[Any], kind: Type, key: str) -> Any:
    """Applies `$deleteFromPrimitiveList`."""
    if not isinstance(before, list):
        return before
    _row(kind, key)
    unwanted = places_of(patch, None)
    return [item for item, name in zip(before, names_of(before, None), strict=True) if name not in unwanted]


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
    return _merge_elements(remaining, given, row.merge_key, row.type.item)


def _holds_maps(document: list[Any], patch: list[Any]) -> bool:
    """Whether both lists contain maps; mixed types are rejected."""
    first, *others = dict.fromkeys([item.__class__ for item in document + patch])
    if first is list:
        raise ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
    if others:
        raise server_error(f"list element types are not identical: {go_print([document, patch])}")
    return first is dict


def _special_elements(document: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any], bool]:
    """Applies the elements with `$patch`: returns the rest of the list, the plain elements, and whether to replace."""
    special = [item for item in patch if item.get(DIRECTIVE) is not None]
    if not special:
        return document, patch, False
    replace = False
    deleted: list[Any] = []
    for item in special:
        said = item[DIRECTIVE]
        if said == "delete":
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
        unwanted = places_of(deleted, key)
        named = zip(document, names_of(document, key), strict=True)
        document = [other for other, name in named if name not in unwanted]
    return document, [item for item in patch if item.get(DIRECTIVE) is None], replace


def _merge_elements(document: list[Any], patch: list[Any], key: str, kind: Type) -> list[Any]:
    """Merges elements of the same name and adds the new ones. Returns the list itself if that changes nothing."""
    out, places = document, places_of(document, key)
    places.pop(None, None)  # elements without a name merge with nothing
    in_order, last = len(places) == len(document), -1
    for item, name in zip(patch, names_of(patch, key), strict=True):
        if name is None and key not in item:
            raise no_merge_key(item, key)
        place = places.get(name, len(out))
        before = out[place] if place < len(out) else None
        # A new element is taken as it is: directives in it are unknown fields.
        made = item if before is None else merged(before, item, kind)
        if made is not before:
            out = list(document) if out is document else out
            out[place : place + 1] = [made]
        places[name] = place
        in_order, last = in_order and last < place < len(document), place
    # Existing elements that are in their existing order need no reordering.
    return out if in_order else enforce_order(out, patch, document, key)


def _ordered_lists(out: Map, patch: Map, kind: Type) -> Map:
    """Applies `$setElementOrder`: merges those lists into `out` in the given order and removes them from the patch."""
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
        if row.merge_key and not (before is None and given is None):
            _require_names(order, row.merge_key, bool(given))
        validate_order(given or [], order, row.merge_key)
        if before is None and given is None:
            continue
        result = _list_to_order(before, given, row)
        out[key] = enforce_order(result, order, before or [], row.merge_key)
        rest.pop(key, None)
    return rest


def _require_names(order: list[Any], key: str, compared: bool) -> None:
    """Rejects elements of `$setElementOrder` without a name. `compared`: the patch also has elements to order."""
    for at, item in enumerate(order):
        if not isinstance(item, dict):
            if not compared:
                raise server_error(f"value for key {at} is not a map")
            raise server_error(f"expected a {GO_MAP}, but received a {'nil' if item is None else go_type(item)}")
        if key not in item:
            raise no_merge_key(item, key)


def _list_to_order(before: list[Any] | None, given: list[Any] | None, row: Field) -> list[Any]:
    if given is None:
        return before or []
    if before is None:
        return list(without_directives(given))
    return merged_list(before, given, row) if row.merge else given


def without_directives(value: Any) -> Any:
    """A patch value used as a plain value: without nulls, and without maps with `$patch`, which have nothing to apply
    to (None for such a map). Other directives stay, and are reported as unknown fields."""
    if isinstance(value, dict):
        if DIRECTIVE in value:
            return None
        plain = ((key, without_directives(item)) for key, item in value.items() if item is not None)
        return {key: item for key, item in plain if item is not None}
    if isinstance(value, list):
        return [without_directives(x) for x in value if not (isinstance(x, dict) and DIRECTIVE in x)]
    return value
