"""Checks the JSON types of an object's fields, with the error of a Go decoder.

Only the declared fields of a VerticalPodAutoscaler (and of the review around it) are checked; unknown fields pass.
"""

from __future__ import annotations

from typing import Any

from podfit.api.quantity import Quantity, QuantityError
from podfit.api.schema.decoding.scalars import json_word

Shape = Any
"""A type's name, {field: shape} for a struct, [shape] for a list, ("map", shape) for a map."""

_INTEGERS = {"int32": 31, "int64": 63}
_BOOST = {"cpu": {"type": "string", "factor": "int32", "quantity": "quantity", "durationSeconds": "int32"}}
_META = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "uid": "string",
    "resourceVersion": "string",
    "generation": "int64",
    "labels": ("map", "string"),
    "annotations": ("map", "string"),
    "finalizers": ["string"],
}
VPA: Shape = {
    "kind": "string",
    "apiVersion": "string",
    "metadata": _META,
    "spec": {
        "targetRef": {"kind": "string", "name": "string", "apiVersion": "string"},
        "selector": {
            "matchLabels": ("map", "string"),
            "matchExpressions": [{"key": "string", "operator": "string", "values": ["string"]}],
        },
        "updatePolicy": {
            "updateMode": "string",
            "minReplicas": "int32",
            "evictionRequirements": [{"resources": ["string"], "changeRequirement": "string"}],
            "evictAfterOOMSeconds": "int32",
        },
        "resourcePolicy": {
            "containerPolicies": [
                {
                    "containerName": "string",
                    "mode": "string",
                    "minAllowed": ("map", "quantity"),
                    "maxAllowed": ("map", "quantity"),
                    "controlledResources": ["string"],
                    "controlledValues": "string",
                    "oomBumpUpRatio": "quantity",
                    "oomMinBumpUp": "quantity",
                    "memoryAggregationIntervalSeconds": "int32",
                    "memoryAggregationIntervalCount": "int64",
                    "startupBoost": _BOOST,
                }
            ]
        },
        "recommenders": [{"name": "string"}],
        "startupBoost": _BOOST,
    },
}
POD: Shape = {"metadata": _META, "spec": {"containers": [{"name": "string"}]}}
_KIND = {"group": "string", "version": "string", "kind": "string"}
_RESOURCE = {"group": "string", "version": "string", "resource": "string"}
REVIEW: Shape = {
    "kind": "string",
    "apiVersion": "string",
    "request": {
        "uid": "string",
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "subResource": "string",
        "name": "string",
        "namespace": "string",
        "operation": "string",
    },
}


class ShapeError(ValueError):
    """The first value of a wrong type; the message is the Go decoder's."""


def check_shape(value: Any, shape: Shape, root: str, path: str = "") -> None:
    if value is None:
        return
    if shape == "quantity":
        _check_quantity(value)
    elif isinstance(shape, str):
        _check_scalar(value, shape, root, path)
    elif isinstance(shape, dict):
        _require(value, dict, root, path, "object")
        for field, inner in shape.items():
            given = value.get(field)
            # Most fields are absent or strings, and need no call and no path.
            if given is not None and not (inner == "string" and type(given) is str):
                check_shape(given, inner, root, f"{path}.{field}")
    elif isinstance(shape, list):
        _require(value, list, root, path, "list")
        for entry in value:
            check_shape(entry, shape[0], root, path)
    else:
        _require(value, dict, root, path, "map")
        for key, entry in value.items():
            if not (shape[1] == "string" and type(entry) is str):
                check_shape(entry, shape[1], root, f"{path}.{key}")


def _check_quantity(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ShapeError(f"json: cannot unmarshal {json_word(value)} into Go value of type resource.Quantity")
    try:
        Quantity.parse(value)
    except QuantityError as error:
        raise ShapeError(str(error)) from None


def _check_scalar(value: Any, type: str, root: str, path: str) -> None:
    if type == "string":
        _require(value, str, root, path, type)
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(json_word(value), root, path, type)
    limit = 2 ** _INTEGERS[type]
    if not isinstance(value, int) or not -limit <= value < limit:
        raise _wrong(f"number {value}", root, path, type)


def _require(value: Any, kind: type, root: str, path: str, type: str) -> None:
    if not isinstance(value, kind):
        raise _wrong(json_word(value), root, path, type)


def _wrong(kind: str, root: str, path: str, type: str) -> ShapeError:
    where = f"Go struct field {root}{path}" if path else "Go value"
    return ShapeError(f"json: cannot unmarshal {kind} into {where} of type {type}")
