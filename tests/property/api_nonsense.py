"""Requests that are almost valid: objects changed at random places, damaged texts, odd paths, queries and headers.

All choices come from one `random.Random` provided by hypothesis, so that it can shrink a failing example.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

import yaml
from tests.support.servers.examples import EXAMPLES, Example

JSON_PATCH, MERGE, STRATEGIC, APPLY = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
PATCHES = (JSON_PATCH, MERGE, STRATEGIC, APPLY)
MEDIA = (
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "a/b;c=",
    "*/*",
)


EVERY_MEDIA = (*MEDIA, *PATCHES)


def nested(depth: int, inner: Any = 1) -> Any:
    for _ in range(depth):
        inner = {"a": [inner]}
    return inner


JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, -(2**31) - 1, 2**63, 2**64, 10**30, 1.5, -0.0, 1e300),
    *("", " ", "a", "A" * 300, "\x00", "é", "\ud800", "a/b", "../..", "-", ".", "a.b", "x", "default", "%", "$patch"),
    *("1Gi", "1e400", "1e-400", "-5", "0", "NaN", "100m", "1.5.5", "9999999999999999999999", "2026-13-01T00:00:00Z"),
    *("2026-01-01T00:00:00Z", "Always", "In", "=", "a=b", "!", "10.0.0.0/33", "::1", "*", "0 0 31 2 *"),
    *([], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"$patch": "delete"}, {"$patch": 5}, {"$retainKeys": ["a"]}),
    *(["a", "a"], [1, "a", None], {"a": {"a": {}}}, nested(60)),
)
WORDS = (
    *("metadata", "spec", "status", "name", "namespace", "labels", "finalizers", "ownerReferences", "managedFields"),
    *("resourceVersion", "uid", "generation", "deletionTimestamp", "creationTimestamp", "generateName", "bogus"),
    *("$patch", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "containers", "resources"),
    *("kind", "apiVersion", "conditions", "capacity", "ephemeralContainers", "replicas", "target", "deleteOptions"),
)


def junk(random: Random) -> Any:
    return copy.deepcopy(random.choice(JUNK))


def bend(random: Random, value: Any) -> Any:
    """The value with one place changed."""
    if not isinstance(value, (dict, list)) or not value or random.random() < 0.12:
        return _replaced(random, value)
    value = value.copy()
    step = random.random()
    if isinstance(value, dict):
        key = random.choice(list(value))
        if step < 0.05:
            del value[key]
        elif step < 0.12:
            value[random.choice(WORDS)] = junk(random)
        else:
            value[key] = bend(random, value[key])
        return value
    at = random.randrange(len(value))
    if step < 0.08:
        value.insert(at, copy.deepcopy(value[at]))
    elif step < 0.14:
        value.insert(at, junk(random))
    else:
        value[at] = bend(random, value[at])
    return value


def _replaced(random: Random, value: Any) -> Any:
    step = random.random()
    if step < 0.1:
        return [value]
    return {"a": value} if step < 0.2 else junk(random)


def bent(random: Random, body: Any) -> Any:
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        body = bend(random, body)
    return body


def text(random: Random, value: Any) -> bytes:
    """The value as JSON, sometimes damaged as text."""
    data = json.dumps(value).encode()
    if random.random() < 0.8:
        return data
    return random.choice(_DAMAGES)(random, data)


_DAMAGES = (
    lambda random, data: data[: random.randrange(len(data) + 1)],
    lambda random, data: data + random.choice((b"x", b"{}", b"\n\n", b"]", b"\x00")),
    lambda random, data: data.replace(b'"x"', b"NaN", 1),
    lambda random, data: data.replace(b'"x"', b"1e999999", 1),
    lambda random, data: data.replace(b'"x"', b"1" * 5000, 1),
    lambda random, data: data.replace(b'"x"', b'"\xff\xfe"', 1),
    lambda random, data: data.replace(b'"metadata"', b'"metadata": {"name": "y"}, "metadata"', 1),
    lambda random, data: data.replace(b'"spec"', b'"Spec"', 1),
    lambda random, data: data.replace(b'"spec"', b'"spec": 5, "spec"', 1),
    lambda random, data: b"\xef\xbb\xbf" + data,
    lambda random, data: b"[" * random.choice((10, 20_000)) + data,
    lambda random, data: b'{"metadata":' * 20_000,
    lambda random, data: b"",
    lambda random, data: b"null",
    lambda random, data: bytes(random.randrange(256) for _ in range(20)),
)


def as_yaml(random: Random, value: Any) -> bytes:
    if random.random() < 0.3:
        return random.choice(_YAMLS)
    return yaml.dump(json.loads(json.dumps(value)), allow_unicode=random.random() < 0.5).encode(errors="replace")


_YAMLS = (
    b"a: &a [x]\nb: *a",
    b"a: &a {b: *a}",
    b"*x",
    b"- - - a\n - b",
    b"!!python/object:os.system x",
    b"? {a: b}\n: c",
    b"1: 2\ntrue: 3\n~: 4",
    b"metadata: {name: x}\nmetadata: {name: y}",
    b"kind: ConfigMap\n---\nkind: Pod",
    b"a: 2001-01-01\nb: 0x1F\nc: .nan\nd: .inf\ne: !!binary AAA=",
    b"\t: a",
    b"%YAML 9.9\n---\na",
    b"a: " + b"[" * 5000,
    b"metadata: {name: x, labels: {a: yes}}\ndata: {a: 1}",
    b"\xff\xfe",
    b"",
)


def protobuf(random: Random, value: Any) -> bytes:
    data = bytes(random.randrange(256) for _ in range(random.randrange(40)))
    return random.choice((b"k8s\x00", b"", b"k8s\x00\x0a\x00\x12\x04")) + data


def json_patch(random: Random, body: Any) -> Any:
    if random.random() < 0.15:
        return junk(random)
    return [_operation(random, body) for _ in range(random.randrange(4))]


def _operation(random: Random, body: Any) -> Any:
    step: dict[str, Any] = {"op": random.choice(("add", "remove", "replace", "move", "copy", "test"))}
    step["path"], step["value"] = pointer(random, body), junk(random)
    if step["op"] in ("move", "copy"):
        step["from"] = pointer(random, body)
    return bend(random, step) if random.random() < 0.2 else step


def pointer(random: Random, body: Any) -> str:
    path, at = "", body
    while isinstance(at, (dict, list)) and at and random.random() < 0.8:
        key = random.choice(list(at)) if isinstance(at, dict) else random.randrange(len(at))
        at = at[key]
        path += "/" + str(key).replace("~", "~0").replace("/", "~1")
    end = random.choice(("", "", "", "/-", "/0", "/-1", "/99999999999", "/01", "/a", "/~2", "/metadata/uid", "x"))
    return path + end


SUBRESOURCES = {
    "pods": ("status", "resize", "ephemeralcontainers", "binding", "eviction", "log", "exec"),
    "deployments": ("status", "scale"),
    "replicasets": ("status", "scale"),
    "statefulsets": ("status", "scale"),
    "things": ("status", "scale"),
    "serviceaccounts": ("token",),
    "namespaces": ("status", "finalize"),
    "certificatesigningrequests": ("status", "approval"),
    "configmaps": ("bogus",),
}
BODIES: dict[str, Any] = {
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"}, "spec": {"replicas": 3}},
    "binding": {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "x"},
        "target": {"kind": "Node", "name": "x"},
    },
    "eviction": {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "x"},
        "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "x"}, "dryRun": ["All"]},
    },
    "token": {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 600,
            "boundObjectRef": {"kind": "Pod", "name": "x", "uid": "u"},
        },
    },
}


def subresource(random: Random, example: Example) -> str:
    names = SUBRESOURCES.get(example.path.rsplit("/", 1)[1], ("status",))
    return random.choice(names) if random.random() < 0.35 else ""


QUERIES: dict[str, tuple[str, ...]] = {
    "labelSelector": ("a=b", "a in (b", "!", "a,,b", "a=b=c", "x in ()", "é", "a" * 80, "a>b", "a>5"),
    "fieldSelector": ("metadata.name=x", "bogus=1", "a", "metadata.name!=x,metadata.namespace=default", "=", "a\\"),
    "limit": ("1", "0", "-1", "x", "99999999999999999999"),
    "continue": ("x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ4In0", "e30", "bnVsbA", "W10", "é"),
    "resourceVersion": ("0", "1", "abc", "-1", "18446744073709551616", "", "1.5", "٣"),
    "resourceVersionMatch": ("Exact", "NotOlderThan", "x"),
    "watch": ("true", "1", "x", "false"),
    "timeoutSeconds": ("0", "1", "-1", "x"),
    "sendInitialEvents": ("true", "x", ""),
    "dryRun": ("All", "x", ""),
    "fieldManager": ("m", "\x00", "a" * 200, ""),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "force": ("true", "x"),
    "gracePeriodSeconds": ("0", "-5", "x", "99999999999999999999"),
    "propagationPolicy": ("Foreground", "Orphan", "x"),
    "orphanDependents": ("true", "x"),
    "pretty": ("true", "x"),
    "includeObject": ("None", "x"),
}
SHAPES = (
    *(
        "",
        "",
        "application/json",
        "application/yaml",
        "text/html",
        "*/*;q=x",
        ";;",
        "application/json;as=Bogus;v=v1;g=x",
    ),
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)
STRANGERS = ("system:node:x", "system:serviceaccount:default:x", "u", "", "system:anonymous", "\x00", "é")


@dataclass(slots=True)
class Asked:
    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def query(random: Random, *, most: int = 3) -> dict[str, list[str]]:
    names = random.sample(list(QUERIES), random.randrange(most + 1))
    return {name: [random.choice(QUERIES[name]) for _ in range(random.choice((1, 1, 1, 2)))] for name in names}


def headers(random: Random) -> dict[str, str]:
    made = {"accept": random.choice(SHAPES)} if random.random() < 0.4 else {}
    if random.random() < 0.1:
        made["impersonate-user"] = random.choice(STRANGERS)
        if random.random() < 0.5:
            made["impersonate-group"] = random.choice(("system:masters", "a,b", "", "system:nodes"))
        if random.random() < 0.2:
            made["impersonate-extra-%zz"] = "x"
            made["impersonate-uid"] = "1"
    return made


def written(random: Random) -> Asked:
    """A write of an object that is almost valid."""
    example = random.choice(EXAMPLES)
    asked = Asked("POST", example.path, {}, headers(random))
    if random.random() < 0.3:
        asked.query = query(random, most=2)
    asked.method = random.choice(("POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"))
    below = subresource(random, example)
    if asked.method != "POST" or below:
        asked.path += f"/{example.name}/{below}".rstrip("/")
    body = bent(random, BODIES.get(below, example.body))
    media = random.choice(MEDIA) if random.random() < 0.3 else "application/json"
    if asked.method == "PATCH":
        media, body = _patch(random, body, asked)
    elif asked.method == "DELETE":
        body = bend(random, {"gracePeriodSeconds": 0, "preconditions": {"uid": "x", "resourceVersion": "1"}})
    asked.headers["content-type"] = media
    write = {"application/yaml": as_yaml, "application/vnd.kubernetes.protobuf": protobuf}.get(media, text)
    asked.body = write(random, body)
    if not example.harmless and asked.method != "DELETE":
        asked.query["dryRun"] = ["All"]
    return asked


def _patch(random: Random, body: Any, asked: Asked) -> tuple[str, Any]:
    media = random.choice(PATCHES)
    if media == APPLY:
        asked.query.setdefault("fieldManager", ["m"])
    if media == JSON_PATCH:
        return media, json_patch(random, body)
    if random.random() < 0.5:
        kept = random.sample(list(body), random.randrange(len(body) + 1)) if isinstance(body, dict) else ()
        body = {key: body[key] for key in kept}
    return media, body


def read(random: Random) -> Asked:
    example = random.choice(EXAMPLES)
    path = example.path
    if random.random() < 0.4:
        path += f"/{example.name}/{subresource(random, example)}".rstrip("/")
    asked = Asked(random.choice(("GET", "GET", "GET", "HEAD", "DELETE")), path, query(random), headers(random))
    if asked.method == "DELETE":
        asked.query["dryRun"] = ["All"]
    return asked


_PARTS = (
    *("api", "apis", "v1", "apps", "namespaces", "default", "pods", "x", "status", "watch", "proxy", "", "nodes", ".."),
    *("%2f", "é", "\x00", "openapi", "v2", "v3", "healthz", "readyz", "log", "version", "metrics", "a" * 300, "*"),
)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FOO", "get")


def lost(random: Random) -> Asked:
    """A request to an unlikely path."""
    path = "/" + "/".join(random.choice(_PARTS) for _ in range(random.randrange(8)))
    method = random.choice(_METHODS)
    body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
    return Asked(method, path, query(random), headers(random), body)
