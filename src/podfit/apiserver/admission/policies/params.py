"""Finds the parameter objects of an admission policy for one binding and one request."""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.apiserver.admission.base import Attributes, Cluster, meta_of
from podfit.apiserver.auth.selectors import selects

FindKind = Callable[[str, str], Kind | None]
_CLUSTER_WIDE = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
_NONE_FOUND = "no params found for policy binding with `Deny` parameterNotFoundAction"


class BadBinding(Exception):
    """The parameters cannot be found; the policy's failure policy applies."""


def params_of(
    policy: Object, binding: Object, attrs: Attributes, cluster: Cluster, find: FindKind
) -> list[Object | None]:
    """The parameter objects, for one evaluation each; a single None if the policy or the binding has no parameters."""
    wanted, reference = policy["spec"].get("paramKind"), binding["spec"].get("paramRef")
    if wanted is None or reference is None:
        return [None]
    kind = find(wanted.get("apiVersion", ""), wanted.get("kind", ""))
    if kind is None:
        raise BadBinding(f"paramKind kind `{_formatted(wanted)}` not known")
    namespace = _namespace(kind, reference, attrs)
    if reference.get("name"):
        param = cluster.get(kind, namespace, reference["name"])
        found = [] if param is None else [param]
    else:
        selector = reference.get("selector") or {}
        rows = cluster.list(kind, namespace)
        found = [row for row in rows if not selector or selects(selector, meta_of(row).get("labels") or {})]
    if not found and reference.get("parameterNotFoundAction") != "Allow":
        raise BadBinding(_NONE_FOUND)
    return [{"apiVersion": kind.api_version, "kind": kind.kind, **row} for row in found]


def _namespace(kind: Kind, reference: Object, attrs: Attributes) -> str:
    given: str = reference.get("namespace") or ""
    if not kind.namespaced:
        if given:
            raise BadBinding("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not given and not attrs.namespace:
        raise BadBinding(_CLUSTER_WIDE)
    return given or attrs.namespace


def _formatted(wanted: Object) -> str:
    group, _, version = wanted.get("apiVersion", "").rpartition("/")
    return f"{group}/{version}, Kind={wanted.get('kind', '')}"
