"""Resolves arguments (`web-1`, `deploy/web`, `-l app=web`) to pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import BUILT_IN, POD, VPA, Kind, kind_named
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.discovery import discover

_REPLICASET = kind_named("ReplicaSet")
_JOB = kind_named("Job")


class NoSuchTarget(ValueError):
    """No object matches; the message names the query."""


@dataclass(frozen=True)
class Target:
    """A named object and its pods, or all pods that a selector matches."""

    name: str
    kind: Kind
    pods: list[Object]
    owner: Object | None = None


async def find_kind(client: Client, word: str) -> Kind:
    """A kind by any name that kubectl accepts: plural, singular, short, with or without group."""
    name, _, group = word.lower().partition(".")
    for kind in (*BUILT_IN, VPA):
        if _called(kind, name) and group in ("", kind.group):
            return kind
    for kind in await discover(client):
        if _called(kind, name) and group in ("", kind.group):
            return kind
    raise NoSuchTarget(f'the server doesn\'t have a resource type "{word}"')


def _called(kind: Kind, name: str) -> bool:
    return name in (kind.plural, kind.singular, kind.kind.lower(), *kind.short)


async def known_kind(client: Client, word: str) -> Kind | None:
    if "/" in word:
        return None
    try:
        return await find_kind(client, word)
    except NoSuchTarget:
        return None


async def find_targets(
    client: Client, namespace: str, words: list[str], selector: str = "", every: bool = False
) -> list[Target]:
    """`words` are as in kubectl: `NAME…` (pods), `TYPE/NAME…` or `TYPE NAME…`; `every` accepts TYPE alone."""
    if selector:
        if any("/" in word for word in words):
            raise NoSuchTarget("a selector cannot be used together with TYPE/NAME; name the type alone, or no selector")
        kind = await find_kind(client, words[0]) if words else POD
        listed = await client.list(kind, namespace, labelSelector=selector)
        return [
            await _target(client, kind, _named(item, kind))
            for item in listed["items"]
            if kind is not POD or alive(item)
        ]
    if not words:
        raise NoSuchTarget("name a pod, a workload (deploy/web) or a selector (-l app=web)")
    if len(words) == 1 and every and (kind_of_all := await known_kind(client, words[0])) is not None:
        listed = await client.list(kind_of_all, namespace)
        return [await _target(client, kind_of_all, _named(item, kind_of_all)) for item in listed["items"]]
    return [await _target(client, kind, await _get(client, kind, namespace, name))
            for kind, name in await _split(client, namespace, words)]  # fmt: skip


def alive(pod: Object) -> bool:
    """Whether the pod has not ended and is not being deleted. Label queries select only such pods."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


async def _split(client: Client, namespace: str, words: list[str]) -> list[tuple[Kind, str]]:
    if any("/" in word for word in words):
        found = []
        for word in words:
            kind, slash, name = word.partition("/")
            found.append((await find_kind(client, kind), name) if slash else (POD, word))
        return found
    if len(words) > 1:
        try:
            kind_of_all = await find_kind(client, words[0])
            return [(kind_of_all, name) for name in words[1:]]
        except NoSuchTarget:
            # The words are names of several pods, or start with an unknown kind, which is no pod's name either.
            if await client.find(POD, namespace, words[0]) is None:
                raise
    return [(POD, word) for word in words]


async def _get(client: Client, kind: Kind, namespace: str, name: str) -> Object:
    return _named(await client.get(kind, namespace, name), kind)


def _named(obj: Object, kind: Kind) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


async def _target(client: Client, kind: Kind, obj: Object) -> Target:
    name = f"{kind.singular or kind.kind.lower()}/{obj['metadata']['name']}"
    if kind.kind == "Pod" and not kind.group:
        return Target(name, kind, [obj])
    pods = await pods_of(client, kind, obj)
    return Target(name, kind, [_named(pod, POD) for pod in pods], obj)


async def pods_of(client: Client, kind: Kind, obj: Object) -> list[Object]:
    """The pods of a workload: matched by its selector and owned by it, directly or indirectly."""
    if not kind.namespaced:
        raise NoSuchTarget(f"{kind.plural}/{obj['metadata']['name']} is no workload: it has no pods of its own")
    namespace, uid = obj["metadata"]["namespace"], obj["metadata"]["uid"]
    owners = {uid}
    if kind.kind == "Deployment":
        owners |= await _owned(client, _REPLICASET, namespace, uid)
    elif kind.kind == "CronJob":
        owners |= await _owned(client, _JOB, namespace, uid)
        listed = await client.list(POD, namespace)
        return [pod for pod in listed["items"] if _owners(pod) & owners]
    selector = await _selector(client, kind, obj)
    listed = await client.list(POD, namespace, labelSelector=selector)
    known = kind.group in ("", "apps", "batch")
    return [pod for pod in listed["items"] if not known or _owners(pod) & owners]


async def _owned(client: Client, kind: Kind, namespace: str, uid: str) -> set[str]:
    listed = await client.list(kind, namespace)
    return {item["metadata"]["uid"] for item in listed["items"] if uid in _owners(item)}


def _owners(obj: Object) -> set[str]:
    return {
        reference["uid"] for reference in obj["metadata"].get("ownerReferences") or () if reference.get("controller")
    }


async def _selector(client: Client, kind: Kind, obj: Object) -> str:
    selector = (obj.get("spec") or {}).get("selector")
    if isinstance(selector, dict) and selector:
        return selector_text(selector)
    try:
        scale = await client.get(kind, obj["metadata"]["namespace"], obj["metadata"]["name"], "scale")
    except ApiError as error:
        raise NoSuchTarget(
            f"{kind.plural}/{obj['metadata']['name']} has no pods that could be found: {error}"
        ) from error
    found = (scale.get("status") or {}).get("selector")
    if not found:
        raise NoSuchTarget(f"{kind.plural}/{obj['metadata']['name']} does not say which pods are its own")
    return str(found)


def selector_text(selector: dict[str, Any]) -> str:
    """A label selector as a query: `a=b,c in (d,e)`."""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in selector.items())
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        form = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append(form.get(expression["operator"], f"!{key}"))
    return ",".join(parts)
