"""Answers a ConversionReview: converts autoscaler objects between v1 and v1alpha1."""

from __future__ import annotations

from typing import Any

from podfit.api.registry.vpa_versions import UnknownVersion, convert

API_VERSION, KIND = "apiextensions.k8s.io/v1", "ConversionReview"


def converted(review: Any) -> dict[str, Any]:
    """The response to a review. A review that cannot be decoded, or an object that cannot be converted, gets a failure
    status."""
    request = review.get("request") if isinstance(review, dict) else None
    request_object: dict[str, Any] = request if isinstance(request, dict) else {}
    response: dict[str, Any] = {"uid": request_object.get("uid") or ""}
    try:
        wanted = request_object["desiredAPIVersion"]
        response["convertedObjects"] = [convert(obj, wanted) for obj in request_object.get("objects") or ()]
        response["result"] = {"status": "Success"}
    except (UnknownVersion, KeyError, TypeError, AttributeError) as error:
        words = str(error) if isinstance(error, UnknownVersion) else f"not a ConversionReview: {error!r}"
        response["convertedObjects"] = []
        response["result"] = {"status": "Failure", "message": words}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
