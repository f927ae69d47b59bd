"""An in-memory cluster for tests of authentication and authorization."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from podfit.api.registry.kinds import Kind
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.auth.node import NodeAuthorizer, NodeGraph
from podfit.apiserver.auth.roles import bootstrap_roles
from podfit.apiserver.auth.roles.rbac import Rbac


class Objects:
    def __init__(self) -> None:
        self.rows: dict[tuple[str, str, str], dict[str, Any]] = {}

    def put(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        meta = obj.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{len(self.rows)}")
        self.rows[kind.plural, meta.get("namespace", ""), meta["name"]] = deepcopy(obj)
        return obj

    def drop(self, kind: Kind, namespace: str, name: str) -> None:
        del self.rows[kind.plural, namespace, name]

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        return self.rows.get((kind.plural, namespace, name))

    def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        return [o for (plural, space, _), o in self.rows.items() if plural == kind.plural and namespace in ("", space)]

    async def update_status(self, kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        return self.put(kind, obj)


@pytest.fixture
def objects() -> Objects:
    return Objects()


class Access:
    """RBAC with the default roles, the Node authorizer, and the chain over both."""

    def __init__(self) -> None:
        self.graph = NodeGraph()
        self.rbac = Rbac(lambda: self.chain.forget())
        self.chain = Authorization([NodeAuthorizer(self.graph), self.rbac])
        for obj in (*bootstrap_roles.cluster_roles(), *bootstrap_roles.cluster_role_bindings()):
            self.rbac.changed(obj["kind"], None, obj)

    def bind(
        self, role: str, user: str, namespace: str = "", kind: str = "User", role_kind: str = "ClusterRole"
    ) -> dict[str, Any]:
        binding = {
            "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
            "metadata": {"name": f"{role}-{user}", **({"namespace": namespace} if namespace else {})},
            "roleRef": {"kind": role_kind, "name": role},
            "subjects": [{"kind": kind, "name": user}],
        }
        self.rbac.changed(binding["kind"], None, binding)
        return binding


@pytest.fixture
def access() -> Access:
    return Access()
