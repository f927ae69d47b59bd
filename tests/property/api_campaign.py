"""Generates a campaign of requests from the server's own OpenAPI document: every operation, body, patch and parameter.

A body begins as an object of the type that the document names, and is then made deep, wide, long, ill-typed or
self-expanding. All choices follow from a seed. Run as a program, it makes a campaign of any length:

    python tests/property/api_campaign.py --requests 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml
from tests.support.servers.examples import EXAMPLES

from podfit.api import protobuf
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.apiserver.storage.events import PREFIX
from podfit.store.memory import MemoryStore

PATCHES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
KNOWN_5XX = (
    *("strconv.ParseUint", "failed to create typed patch object", "failed to create manager for existing fields"),
    *("unknown patch type", "merge key", "list element types are not identical", "doesn't match", "target."),
    *("resourceVersion should not be set", "more than one PodDisruptionBudget", "cannot yet be specified"),
    *("unable to find api field in struct", "error trying to reach service", "no endpoints available for service"),
    *(
        "failed to convert new object",
        "failed calling webhook",
        "conversion webhook for",
        "cannot merge lists without merge key",
    ),
)
"""Requests that Kubernetes itself answers with a 5xx."""
_TEXTS = (
    *("", "a", "x", "default", "é", "\x00", "\ud800", "a/b", "../..", "A" * 300, "-", "$(a)", "[[" * 50, "1Gi", "-5"),
    *("1e400", "1" * 5000, "2026-01-01T00:00:00Z", "10.0.0.0/8", "::1", "Always", "In", "*", "0-2000000000", "a=b"),
    *("{" * 2000, "^(a+)+$", "self.all(x, x.all(y, true))", "x" * 2000, "true", "null"),
)
LONGEST = 3 << 20
_NUMBERS = (0, 1, -1, 5, 443, 65536, 2**31 - 1, 2**31, -(2**63), 2**63, 2**64, 10**30, 1.5, 1e300, -0.0)


@dataclass(slots=True)
class Operation:
    method: str
    path: str
    body: str
    """The name of the body's definition; "" for none."""
    query: tuple[str, ...]


@dataclass(slots=True)
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Maker:
    """Generates requests from an OpenAPI document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.definitions: dict[str, Any] = document["definitions"]
        self.operations = list(_operations(document))
        self.names = sorted({example.name for example in EXAMPLES})
        self.name_at = {example.path.rpartition("/")[2]: example.name for example in EXAMPLES}
        """Of the example of each resource."""
        self.examples = {example.body["kind"]: example.body for example in EXAMPLES}

    def request(self, random: Random) -> Asked:
        operation = random.choice(self.operations)
        asked = Asked(operation.method, self._path(random, operation.path), {}, {}, b"")
        for name in operation.query:
            if random.random() < 0.12:
                asked.query[name] = [_parameter(random, name)]
        if random.random() < 0.15:
            asked.headers["accept"] = random.choice(_ACCEPTS)
        if random.random() < 0.05:
            asked.headers["user-agent"] = random.choice(("\udcff", "a/b", "x" * 5000, "curl/7", "é", " "))
        if operation.method == "PATCH":
            self._patch(random, operation, asked)
        elif operation.body or random.random() < 0.05:
            self._body(random, operation, asked)
        if random.random() < 0.01:
            asked.method = random.choice(("CONNECT", "TRACE", "OPTIONS", "FOO", "HEAD"))
        return asked

    def _path(self, random: Random, path: str) -> str:
        namespace = "default" if random.random() < 0.9 else random.choice(("x", "", "kube-system"))
        made = path.replace("{namespace}", namespace).replace("{path}", "a/b")
        resource = path.partition("/{name}")[0].rpartition("/")[2]
        name, step = self.name_at.get(resource, "x"), random.random()
        if step < 0.15:
            name = random.choice(self.names) if step < 0.1 else _spelled(random, 200)
        return made.replace("{name}", name)

    def _body(self, random: Random, operation: Operation, asked: Asked) -> None:
        value = self.damaged(random, self.whole(random, operation.body))
        asked.headers["content-type"], asked.body = _written(random, value)

    def _patch(self, random: Random, operation: Operation, asked: Asked) -> None:
        media = random.choice(PATCHES)
        asked.headers["content-type"] = media
        if media == PATCHES[0]:
            asked.body = _dumped(_json_patch(random, lambda: self.damaged(random, self._fragment(random, operation))))
            return
        value = self.damaged(random, self.whole(random, operation.body))
        if isinstance(value, dict) and value and random.random() < 0.5:
            kept = random.sample(sorted(value, key=str), random.randrange(len(value)) + 1)
            value = {key: value[key] for key in kept}
        if media == PATCHES[3]:
            asked.query.setdefault("fieldManager", ["m"])
            asked.headers["content-type"], asked.body = media, _written(random, value, yaml_too=True)[1]
        else:
            asked.body = _dumped(value)

    def whole(self, random: Random, definition: str) -> Any:
        """An object of a definition: a working example, or one derived from its schema alone."""
        kind = definition.rpartition(".")[2]
        if kind in self.examples and random.random() < 0.75:
            return json.loads(json.dumps(self.examples[kind]))
        return self.of(random, {"$ref": f"#/definitions/{definition}"} if definition else {}, 0)

    def _fragment(self, random: Random, operation: Operation) -> Any:
        value = self.whole(random, operation.body)
        while isinstance(value, (dict, list)) and value and random.random() < 0.7:
            value = random.choice(list(value.values()) if isinstance(value, dict) else value)
        return value

    def of(self, random: Random, schema: dict[str, Any], depth: int) -> Any:
        if "$ref" in schema:
            schema = self.definitions.get(schema["$ref"].rpartition("/")[2], {})
        kind = schema.get("type")
        if "properties" in schema:
            chance = 0.9 if depth == 0 else 0.35 / (1 + depth / 3)
            required = schema.get("required") or ()
            wanted = [name for name in schema["properties"] if name in required or random.random() < chance]
            return (
                {name: self.of(random, schema["properties"][name], depth + 1) for name in wanted} if depth < 9 else {}
            )
        if kind == "array":
            count = random.choice((0, 1, 1, 2)) if depth < 9 else 0
            return [self.of(random, schema.get("items") or {}, depth + 1) for _ in range(count)]
        if isinstance(schema.get("additionalProperties"), dict):
            return {_text(random)[:60]: self.of(random, schema["additionalProperties"], depth + 1) for _ in range(2)}
        if kind in ("integer", "number"):
            return random.choice(_NUMBERS)
        return random.random() < 0.5 if kind == "boolean" else _text(random) if kind == "string" else self._junk(random)

    def _junk(self, random: Random) -> Any:
        return random.choice((None, True, random.choice(_NUMBERS), _text(random), [], {}, [None], {"a": 1}, [[]]))

    def damaged(self, random: Random, value: Any) -> Any:
        """The value with a few places changed, occasionally to something large. Large values do not multiply."""
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            value = self._bent(random, value, random.choice(_SMALL))
        return self._bent(random, value, random.choice(_LARGE)) if random.random() < 0.2 else value

    def _bent(self, random: Random, value: Any, damage: Any) -> Any:
        """The value with one place damaged."""
        if isinstance(value, dict) and value and random.random() < 0.85:
            key = random.choice(sorted(value, key=str))
            return {**value, key: self._bent(random, value[key], damage)}
        if isinstance(value, list) and value and random.random() < 0.85:
            at = random.randrange(len(value))
            return [*value[:at], self._bent(random, value[at], damage), *value[at + 1 :]]
        return damage(self, random, value)


def nested(random: Random, value: Any) -> Any:
    depth = random.choice((3, 5, 40, 300, 950, 1200, 12_000))
    for _ in range(depth):
        value = [value] if depth % 2 else {"a": value}
    return value


_SMALL: tuple[Any, ...] = (
    *[lambda maker, random, value: maker._junk(random)] * 6,
    lambda maker, random, value: [value] * random.choice((2, 3)),
    lambda maker, random, value: {"a": value},
    lambda maker, random, value: {"$patch": random.choice(("delete", "replace", "merge", 5, "x"))},
    lambda maker, random, value: {"$setElementOrder/containers": value, "$retainKeys": value},
)
_LARGE: tuple[Any, ...] = (
    lambda maker, random, value: nested(random, value),
    lambda maker, random, value: [value] * random.choice((20, 200)),
    lambda maker, random, value: {f"k{at}": value for at in range(random.choice((20, 200)))},
    lambda maker, random, value: [maker._junk(random)] * 20_000,
    lambda maker, random, value: "x" * random.choice((64, 254, 10_000, 300_000)),
    lambda maker, random, value: "9" * random.choice((20, 400, 4400, 20_000)),
)
_ACCEPTS = (
    *("application/json", "application/yaml", "text/html", "*/*;q=x", ";;", "application/vnd.kubernetes.protobuf"),
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
)


def _text(random: Random) -> str:
    return random.choice(_TEXTS)


def _spelled(random: Random, longest: int) -> str:
    """A text as it can appear in a URL."""
    return _text(random)[:longest].encode(errors="replace").decode()


def _parameter(random: Random, name: str) -> str:
    if random.random() < 0.3:
        return _spelled(random, 5000)
    known = {
        "labelSelector": ("a=b", "a in (b,c)", "!a", "a>5", ",".join(["a!=b"] * 300), "a in (" + "b," * 900 + "c)"),
        "fieldSelector": ("metadata.name=x", "spec.nodeName=x", ",".join(["metadata.name!=x"] * 300), "bogus=1"),
        "fieldValidation": ("Strict", "Warn", "Ignore"),
        "dryRun": ("All", "All", "x"),
        "watch": ("true",),
        "timeoutSeconds": ("0", "1"),
        "propagationPolicy": ("Orphan", "Foreground", "Background"),
    }
    return random.choice(known.get(name, ("1", "0", "true", "-1", "99999999999999999999", "x", "9" * 4400)))


def _dumped(value: Any) -> bytes:
    """The value as JSON, truncated at the maximum length of a body."""
    try:
        return json.dumps(value).encode()[:LONGEST]
    except RecursionError:
        return b"[" * 12_000


def _written(random: Random, value: Any, *, yaml_too: bool = False) -> tuple[str, bytes]:
    step = random.random()
    if step < (0.5 if yaml_too else 0.12):
        return "application/yaml", _yaml(random, value)
    if step < 0.16 and not yaml_too:
        noise = bytes(random.randrange(256) for _ in range(random.randrange(60)))
        return "application/vnd.kubernetes.protobuf", b"k8s\x00" + random.choice((b"", b"\n\x04\n\x02v1")) + noise
    data = _dumped(value)
    if random.random() < 0.06:
        data = data[: random.randrange(len(data) + 1)] + random.choice((b"", b"]", b"\xff", b'"'))
    return "application/json", data


def _yaml(random: Random, value: Any) -> bytes:
    if random.random() < 0.3:
        return random.choice(BOMBS)
    data = _dumped(value)
    if len(data) > 3000:
        return b"# JSON is YAML\n" + data[:50_000]
    return yaml.dump(json.loads(data), default_flow_style=random.random() < 0.5).encode(errors="replace")


def _bombs() -> list[bytes]:
    lists = b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    merges = b"a0: &a0 {x: 1}\n"
    for at in range(1, 12):
        lists += b"a%d: &a%d [%s]\n" % (at, at, b",".join([b"*a%d" % (at - 1)] * 9))
        merges += b"a%d: &a%d {<<: [*a%d, *a%d]}\n" % (at, at, at - 1, at - 1)
    text = b"a: &a " + b"x" * 100_000 + b"\nb: [" + b",".join([b"*a"] * 900) + b"]"
    return [lists, merges, text, b"[" * 50_000, b"{a: " * 20_000, b"- " * 20_000, b"a: &a {b: *a}", b"? " * 9_000]


BOMBS = _bombs()


def _json_patch(random: Random, value: Any) -> Any:
    step = random.random()
    if step < 0.04:
        return [{"op": "copy", "from": "/metadata", "path": "/metadata/a"}] * random.choice((5, 40, 10_001))
    if step < 0.08:
        return [{"op": "add", "path": "/metadata/finalizers/0", "value": "a/b"}] * random.choice((5, 3000))
    if step < 0.12:
        return value()
    return [_operation(random, value) for _ in range(random.randrange(5))]


def _operation(random: Random, value: Any) -> Any:
    made = {"op": random.choice(("add", "remove", "replace", "move", "copy", "test", "x"))}
    made |= {"path": random.choice(_POINTERS), "from": random.choice(_POINTERS), "value": value()}
    return {key: item for key, item in made.items() if random.random() < 0.95}


_POINTERS = (
    *("", "/", "/metadata", "/metadata/labels", "/metadata/name", "/metadata/annotations/a", "/spec", "/spec/-"),
    *("/spec/containers/0", "/spec/containers/-", "/status", "/data/a", "/kind", "/apiVersion", "/spec/replicas"),
    *("/metadata/finalizers/0", "/metadata/managedFields", "/metadata/managedFields/0/fieldsV1", "/a/b/c", "/a~2"),
    *("/spec/versions/0/schema/openAPIV3Schema", "/rules/0/verbs", "/webhooks/0", "/spec/containers/99999999999"),
)


def _operations(document: dict[str, Any]) -> Any:
    for path, item in sorted(document["paths"].items()):
        shared = item.get("parameters") or []
        for method, operation in sorted(item.items()):
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            rows = [*shared, *(operation.get("parameters") or [])]
            body = next((row["schema"].get("$ref", "") for row in rows if row.get("in") == "body"), "")
            query = tuple(row["name"] for row in rows if row.get("in") == "query")
            if method == "patch":
                body = next((answer["schema"].get("$ref", "") for answer in operation["responses"].values()), body)
            yield Operation(method.upper(), path, body.rpartition("/")[2], query)


# --- running ---------------------------------------------------------------------------------------------------------


class Tracebacks(logging.Handler):
    """Collects the log records with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))


@dataclass
class Outcome:
    requests: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    longest: str = ""
    grown_mb: int = 0


class Campaign:
    """One server in this process. Objects that the requests changed are restored periodically."""

    every = 500

    def __init__(self, seed: int) -> None:
        self.random, self.outcome = Random(seed), Outcome()
        self.tracebacks = Tracebacks()

    async def run(self, requests: int) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            self.store = MemoryStore()
            self.server = ApiServer(Config(self.store, Path(folder), tls=False))
            await self.server.start()
            logging.getLogger().addHandler(self.tracebacks)
            try:
                await self._prepare()
                await self._requests(requests)
            finally:
                logging.getLogger().removeHandler(self.tracebacks)
                await self.server.stop()
        return self.outcome

    async def _prepare(self) -> None:
        await self._post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        for example in sorted(EXAMPLES, key=lambda each: "/things" in each.path):
            await self._post(example.path, example.body)
            await self._quiet()
        document = await self.server.handle(Request("GET", "/openapi/v2", {}, {}, b"", ADMIN))
        self.maker = Maker(json.loads(document.body))
        self.first = {record.key: record.value for record in self.store.scan(PREFIX)}

    async def _post(self, path: str, body: Any) -> None:
        answer = await self.server.handle(Request("POST", path, {}, {}, json.dumps(body).encode(), ADMIN))
        assert answer.status == 201, (path, answer.body)

    async def _quiet(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def _requests(self, requests: int) -> None:
        before = memory_mb()
        for number in range(requests):
            asked = self.maker.request(self.random)
            await self._one(asked)
            if number % self.every == self.every - 1:
                await self._put_back()
                if number < 20_000:
                    before = max(before, memory_mb())
        await self._put_back()
        self.outcome.grown_mb = memory_mb() - before

    async def _one(self, asked: Asked) -> None:
        outcome, began = self.outcome, time.perf_counter()
        request = Request(asked.method, asked.path, asked.query, dict(asked.headers), asked.body, ADMIN)
        answer = await self.server.handle(request)
        if answer.stream is not None:
            try:
                await asyncio.wait_for(anext(answer.stream), 0.001)
            except (StopAsyncIteration, TimeoutError):
                pass
            await answer.stream.aclose()  # type: ignore[attr-defined]
        took = time.perf_counter() - began
        outcome.requests += 1
        outcome.codes[answer.status] += 1
        if took > outcome.longest_s:
            outcome.longest_s, outcome.longest = took, shown(asked)
        self._check(asked, answer)

    def _check(self, asked: Asked, answer: Response) -> None:
        problem = wrong_with(answer)
        if self.tracebacks.found:
            problem = problem or "logged a traceback"
            problem += "\n" + "\n".join(self.tracebacks.found)
            self.tracebacks.found.clear()
        if problem:
            self.outcome.problems.append(f"{shown(asked)}\n{problem}")

    async def _put_back(self) -> None:
        await self._quiet()
        if problem := self.server.hub.problem():
            self.outcome.problems.append(problem)
        for record in self.store.scan(PREFIX):
            if record.key not in self.first:
                await self.store.delete(record.key)
        for key, value in self.first.items():
            found = self.store.get(key)
            if found is None or found.value != value:
                await self.store.put(key, value)
        await self._quiet()
        await self.store.compact(self.store.revision)
        async with asyncio.timeout(30):
            while self.server.hub.seen < self.store.revision:
                await asyncio.sleep(0)


def wrong_with(answer: Response) -> str:
    """Why the response is not one that Kubernetes gives; "" if it may be one."""
    if answer.status < 500:
        return ""
    message = message_of(answer)
    return "" if any(part in message for part in KNOWN_5XX) else f"{answer.status}: {message}"


def message_of(answer: Response) -> str:
    """In the encoding that the request accepts."""
    if answer.content_type == protobuf.MEDIA_TYPE:
        return str(json.loads(protobuf.to_json(answer.body)).get("message", ""))
    return str(json.loads(answer.body).get("message", "")) if answer.body[:1] == b"{" else answer.body.decode()


def shown(asked: Asked) -> str:
    body = asked.body if len(asked.body) < 3000 else asked.body[:2000] + b" ... " + asked.body[-300:]
    return f"{asked.method} {asked.path[:300]} {asked.query} {asked.headers} {body!r}"[:6000]


def memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--requests", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--problems", type=int, default=10)
    given = options.parse_args()
    logging.basicConfig(level=logging.ERROR, handlers=[logging.NullHandler()])
    began = time.perf_counter()
    outcome = asyncio.run(Campaign(given.seed).run(given.requests))
    took = time.perf_counter() - began
    print(f"{outcome.requests} requests in {took:.0f} s ({outcome.requests / took:.0f}/s)")
    print(f"answers: {dict(sorted(outcome.codes.items()))}")
    print(f"grown by {outcome.grown_mb} MB; longest {outcome.longest_s:.2f} s: {outcome.longest[:300]}")
    for problem in outcome.problems[: given.problems]:
        print("\n" + problem)
    print(f"{len(outcome.problems)} problems")
    sys.exit(bool(outcome.problems))


if __name__ == "__main__":
    main()
