"""Errors as Kubernetes sends them: metav1.Status, field errors and their aggregate.

`ApiError` is both the server's error response and the exception that clients raise for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object

Json = Any

REASON_OF_CODE = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class ApiError(Exception):
    """An error response: HTTP code, reason, message and details of a metav1.Status."""

    code: int
    reason: str
    message: str
    details: Object | None = None
    headers: dict[str, str] = field(default_factory=dict)
    list_meta: Object = field(default_factory=dict)
    """metadata of the Status: a list that expired half-way returns a new continue token."""
    warnings: list[str] = field(default_factory=list)
    """Warnings to the client in addition to the error."""

    def __str__(self) -> str:
        return self.message

    def to_status(self) -> Object:
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": self.list_meta, "status": "Failure"}
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @staticmethod
    def from_status(status: Object, code: int) -> ApiError:
        return ApiError(
            int(status.get("code") or code),
            str(status.get("reason") or REASON_OF_CODE.get(code, "")),
            str(status.get("message") or ""),
            status.get("details"),
        )


def qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(resource: str, group: str, name: str, **more: Any) -> Object:
    details: Object = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if resource:
        details["kind"] = resource
    details.update({key: value for key, value in more.items() if value})
    return details


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def not_found(resource: str, name: str, group: str = "") -> ApiError:
    return ApiError(
        404, "NotFound", f'{qualified(resource, group)} "{name}" not found', _details(resource, group, name)
    )


def already_exists(
    resource: str, name: str, group: str = "", generated: bool = False, terminating: bool = False
) -> ApiError:
    """409 with reason AlreadyExists. `generated`: the name was generated; `terminating`: the existing object is being
    deleted."""
    message = f'{qualified(resource, group)} "{name}" already exists'
    if terminating:
        message = f"object is being deleted: {message}"
    if not generated:
        return ApiError(409, "AlreadyExists", message, _details(resource, group, name))
    message += ", the server was not able to generate a unique name for the object"
    details = _details(resource, group, name, retryAfterSeconds=1)
    return ApiError(409, "AlreadyExists", message, details, {"Retry-After": "1"})


def conflict(resource: str, name: str, why: str, group: str = "") -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, group, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def forbidden(resource: str, name: str, why: str, group: str = "", causes: list[Object] | None = None) -> ApiError:
    if name:
        message = f'{qualified(resource, group)} "{name}" is forbidden: {why}'
    elif resource:
        message = f"{qualified(resource, group)} is forbidden: {why}"
    else:
        message = f"forbidden: {why}"
    return ApiError(403, "Forbidden", message, _details(resource, group, name, causes=causes))


def too_many_requests(message: str, retry_after_s: int = 0, causes: list[Object] | None = None) -> ApiError:
    details: Object = {}
    if causes:
        details["causes"] = causes
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
    return ApiError(429, "TooManyRequests", message, details or None, headers)


def internal_error(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def expired(message: str) -> ApiError:
    """410 with reason Expired: the requested revision has been compacted."""
    return ApiError(410, "Expired", message)


# --- field errors -------------------------------------------------------------------------------------------------

REQUIRED = "FieldValueRequired"
DUPLICATE = "FieldValueDuplicate"
INVALID = "FieldValueInvalid"
NOT_SUPPORTED = "FieldValueNotSupported"
FORBIDDEN = "FieldValueForbidden"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
NOT_FOUND = "FieldValueNotFound"
TYPE_INVALID = "FieldValueTypeInvalid"
INTERNAL = "InternalError"

_WORDS = {
    REQUIRED: "Required value",
    DUPLICATE: "Duplicate value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    NOT_FOUND: "Not found",
    TYPE_INVALID: "Invalid value",
    INTERNAL: "Internal error",
}


_HTML = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
_needs_escape = re.compile("[<>&\u2028\u2029]")
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


@dataclass(frozen=True)
class FieldError:
    """One cause of a 422. `body` is the message of the cause, `str()` the one with the field's path in front."""

    kind: str
    path: str
    detail: str = ""
    value: str | None = None
    """The invalid value as Go prints it (strings quoted, structs as JSON), or None if errors of the kind show no
    value.
    """

    @property
    def body(self) -> str:
        words = _WORDS[self.kind]
        shown = words if self.value is None else f"{words}: {self.value}"
        return f"{shown}: {self.detail}" if self.detail else shown

    def __str__(self) -> str:
        return f"{self.path}: {self.body}"

    def to_cause(self) -> Object:
        return {"reason": self.kind, "message": self.body, "field": self.path}


def go_value(value: Json) -> str:
    """A value as Go's field errors print it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, (int, float)):
        return str(value)
    return go_json(value)


def go_json(value: Json) -> str:
    """Go's encoding/json: characters that are special in HTML are escaped."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_HTML) if _needs_escape.search(text) else text


def go_quote(text: str) -> str:
    """Go's %q."""
    if text.isprintable():
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(letter: str) -> str:
    short = _SHORT_ESCAPES.get(letter)
    if short is not None:
        return short
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(REQUIRED, path, detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    return FieldError(INVALID, path, detail, go_value(value))


def duplicate(path: str, value: Json) -> FieldError:
    return FieldError(DUPLICATE, path, "", go_value(value))


def not_supported(path: str, value: Json, allowed: Sequence[str]) -> FieldError:
    detail = "supported values: " + ", ".join(go_quote(word) for word in allowed) if allowed else ""
    return FieldError(NOT_SUPPORTED, path, detail, go_value(value))


def field_forbidden(path: str, detail: str) -> FieldError:
    return FieldError(FORBIDDEN, path, detail)


def field_not_found(path: str, value: Json) -> FieldError:
    return FieldError(NOT_FOUND, path, "", go_value(value))


def too_long(path: str, maximum: int) -> FieldError:
    return FieldError(TOO_LONG, path, f"may not be more than {maximum} bytes")


def too_many(path: str, actual: int, maximum: int) -> FieldError:
    items = "item" if maximum == 1 else "items"
    return FieldError(TOO_MANY, path, f"must have at most {maximum} {items}", str(actual))


def aggregate(errors: Iterable[FieldError]) -> str:
    """`a` for one error, `[a, b]` for several; repeated texts once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def unprocessable(kind: str, name: str, errors: Sequence[FieldError], group: str = "") -> ApiError:
    """422 Invalid for an object of `kind` (the Go kind, as in `Pod "x" is invalid: …`)."""
    message = f'{qualified(kind, group)} "{name}" is invalid: {aggregate(errors)}'
    details = _details(kind, group, name)
    details["causes"] = [error.to_cause() for error in errors]
    return ApiError(422, "Invalid", message, details)


def is_namespace_going(error: ApiError) -> bool:
    """Whether a create was rejected because its namespace is being deleted."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
