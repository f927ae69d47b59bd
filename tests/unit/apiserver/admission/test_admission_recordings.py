"""Recorded requests of a real server, through the plugins and authorizers: the same errors, the same defaults.

A minimal server replaces the real one: it decodes nothing, validates nothing and keeps objects in a dictionary. Steps
whose response does not come from admission or authorization are run but not compared.
"""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from podfit.api.quantity import Quantity
from podfit.api.quotas import matches, relevant, usage
from podfit.api.registry.kinds import POD, Kind, Registry, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import CREATE, DELETE, UPDATE, Attributes
from podfit.apiserver.admission.chain import build
from podfit.apiserver.auth.authorize import Action, Authorization
from podfit.apiserver.auth.impersonate import impersonate, wanted_of
from podfit.apiserver.auth.node import NodeAuthorizer, NodeGraph
from podfit.apiserver.auth.reviews import Reviews
from podfit.apiserver.auth.roles import bootstrap_roles
from podfit.apiserver.auth.roles.rbac import Rbac
from podfit.apiserver.bootstrap import priority_classes
from podfit.apiserver.request import ADMIN, User

VECTORS = Path(os.environ.get("PODFIT_VECTORS") or Path(__file__).parents[5] / "shared" / "vectors") / "api"
PATTERNS = (
    "limitrange-*",
    "quota-*",
    "priority-*",
    "create-conflicts*",
    "create-defaulting*",
    "resize-node-admission*",
)
PATTERNS += ("node-identity-*", "auth-*")
FILES = sorted(path for pattern in PATTERNS for path in VECTORS.glob(f"{pattern}.json") if "objects" not in path.stem)
RUN = "bcdfghjk"
NODE1 = User("system:node:node1", ("system:nodes", "system:authenticated"))
QUOTA, PRIORITY_CLASS = kind_named("ResourceQuota"), kind_named("PriorityClass")
VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
REFUSALS = re.compile(
    r"User .* cannot|usage per|ratio per|quota: |PriorityClass|PreemptionPolicy|priority admission|node .* can only"
    r"|not allowed|namespaces .* not found|being terminated|allocatable|linux nodes|requires features|node .* not found"
    r"|cannot update labels|mirror pods|only access node lease|without impersonating"
)

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {VECTORS}; set PODFIT_VECTORS")


class LittleServer:
    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.kinds = Registry()
        self.graph = NodeGraph()
        self.rbac = Rbac(lambda: self.authorization.forget())
        self.authorization = Authorization([NodeAuthorizer(self.graph), self.rbac])
        self.reviews = Reviews(self.authorization, self.rbac)
        self.chain = build(cluster, enable=["PodResizeValidator"])
        for obj in (*bootstrap_roles.cluster_roles(), *bootstrap_roles.cluster_role_bindings()):
            self.rbac.changed(obj["kind"], None, obj)
        for obj in priority_classes():
            cluster.put(PRIORITY_CLASS, {**obj, "preemptionPolicy": "PreemptLowerPriority"})
        cluster.put(kind_named("Node"), {"metadata": {"name": "node1"}})

    async def serve(self, step: dict[str, Any]) -> Any:
        kind, namespace, name, subresource = self.route(step["path"])
        user = NODE1 if step.get("identity") == "node1" else ADMIN
        action = self.action(step, kind, namespace, name, subresource)
        wanted = wanted_of(list((step.get("headers") or {}).items()))
        if wanted is not None:
            user = impersonate(self.authorization, user, wanted, action)
        self.authorization.check(user, action)
        if kind is None:
            return None
        if kind.group in ("authorization.k8s.io", "authentication.k8s.io"):
            return self.review(kind, step["body"], user)
        self.count_quotas(namespace)
        old = self.cluster.get(kind, namespace, name) if name else None
        dry_run = bool((step.get("query") or {}).get("dryRun"))
        method = step["method"]
        if method == "GET":
            return old
        if method == "DELETE":
            await self.run(Attributes(DELETE, kind, subresource, namespace, name, None, old, user, dry_run))
            return self.delete(kind, namespace, name, old) if not dry_run else None
        if method == "POST":
            return await self.create(kind, namespace, name, subresource, deepcopy(step["body"]), user, dry_run)
        if old is None or not isinstance(step.get("body"), dict):
            return None
        return await self.update(kind, namespace, name, subresource, merged(old, step["body"]), old, user, dry_run)

    async def create(
        self, kind: Kind, namespace: str, name: str, sub: str, obj: dict[str, Any], user: User, dry_run: bool
    ) -> Any:
        meta = obj.setdefault("metadata", {})
        if kind.namespaced:
            meta["namespace"] = namespace
        if sub:
            return await self.run(Attributes(CREATE, kind, sub, namespace, name, obj, None, user, dry_run))
        defaulted(kind, obj)
        attrs = Attributes(CREATE, kind, "", namespace, meta.get("name", ""), obj, None, user, dry_run)
        await self.chain.admit(attrs)
        obj = attrs.object or obj
        obj["metadata"].setdefault("generation", 1)
        if kind.plural == "pods" and (bad_resources(obj) or self.cluster.get(kind, namespace, meta["name"])):
            return None
        await self.chain.validate(attrs)
        return obj if dry_run else self.keep(kind, obj)

    async def update(
        self, kind: Kind, namespace: str, name: str, sub: str, new: dict[str, Any], old: Any, user: User, dry_run: bool
    ) -> Any:
        if sub == "resize":
            defaulted(kind, new)
        before = deepcopy(old)
        attrs = Attributes(UPDATE, kind, sub, namespace, name, new, old, user, dry_run)
        await self.chain.admit(attrs)
        assert old == before, "a plugin changed the stored object"
        new = attrs.object or new
        if sub == "resize":
            new["metadata"] = dict(old["metadata"])
            for field in ("priority", "priorityClassName"):
                new["spec"][field] = old["spec"].get(field)
            if differs(new["spec"], old["spec"]):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if kind.plural == "pods" and bad_resources(new):
            return None
        await self.chain.validate(attrs)
        return new if dry_run else self.keep(kind, new)

    async def run(self, attrs: Attributes) -> None:
        await self.chain.admit(attrs)
        await self.chain.validate(attrs)

    def keep(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        old = self.cluster.get(kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        new: dict[str, Any] = self.cluster.put(kind, obj)
        self.changed(kind, old, new)
        if kind.plural == "namespaces" and old is None:
            accounts = kind_named("ServiceAccount")
            self.cluster.put(accounts, {"metadata": {"name": "default", "namespace": obj["metadata"]["name"]}})
            roots = {"metadata": {"name": "kube-root-ca.crt", "namespace": obj["metadata"]["name"]}}
            self.cluster.put(kind_named("ConfigMap"), roots)
        return new

    def delete(self, kind: Kind, namespace: str, name: str, old: Any) -> None:
        if old is None:
            return
        if kind.plural == "namespaces":
            old["status"] = {"phase": "Terminating"}
            return
        self.cluster.drop(kind, namespace, name)
        self.changed(kind, old, None)

    def changed(self, kind: Kind, old: Any, new: Any) -> None:
        if kind is POD or kind.plural == "pods":
            self.graph.pod_changed(old, new)
        elif kind.group == "rbac.authorization.k8s.io":
            self.rbac.changed(kind.kind, old, new)

    def count_quotas(self, namespace: str) -> None:
        """Does the work of the quota controller."""
        for quota in self.cluster.list(QUOTA, namespace):
            hard = quota["spec"]["hard"]
            quota["status"] = {"hard": hard}
            used = dict.fromkeys(hard, Quantity(0))
            for plural in ("pods", "configmaps", "services"):
                kind = next(k for k in self.kinds if k.plural == plural and k.group == "")
                for obj in self.cluster.list(kind, namespace):
                    if matches(quota, "", plural, obj):
                        for name, amount in usage("", plural, obj).items():
                            if name in relevant("", plural, hard):
                                used[name] = used[name] + amount
            quota["status"] = {"hard": hard, "used": {name: str(amount) for name, amount in used.items()}}

    def review(self, kind: Kind, body: dict[str, Any], user: User) -> Any:
        match kind.kind:
            case "SelfSubjectAccessReview":
                return self.reviews.self_subject_access(body, user)
            case "SubjectAccessReview":
                return self.reviews.subject_access(body)
            case "SelfSubjectReview":
                return self.reviews.self_subject(body, user)
        raise AssertionError(kind.kind)

    def route(self, path: str) -> tuple[Kind | None, str, str, str]:
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None, "", "", ""
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        found = self.kinds.resource(group, version, rest[0]) or Kind(group, version, "Thing", rest[0], bool(namespace))
        return found, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""

    def action(self, step: dict[str, Any], kind: Kind | None, namespace: str, name: str, sub: str) -> Action:
        verb = VERBS[step["method"]]
        if kind is None:
            return Action(step["method"].lower(), path=step["path"])
        if verb == "get" and not name:
            verb = "list"
        if kind.plural == "namespaces":
            namespace = name
        selector = (step.get("query") or {}).get("fieldSelector", "")
        return Action(verb, kind.group, kind.plural, sub, namespace, name, field_selector=selector)


def differs(new: dict[str, Any], old: dict[str, Any]) -> bool:
    return any(new.get(field) != old.get(field) for field in ("containers", "initContainers", "resources"))


def merged(old: Any, patch: Any) -> Any:
    """A sufficient subset of strategic merge: maps merge, lists merge by name, key or type."""
    if isinstance(old, dict) and isinstance(patch, dict):
        made = dict(old)
        for key, value in patch.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = merged(old.get(key), value)
        return made
    if isinstance(old, list) and isinstance(patch, list) and patch and isinstance(patch[0], dict):
        by = next((key for key in ("name", "type", "key") if key in patch[0]), None)
        if by is not None:
            rows = {row[by]: row for row in old}
            for row in patch:
                rows[row[by]] = merged(rows.get(row[by]), row)
            return list(rows.values())
    return deepcopy(patch)


def defaulted(kind: Kind, obj: dict[str, Any]) -> None:
    """The defaults that admission requires: requests from limits, and those derived from a LimitRange."""
    if kind.plural == "limitranges":
        for item in obj["spec"]["limits"]:
            if item["type"] == "Container":
                item["default"] = {**(item.get("max") or {}), **(item.get("default") or {})}
                given = item.get("defaultRequest") or {}
                item["defaultRequest"] = {**(item.get("min") or {}), **item["default"], **given}
    if kind.plural == "pods":
        for field in ("containers", "initContainers"):
            if field not in obj["spec"]:
                continue
            rows = [dict(row) for row in obj["spec"][field]]
            for row in rows:
                resources = row.get("resources") or {}
                if resources.get("limits"):
                    requests = {**resources["limits"], **(resources.get("requests") or {})}
                    row["resources"] = {**resources, "requests": requests}
            obj["spec"] = {**obj["spec"], field: rows}


def bad_resources(pod: dict[str, Any]) -> bool:
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        for name, text in (resources.get("requests") or {}).items():
            if name in limits and Quantity.parse(text) > Quantity.parse(limits[name]):
                return True
    return False


def filled(value: Any, answers: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {filled(key, answers): filled(each, answers) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, answers) for each in value]
    if not isinstance(value, str):
        return value

    def look_up(match: re.Match[str]) -> str:
        if match[1] == "run":
            return RUN
        found: Any = answers
        for part in match[1].split("."):
            found = (found or {}).get(part) if isinstance(found, dict) else None
        return str(found)

    return re.sub(r"\$\{([^}]+)\}", look_up, value)


def settled(value: Any) -> Any:
    """Replaces random parts of names as the recordings do."""
    return json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access-<rand>", json.dumps(value)))


def words(message: str) -> list[str]:
    head, bracket, rest = message.partition(": [")
    return [head, *sorted(rest.rstrip("]").split(", "))] if bracket else [head]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_recorded_scenario_gets_the_recorded_refusals_and_defaults(path: Path, cluster: Any) -> None:
    server, answers, compared = LittleServer(cluster), {}, 0
    for step in json.loads(path.read_text())["steps"]:
        step = filled(step, answers)
        expected, reported = step["response"], f"{path.stem}: {step['id']}"
        if expected["code"] == 422:
            continue  # field validation comes before the validating phase
        try:
            answer = await server.serve(step)
        except ApiError as error:
            assert expected["code"] == error.code, f"{reported}: {error.message}"
            status = error.to_status()
            for field in ("reason", "details", "code"):
                assert status.get(field) == expected["body"].get(field), reported
            if step.get("unordered"):
                assert words(status["message"]) == words(expected["body"]["message"]), reported
            else:
                assert status["message"] == expected["body"]["message"], reported
            compared += 1
            continue
        answers[step["id"]] = answer
        body = expected.get("body")
        if isinstance(body, dict) and body.get("kind") == "Status" and body.get("status") == "Failure":
            assert not REFUSALS.search(body["message"]), f"{reported}: {body['message']}"
        elif (
            isinstance(body, dict) and isinstance(answer, dict) and answer.get("kind") in ("Pod", "SubjectAccessReview")
        ):
            compare(answer, body, reported)
            compared += 1
        elif isinstance(body, dict) and body.get("kind") == "ResourceQuota" and step["method"] == "GET":
            assert answer["status"] == body["status"], reported
            compared += 1
    assert compared, "nothing in this recording was compared"


def compare(answer: dict[str, Any], body: dict[str, Any], reported: str) -> None:
    answer = settled(answer)
    if body["kind"] != "Pod":
        assert answer["status"] == body["status"], reported
        return
    spec, expected = answer["spec"], body["spec"]
    for field in ("tolerations", "priority", "priorityClassName", "preemptionPolicy", "serviceAccountName"):
        assert spec.get(field) == expected.get(field), f"{reported}: {field}"
    for ours, theirs in zip(spec["containers"], expected["containers"], strict=True):
        assert ours.get("volumeMounts") == theirs.get("volumeMounts"), reported
        assert (ours.get("resources") or {}) == theirs["resources"], reported
    tokens = [row for row in expected.get("volumes") or () if row["name"].startswith("kube-api-access")]
    assert [row for row in spec.get("volumes") or () if row["name"].startswith("kube-api-access")] == tokens, reported
