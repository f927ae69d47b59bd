"""Calls a definition's conversion webhook, which converts objects from one version to another.

Of the metadata, only labels and annotations are taken from the response; all other fields are preserved.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.api.text.gojson import parse
from podfit.api.text.names import label_value, qualified_name
from podfit.apiserver.admission.webhooks.call import CallFailed, WebhookCaller

GROUP = "apiextensions.k8s.io"
_SPOKEN = ("v1", "v1beta1")
_TIMEOUT_S = 30
_KEPT = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))


class ConversionWebhook:
    def __init__(self, config: Object, caller: WebhookCaller) -> None:
        self._client: Object = config.get("clientConfig") or {}
        self._versions: list[str] = config.get("conversionReviewVersions") or []
        self._caller = caller

    async def convert(self, objects: list[Object], api_version: str) -> list[Object]:
        """Converts all objects in one call. Raises the error for the client."""
        version = next((word for word in self._versions if word in _SPOKEN), "")
        if not version:
            raise _failure("no supported conversion review versions")
        uid, who = str(uuid.uuid4()), _gvk(objects[0])
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        review = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
        try:
            body = await self._caller.post(self._client, review, _TIMEOUT_S)
            made = _read(body, uid, version)
        except (CallFailed, ValueError) as error:
            raise _failure(f"conversion webhook for {who} failed: {error}") from None
        if len(made) != len(objects):
            raise _failure(f"conversion webhook for {who} returned {len(made)} objects, expected {len(objects)}")
        many = len(objects) > 1
        return [
            _checked(before, after, api_version, f"converted object at index {at}" if many else "object at index 0")
            for at, (before, after) in enumerate(zip(objects, made, strict=True))
        ]


def _read(body: bytes | Object, uid: str, version: str) -> list[Any]:
    """The converted objects; ValueError if the response is invalid."""
    review = parse(body) if isinstance(body, bytes) else body
    if not isinstance(review, dict):
        raise ValueError("no response provided")
    if version == "v1" and (review.get("apiVersion"), review.get("kind")) != (f"{GROUP}/v1", "ConversionReview"):
        raise ValueError(f"expected webhook response of {GROUP}/v1, Kind=ConversionReview, got {_gvk(review)}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    if version == "v1" and response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        status = result.get("status", "")
        raise ValueError(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    return list(response.get("convertedObjects") or [])


def _checked(before: Object, after: Any, api_version: str, where: str) -> Object:
    prefix = f"conversion webhook for {_gvk(before)} returned invalid"
    if not isinstance(after, dict):
        raise _failure(f"{prefix} {where}: Object 'Kind' is missing in '{json.dumps(after)}'")
    if after.get("apiVersion") != api_version:
        got = after.get("apiVersion", "")
        raise _failure(f"{prefix} {where}: invalid groupVersion (expected {api_version}, received {got})")
    if after.get("kind") != before["kind"]:
        got = after.get("kind", "")
        raise _failure(f"{prefix} {where}: invalid kind (expected {before['kind']}, received {got})")
    meta = after.get("metadata")
    if not isinstance(meta, dict):
        raise _failure(f"{prefix} metadata: missing metadata in converted object")
    for field, word in _KEPT:
        was, now = before["metadata"].get(field, ""), meta.get(field, "")
        if was != now:
            raise _failure(f"{prefix} object: must have the same {word}: {was} != {now}")
    try:
        return {**after, "metadata": _metadata(before["metadata"], meta)}
    except ValueError as error:
        raise _failure(f"{prefix} metadata: {error}") from None


def _metadata(before: Object, after: Object) -> Object:
    kept = {key: value for key, value in before.items() if key not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        given = after.get(field)
        if given is None:
            continue
        if not isinstance(given, dict):
            raise ValueError(f"invalid metadata.{field} of type {type(given).__name__} in converted object")
        for key, value in given.items():
            _check_pair(field, key, value)
        kept[field] = given
    return kept


def _check_pair(field: str, key: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"metadata.{field}[{key}] must be a string, but is {type(value).__name__} in converted object")
    complaints = [*qualified_name(key), *(label_value(value) if field == "labels" else ())]
    if complaints:
        raise ValueError(f"metadata.{field}: Invalid value: {json.dumps(key)}: {'; '.join(complaints)}")


def _gvk(obj: Object) -> str:
    return f"{obj.get('apiVersion') or '/'}, Kind={obj.get('kind', '')}"


def _failure(why: str) -> ApiError:
    return ApiError(500, "", why)
