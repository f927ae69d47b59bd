"""Answers a ConversionReview: converts autoscaler objects between v1 and v1alpha1."""

from __future__ import annotations

from typing import Any

from podfit.api.registry.vpa_versions import UnknownVersion, convert

API_VERSION, KIND = "apiextensions.k8s.io/v1", "ConversionReview"


def converted(review: Any) -> dict[str, Any]:
    """The response to a review. A review that cannot be decoded, or an object that cannot be converted, gets a failure
    status."""
    request = review.get("request") if isinstance(review, dict) else None
    asked: dict[str, Any] = request if isinstance(request, dict) else {}
    response: dict[str, Any] = {"uid": asked.get("uid") or ""}
    try:
        wanted = asked["desiredAPIVersion"]
        response["convertedObjects"] = [convert(obj, wanted) for obj in asked.get("objects") or ()]
        response["result"] = {"status": "Success"}
    except (UnknownVersion, KeyError, TypeError, AttributeError) as error:
        words = str(error) if isinstance(error, UnknownVersion) else f"not a ConversionReview: {error!r}"
        response["convertedObjects"] = []
        response["result"] = {"status": "Failure", "message": words}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}
