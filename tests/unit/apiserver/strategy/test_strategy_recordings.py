"""Recorded responses of a real server that follow from the request and the object alone, step by step.

Every recorded object is the state of the next step, so no store is needed. Steps that depend on other components
(conflicts, authorization, limits of the namespace, controllers) are covered by the replay against a whole server.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podfit.api.patches import json_patch, patch_object
from podfit.api.registry.kinds import Kind, Registry
from podfit.api.schema import type_of
from podfit.api.schema.decoding.decode import decode
from podfit.api.status import ApiError, unprocessable
from podfit.apiserver.strategy import strategy_for

ROOT = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[5] / "shared" / "vectors")) / "api"
REGISTRY = Registry()
ELSEWHERE = {
    # (file, step): decided by another component of the server
    ("workload-scale.json", "negative"): "the scale endpoint",
    ("resize-main-endpoint.json", "toleration-remove"): "admission adds it again",
    ("resize-static-windows-skew.json", "mirror"): "admission leaves mirror pods alone",
    ("workload-deployment.json", "status-put-ignored"): "a controller wrote in between",
    ("workload-deployment.json", "template"): "a controller wrote in between",
}
UID = "11111111-1111-1111-1111-111111111111"
CONCRETE = {
    "${run}": "bbbbbbbb",
    "<uid>": UID,
    "<rv>": "1",
    "<time>": "2026-01-01T00:00:00Z",
    "<microtime>": "2026-01-01T00:00:00.000000Z",
}
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


class Step:
    def __init__(self, file: str, raw: dict[str, Any], old: dict[str, Any] | None, answers: dict[str, Any]) -> None:
        self.file, self.raw, self.old, self.answers = file, raw, old, answers

    @property
    def code(self) -> int:
        return int(self.raw["response"]["code"])


def kind_of(path: str) -> tuple[Kind, str, str, str] | None:
    """Kind, namespace, name and subresource of a URL path."""
    parts = path.strip("/").split("/")
    if len(parts) < (3 if parts[0] == "api" else 4):
        return None
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    kind = REGISTRY.resource(group, version, rest[0]) if rest else None
    if kind is None:
        return None
    return kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""


def steps() -> Iterator[Any]:
    for file in sorted(ROOT.glob("*.json")):
        text = file.read_text()
        for placeholder, value in CONCRETE.items():
            text = text.replace(placeholder, value)
        scenario = json.loads(text)
        state: dict[str, Any] = {}
        answers: dict[str, Any] = {}
        for raw in scenario["steps"]:
            found = kind_of(raw["path"]) if "path" in raw and raw["path"].startswith(("/api/", "/apis/")) else None
            body = raw["response"].get("body")
            code = raw["response"].get("code")
            if found is not None and decided_here(file.name, raw, found):
                base = raw["path"].split("/resize")[0].split("/status")[0].split("/ephemeralcontainers")[0]
                step = Step(file.name, raw, copy.deepcopy(state.get(base)), dict(answers))
                if raw["method"] == "POST" or step.old is not None:
                    yield pytest.param(step, id=f"{file.stem}/{raw['id']}")
            if isinstance(body, dict) and body.get("metadata", {}).get("name") and code in (200, 201):
                answers[raw["id"]] = body
                if found is not None and body.get("kind") == found[0].kind and not raw.get("query", {}).get("dryRun"):
                    state[found[0].path(found[1], body["metadata"]["name"])] = body


def decided_here(file: str, raw: dict[str, Any], found: tuple[Kind, str, str, str]) -> bool:
    kind, _, _, subresource = found
    response = raw["response"]
    if file.startswith(("limitrange-", "auth", "discovery", "node-identity")) and file != "limitrange-objects.json":
        return False
    if kind.verbs == ("create",) or subresource not in ("", "status", "resize", "ephemeralcontainers"):
        return False
    if raw["method"] not in ("POST", "PUT", "PATCH") or response.get("code") not in (200, 201, 422):
        return False
    if raw.get("compare") or "eventually" in raw or (file, raw["id"]) in ELSEWHERE:
        return False
    if "apply" in raw.get("headers", {}).get("Content-Type", "") or "${" in json.dumps(raw.get("body")):
        return False
    message = (response.get("body") or {}).get("message", "")
    return "Options" not in message and not message.startswith((' "" is', "the server rejected"))


def admitted(kind: Kind, obj: dict[str, Any]) -> None:
    """The fields that the default admission plugins add to every pod."""
    if kind.kind == "Pod":
        spec = obj["spec"]
        spec.setdefault("serviceAccountName", "default")
        spec["tolerations"] = spec.get("tolerations", []) + [
            each for each in TOLERATIONS if not any(t.get("key") == each["key"] for t in spec.get("tolerations", []))
        ]
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def perform(step: Step) -> dict[str, Any]:
    """The object or the Status that the strategy alone produces."""
    kind, namespace, _, subresource = kind_of(step.raw["path"]) or pytest.fail("unknown path")
    strategy, struct = strategy_for(kind), type_of(kind)
    body = step.raw.get("body")
    if step.raw.get("bodyFrom"):
        body = json_patch.apply_operations(
            copy.deepcopy(step.answers[step.raw["bodyFrom"]["step"]]), step.raw["bodyFrom"]["patch"]
        )
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    if step.raw["method"] == "POST":
        obj = decode(raw, kind).obj
        strategy.default(obj)
        metadata = obj.setdefault("metadata", {})
        if namespace:
            metadata["namespace"] = namespace
        metadata["uid"] = UID
        metadata["creationTimestamp"] = CONCRETE["<time>"]
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = strategy.generate_name(metadata["generateName"])
        admitted(kind, obj)
        strategy.prepare_create(obj)
        errors = strategy.validate_create(obj)
    else:
        old = step.old or {}
        if step.raw["method"] == "PATCH":
            media = step.raw["headers"]["Content-Type"]
            assert struct is not None
            obj = patch_object(copy.deepcopy(old), raw, media, struct).obj
        else:
            obj = decode(raw, kind).obj
            obj.setdefault("metadata", {}).setdefault("resourceVersion", "1")
        strategy.default(obj)
        if namespace:
            obj["metadata"].setdefault("namespace", namespace)
        before = json.dumps(old, sort_keys=True)
        strategy.prepare_update(obj, old, subresource)
        errors = strategy.validate_update(obj, old, subresource)
        assert json.dumps(old, sort_keys=True) == before, "the stored object was changed"
    if errors:
        raise unprocessable(kind.kind, obj["metadata"].get("name", ""), errors, kind.group)
    obj.setdefault("kind", kind.kind)
    obj.setdefault("apiVersion", kind.api_version)
    return obj


def normal(value: Any, path: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict):
        return {
            key: normal(each, (*path, key))
            for key, each in value.items()
            if not (path == ("metadata",) and key in ("uid", "resourceVersion", "creationTimestamp", "managedFields"))
            and not (path == ("metadata",) and key == "annotations" and not each)
            and not (path and path[-1] in ("spec",) and key == "priorityClassName" and not each)
        }
    if isinstance(value, list):
        return [normal(each, path) for each in value]
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>", value)
    return value


def same(recorded: Any, made: Any) -> bool:
    if isinstance(recorded, str) and recorded.endswith("<any>"):
        return isinstance(made, str) and made.startswith(recorded[: -len("<any>")])
    if isinstance(recorded, dict) and isinstance(made, dict):
        return recorded.keys() == made.keys() and all(same(recorded[key], made[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(made, list):
        return len(recorded) == len(made) and all(map(same, recorded, made))
    return bool(recorded == made)


def causes_as_set(status: dict[str, Any]) -> dict[str, Any]:
    causes = sorted(status["details"]["causes"], key=lambda cause: json.dumps(cause, sort_keys=True))
    return {**status, "message": sorted(status["message"]), "details": {**status["details"], "causes": causes}}


ALL = list(steps()) if ROOT.is_dir() else []


@pytest.mark.skipif(not ALL, reason="no recordings: set PODFIT_VECTORS")
@pytest.mark.parametrize("step", ALL)
def test_strategy_answers_like_the_recorded_server(step: Step) -> None:
    recorded = normal(step.raw["response"]["body"])
    try:
        made = normal(perform(step))
        code = 200
    except ApiError as error:
        made, code = normal(error.to_status()), error.code
    if step.raw.get("unordered") and code == 422:
        recorded, made = causes_as_set(recorded), causes_as_set(made)
    if step.code == 422 or code == 422:
        assert same(recorded, made), f"recorded {json.dumps(recorded)[:1500]}\nmade {json.dumps(made)[:1500]}"
        return
    skipped = {path.split(".")[0] for path in step.raw.get("ignore") or ()} & {"status"}
    for part in ("metadata", "spec", "status", "data", "value", "preemptionPolicy"):
        if part in skipped:
            continue
        left, right = recorded.get(part), made.get(part)
        if part == "metadata" and (left or {}).get("generateName"):
            continue
        if "priority-resolution" in step.file or "kube-api-access" in json.dumps(left):
            continue
        assert left == right, f"{part}\nrecorded {json.dumps(left)[:1500]}\nmade     {json.dumps(right)[:1500]}"
