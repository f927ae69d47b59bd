"""Which flow schema a request matches."""

from __future__ import annotations

import pytest

from podfit.api.objects import Object
from podfit.apiserver.flows.classify import RequestAttributes, first_match, schemas
from podfit.apiserver.strategy.flows.mandatory import defaults

DEFAULTS = schemas(row for row in defaults() if row["kind"] == "FlowSchema")
EVERYBODY = ("system:authenticated",)
NODES = ("system:nodes", "system:authenticated")
ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
CONTROLLER = "system:kube-controller-manager"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (RequestAttributes("admin", ("system:masters",), "patch", "", "pods", "resize", "default"), "exempt"),
        (RequestAttributes("dev", EVERYBODY, "patch", "", "pods", "resize", "default"), "global-default"),
        (RequestAttributes("system:node:n", NODES, "update", "coordination.k8s.io", "leases", "", "kube-node-lease"),
         "system-node-high"),
        (RequestAttributes("system:node:n", NODES, "patch", "", "pods", "status", "default"), "system-nodes"),
        (RequestAttributes("system:node:n", NODES, "patch", "", "nodes", "status"), "system-node-high"),
        (RequestAttributes("dev", EVERYBODY, "get", path="/healthz"), "probes"),
        (RequestAttributes("system:anonymous", ("system:unauthenticated",), "get", path="/livez"), "probes"),
        (RequestAttributes("system:anonymous", ("system:unauthenticated",), "list", "", "pods"), "global-default"),
        (RequestAttributes(CONTROLLER, EVERYBODY, "update", "coordination.k8s.io", "leases", "", "kube-system"),
         "system-leader-election"),
        (RequestAttributes(CONTROLLER, EVERYBODY, "create", "", "pods", "", "default"), "kube-controller-manager"),
        (RequestAttributes("system:kube-scheduler", EVERYBODY, "create", "", "pods", "binding", "default"),
         "kube-scheduler"),
        (RequestAttributes("system:serviceaccount:kube-system:x", ACCOUNTS, "list", "", "pods"),
         "kube-system-service-accounts"),
        (RequestAttributes("system:serviceaccount:default:x", ACCOUNTS[:1], "list", "", "pods"), "service-accounts"),
    ],
)  # fmt: skip
def test_requests_match_the_default_schemas_as_in_kubernetes(asked: RequestAttributes, name: str) -> None:
    found = first_match(DEFAULTS, asked)
    assert found is not None and found.name == name


def schema(name: str, precedence: int, rule: Object) -> Object:
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "x"}, "rules": [rule]}
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


ALL_USERS: Object = {"subjects": [{"kind": "User", "user": {"name": "*"}}]}


def pods_in(namespaces: list[str], cluster: bool = False) -> Object:
    row = {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "namespaces": namespaces, "clusterScope": cluster}
    return {**ALL_USERS, "resourceRules": [row]}


def test_the_lower_precedence_wins_and_then_the_name() -> None:
    rows = [schema(name, number, pods_in(["*"])) for name, number in (("b", 5), ("c", 1), ("a", 5))]
    assert [row.name for row in schemas(rows)] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("namespaces", "cluster", "namespace", "matches"),
    [
        (["a"], False, "a", True),
        (["a"], False, "b", False),
        (["a"], False, "", False),
        ([], True, "", True),
        ([], True, "a", False),
    ],
)
def test_a_rule_holds_for_the_namespaces_it_names_and_the_cluster_only_where_it_says_so(
    namespaces: list[str], cluster: bool, namespace: str, matches: bool
) -> None:
    only = schemas([schema("x", 1, pods_in(namespaces, cluster))])
    assert (first_match(only, RequestAttributes("u", (), "list", "", "pods", "", namespace)) is not None) is matches


def test_a_rule_for_a_resource_does_not_cover_its_subresources() -> None:
    only = schemas([schema("x", 1, pods_in(["*"]))])
    assert first_match(only, RequestAttributes("u", (), "patch", "", "pods", "resize", "a")) is None


@pytest.mark.parametrize(
    ("pattern", "matches"), [("/a/*", True), ("/a", True), ("/a/b", True), ("*", True), ("/", True), ("/a/bc", False)]
)
def test_a_path_covers_what_is_below_it_with_or_without_a_star(pattern: str, matches: bool) -> None:
    rule = {**ALL_USERS, "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": [pattern]}]}
    assert (
        first_match(schemas([schema("x", 1, rule)]), RequestAttributes("u", (), "get", path="/a/b")) is not None
    ) is matches
