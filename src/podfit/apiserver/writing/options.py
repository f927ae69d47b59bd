"""Parses the options in the query of a request: list, create, update, patch and delete options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.status import (
    FieldError,
    bad_request,
    field_forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
    unprocessable,
)
from podfit.api.text.gojson import GoSyntaxError, Literal, parse, parse_exact
from podfit.api.text.remember import remembered
from podfit.apiserver.routes import truthy
from podfit.kit.durations import GO_UNITS_S

Query = dict[str, list[str]]
APPLY = "application/apply-patch+yaml"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MANAGER_LIMIT = 128
_POLICIES = ("Foreground", "Background", "Orphan")


def first(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def timeout_of(query: Query) -> float:
    """The timeout of the client in seconds; 0 if it sent none, or an invalid one."""
    parts = _DURATION_PART.findall(first(query, "timeout")[:_MANAGER_LIMIT])
    try:
        return sum(float(number) * GO_UNITS_S[unit] for number, unit in parts)
    except ValueError:
        return 0


_DURATION_PART = re.compile("([0-9.]+)(ns|us|µs|μs|ms|s|m|h)")
_DIGITS = 19
"""The number of digits of the largest 64-bit number."""


def integer(query: Query, name: str) -> int | None:
    text = first(query, name)
    if not text:
        return None
    if not _INTEGER.fullmatch(text):
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    if len(text.lstrip("+-0")) > _DIGITS or not -(2**63) <= int(text) < 2**63:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return int(text)


# --- list and watch -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListOptions:
    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    bookmarks: bool = False
    revision: str = ""
    match: str = ""
    timeout_s: int | None = None
    limit: int = 0
    token: str = ""
    send_initial: bool | None = None


def list_options(query: Query, watching: bool) -> ListOptions:
    options = ListOptions(
        first(query, "labelSelector"),
        first(query, "fieldSelector"),
        watching,
        truthy(query.get("allowWatchBookmarks")),
        first(query, "resourceVersion"),
        first(query, "resourceVersionMatch"),
        integer(query, "timeoutSeconds"),
        integer(query, "limit") or 0,
        first(query, "continue"),
        truthy(query["sendInitialEvents"]) if query.get("sendInitialEvents") else None,
    )
    errors = _watch_errors(options) if watching else _list_errors(options)
    if errors:
        raise unprocessable("ListOptions", "", errors, "meta.k8s.io")
    return options


def _watch_errors(options: ListOptions) -> list[FieldError]:
    field, errors = "resourceVersionMatch", []
    if options.match and options.send_initial is None:
        errors.append(
            field_forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    if options.send_initial is not None and options.match != "NotOlderThan":
        errors.append(field_forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if options.match and options.match != "NotOlderThan":
        errors.append(not_supported(field, options.match, ["NotOlderThan"]))
    if options.token:
        errors.append(field_forbidden("continue", "continue is forbidden for watch"))
    return errors


def _list_errors(options: ListOptions) -> list[FieldError]:
    field, errors = "resourceVersionMatch", []
    if options.match:
        if not options.revision:
            errors.append(
                field_forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if options.token:
            errors.append(field_forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported(field, options.match, ["Exact", "NotOlderThan", ""]))
        if options.match == "Exact" and options.revision == "0":
            errors.append(field_forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial is not None:
        errors.append(field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


# --- writes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    manager: str = ""
    validation: str = "Warn"
    force: bool = False

    def to_json(self) -> Object:
        options: Object = {}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.manager:
            options["fieldManager"] = self.manager
        if self.validation != "Warn":
            options["fieldValidation"] = self.validation
        if self.force:
            options["force"] = True
        return options


def write_options(query: Query, kind: str, patch_type: str = "") -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions; `patch_type` the content type of a patch."""
    if not query:
        if patch_type == APPLY:
            raise unprocessable(kind, "", [required("fieldManager", "is required for apply patch")], "meta.k8s.io")
        return _PLAIN
    manager, dry_run, validation = first(query, "fieldManager"), query.get("dryRun"), first(query, "fieldValidation")
    errors: list[FieldError] = []
    if patch_type == APPLY and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    if patch_type and patch_type != APPLY and "force" in query:
        errors.append(field_forbidden("force", "may not be specified for non-apply patch"))
    errors += _manager_errors(manager) + _dry_run_errors(dry_run)
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if errors:
        raise unprocessable(kind, "", errors, "meta.k8s.io")
    return WriteOptions(bool(dry_run), manager, validation or "Warn", truthy(query.get("force")))


_PLAIN = WriteOptions()


def _manager_errors(manager: str) -> list[FieldError]:
    errors = []
    if len(manager.encode()) > _MANAGER_LIMIT:
        errors.append(too_long("fieldManager", _MANAGER_LIMIT))
    for at, letter in enumerate(manager):
        if not letter.isprintable():
            byte = len(manager[:at].encode())
            detail = f"invalid character U+{ord(letter):04X} (at position {byte})"
            errors.append(invalid("fieldManager", manager, detail))
    return errors


def _dry_run_errors(values: Sequence[str] | None) -> list[FieldError]:
    if values and any(value != "All" for value in values):
        return [not_supported("dryRun", list(values), ["All"])]
    return []


# --- delete -------------------------------------------------------------------------------------------------------


_DELETE_OPTIONS = "DeleteOptions"


def delete_options(query: Query, body: bytes) -> Object:
    """DeleteOptions as JSON, from the body or otherwise from the query."""
    return checked_delete_options(_decode_delete_options(body) if body else _delete_options_from_query(query))


def checked_delete_options(options: Object) -> Object:
    """Rejects invalid options; a negative grace period means one second."""
    errors: list[FieldError] = []
    policy = options.get("propagationPolicy")
    if policy is not None and options.get("orphanDependents") is not None:
        errors.append(
            invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("propagationPolicy", policy, [*_POLICIES, "nil"]))
    errors += _dry_run_errors(options.get("dryRun"))
    if errors:
        raise unprocessable(_DELETE_OPTIONS, "", errors, "meta.k8s.io")
    grace = options.get("gracePeriodSeconds")
    if grace is not None and grace < 0:
        options["gracePeriodSeconds"] = 1
    return options


def _delete_options_from_query(query: Query) -> Object:
    options: Object = {}
    if (grace := integer(query, "gracePeriodSeconds")) is not None:
        options["gracePeriodSeconds"] = grace
    if policy := first(query, "propagationPolicy"):
        options["propagationPolicy"] = policy
    if query.get("orphanDependents"):
        options["orphanDependents"] = truthy(query["orphanDependents"])
    if query.get("dryRun"):
        options["dryRun"] = list(query["dryRun"])
    return options


def _decode_delete_options(body: bytes) -> Object:
    try:
        options: Any = parse(body)
    except GoSyntaxError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if options is None:
        return {}
    if isinstance(options, dict) and isinstance(options.get("gracePeriodSeconds"), float):
        # Go quotes a number that is not an integer as it was written.
        options = parse_exact(body)
    if not isinstance(options, dict):
        raise bad_request(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {json_word(options)} into Go value "
            'of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
            '"json:\\"kind,omitempty\\"" }'
        )
    for name in options:
        if name in ("kind", "apiVersion") and not isinstance(options[name], str | None):
            where = f"{json_word(options[name])} into Go struct field .{name} of type string"
            raise bad_request(f"couldn't get version/kind; json parse error: json: cannot unmarshal {where}")
    kind, version = options.pop("kind", "") or "", options.pop("apiVersion", "") or ""
    if kind not in ("", _DELETE_OPTIONS) or (version and not kind):
        raise bad_request(
            f"no kind {go_quote(kind)} is registered for version {go_quote(version)} in scheme "
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    return _checked_types(options)


def _checked_types(options: Object) -> Object:
    grace = options.get("gracePeriodSeconds")
    if isinstance(grace, int) and not isinstance(grace, bool) and not -(2**63) <= grace < 2**63:
        options["gracePeriodSeconds"] = Literal.of(str(grace))
    for name, wanted, word in _TYPES:
        value = options.get(name)
        if value is None:
            options.pop(name, None)
        elif not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            said = f"number {value.text}" if wanted is int and isinstance(value, Literal) else json_word(value)
            raise bad_request(f"json: cannot unmarshal {said} into Go struct field DeleteOptions.{name} of type {word}")
    stated = options.get("preconditions", {})
    for name, word in (("uid", "types.UID"), ("resourceVersion", "string")):
        if not isinstance(stated.get(name), str | None):
            where = f"Preconditions.preconditions.{name} of type {word}"
            raise bad_request(f"json: cannot unmarshal {json_word(stated[name])} into Go struct field {where}")
    if any(not isinstance(word, str) for word in options.get("dryRun", ())):
        raise bad_request("json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string")
    return {name: options[name] for name, _, _ in _TYPES if name in options and name != _UNSAFE}


_UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""An option that has no effect while its feature gate is off, as it is by default."""
_TYPES: tuple[tuple[str, type, str], ...] = (
    ("gracePeriodSeconds", int, "int64"),
    ("preconditions", dict, "v1.Preconditions"),
    ("orphanDependents", bool, "bool"),
    ("propagationPolicy", str, "v1.DeletionPropagation"),
    ("dryRun", list, "[]string"),
    (_UNSAFE, bool, "bool"),
)


@remembered(256)
def media_type(headers_value: str) -> str:
    return headers_value.split(";", 1)[0].strip().lower()
