"""Validates the annotation of a Node that lists controllers whose pods it should not run."""

from __future__ import annotations

import json

from podfit.api.objects import Object
from podfit.api.status import invalid, required
from podfit.apiserver.strategy.base import Errors

_KEY = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def avoided_pods(node: Object) -> Errors:
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(_KEY)
    if not text:
        return []
    try:
        rows = json.loads(text).get("preferAvoidPods") or []
    except (ValueError, AttributeError) as error:
        return [invalid("metadata.annotations.AvoidPods", _KEY, str(error))]
    errors: Errors = []
    for at, row in enumerate(rows):
        path = f"metadata.annotations.{_KEY}[{at}].PodSignature"
        owner = ((row or {}).get("podSignature") or {}).get("podController")
        if owner is None:
            errors.append(required(path))
        elif not owner.get("controller"):
            errors.append(invalid(f"{path}.PodController.Controller", False, "must point to a controller"))
    return errors
