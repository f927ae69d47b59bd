"""Builds the AdmissionReview for a hook, and interprets the hook's response."""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass, field
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import REASON_OF_CODE, ApiError
from podfit.api.text.gojson import parse
from podfit.apiserver.admission.base import CREATE, DELETE, UPDATE, Attributes
from podfit.apiserver.auth.reviews import user_info

_GROUP = "admission.k8s.io"
API_VERSION = f"{_GROUP}/v1"
_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


class BadAnswer(Exception):
    """The response of a hook is not an AdmissionReview."""


@dataclass(slots=True)
class Answer:
    allowed: bool
    status: Object | None = None
    patch: bytes = b""
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HookView:
    """The objects of a write in the group and version that the hook's rules name."""

    kind: Kind
    object: Object | None
    old: Object | None


def request_of(attrs: Attributes, shown: HookView) -> Object:
    """The `request` of a review; the same for all hooks that get the object as the same kind, except for its uid."""
    kind, resource = _kind_of(attrs, shown.kind), _resource_of(shown.kind)
    request: Object = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": _kind_of(attrs, attrs.kind),
        "requestResource": _resource_of(attrs.kind),
        "operation": attrs.operation,
        "userInfo": user_info(attrs.user),
        "object": shown.object,
        "oldObject": shown.old,
        "dryRun": attrs.dry_run,
        "options": None,
    }
    if attrs.subresource:
        request["subResource"] = request["requestSubResource"] = attrs.subresource
    name = attrs.name or ((attrs.object or {}).get("metadata") or {}).get("name")
    if name:
        request["name"] = name
    namespace = attrs.name if attrs.resource == ("", "namespaces") else attrs.namespace
    if namespace:
        request["namespace"] = namespace
    if attrs.operation in _OPTIONS:
        request["options"] = {"kind": _OPTIONS[attrs.operation], "apiVersion": "meta.k8s.io/v1", **attrs.options}
    return request


def _kind_of(attrs: Attributes, kind: Kind) -> Object:
    sub = kind.subresource(attrs.subresource) if attrs.subresource else None
    if sub is None:
        return {"group": kind.group, "version": kind.version, "kind": kind.kind}
    return {
        "group": kind.group if sub.group is None else sub.group,
        "version": kind.version if sub.version is None else sub.version,
        "kind": sub.kind,
    }


def _resource_of(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def review_version(hook: Object) -> str:
    """The version of reviews to use: the first of the hook's versions that is supported here."""
    return next((word for word in hook.get("admissionReviewVersions") or () if word in _VERSIONS), "v1")


def review_of(request: Object, version: str = "v1") -> Object:
    return {"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request}


def read_answer(body: bytes | Object, uid: str, *, may_patch: bool, version: str = "v1") -> Answer:
    try:
        review = parse(body) if isinstance(body, bytes) else body
    except ValueError as error:
        raise BadAnswer(f"could not get REST client: {error}") from None
    said = (review.get("apiVersion"), review.get("kind")) if isinstance(review, dict) else ()
    if not isinstance(review, dict) or (version == "v1" and said != (API_VERSION, "AdmissionReview")):
        raise BadAnswer(f"expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {_gvk(review)}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response was absent")
    if version == "v1beta1":
        # The older version does not require its uid in the response, and has one type of patch.
        response = {**response, "patchType": "JSONPatch" if response.get("patch") else None}
    elif response.get("uid") != uid:
        raise BadAnswer(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    return Answer(
        bool(response.get("allowed")),
        response.get("status"),
        _patch_of(response, may_patch),
        [str(warning) for warning in response.get("warnings") or ()],
        {str(key): str(value) for key, value in (response.get("auditAnnotations") or {}).items()},
    )


def _gvk(review: Any) -> str:
    if not isinstance(review, dict):
        return "/, Kind="
    group, _, version = str(review.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={review.get('kind', '')}"


def _patch_of(response: Object, may_patch: bool) -> bytes:
    raw, kind = response.get("patch"), response.get("patchType")
    if not raw:
        if kind is not None:
            raise BadAnswer("webhook returned response.patchType but not response.patch")
        return b""
    if not may_patch:
        raise BadAnswer("validating webhook may not return response.patch")
    if kind is None:
        raise BadAnswer("webhook returned response.patch but not response.patchType")
    if kind != "JSONPatch":
        raise BadAnswer(f"invalid value of response.patchType {kind}; only JSONPatch is supported")
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, TypeError) as error:
        raise BadAnswer(f"illegal base64 data in response.patch: {error}") from None


def denial(hook_name: str, status: Object | None) -> ApiError:
    """The error for a rejection by a hook, with the hook's message."""
    status = status or {}
    denied = f'admission webhook "{hook_name}" denied the request'
    code = int(status.get("code") or 0)
    if code < 400:
        code = 400
    message, reason = status.get("message"), status.get("reason")
    if message or reason:
        text = f"{denied}: {message or reason}"
    else:
        text = f"{denied} without explanation"
    default = REASON_OF_CODE.get(code, "") if "code" in status else ""
    return ApiError(code, str(reason or default), text, status.get("details"))
