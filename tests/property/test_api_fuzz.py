"""Every response is one that Kubernetes gives, and a rejected request has changed nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.servers.examples import EXAMPLES

from podfit.api import protobuf
from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.apiserver.storage.events import PREFIX
from podfit.store.memory import MemoryStore


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


nonsense = _load("api_nonsense")

KNOWN_500 = (
    "strconv.ParseUint",
    "failed to create typed patch object",
    "failed to create manager for existing fields",
    "unknown patch type",
    "merge key",
    "list element types are not identical",
    "doesn't match",
    "resourceVersion should not be set",
    "target.",
    "more than one PodDisruptionBudget",
    "cannot yet be specified",
)
"""Requests that Kubernetes itself answers with a 500."""


class Host:
    """One server for all examples. Each example begins with the same objects: those that the previous one
    changed are restored.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store = MemoryStore()
        self.server = ApiServer(Config(self.store, Path(self.folder.name)))
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        await self.server.start()
        account = {"metadata": {"name": "default"}}
        await self.make("/api/v1/namespaces/default/serviceaccounts", account)
        for example in sorted(EXAMPLES, key=lambda each: "/things" in each.path):
            await self.make(example.path, example.body)
            await self.quiet()
        self.first = {record.key: record.value for record in self.store.scan(PREFIX)}

    async def make(self, path: str, body: Any) -> None:
        answer = await self.server.handle(Request("POST", path, {}, {}, json.dumps(body).encode(), ADMIN))
        assert answer.status == 201, (path, answer.body)

    async def quiet(self) -> None:
        """Waits until the consequences of a write have been written, too."""
        for _ in range(20):
            await asyncio.sleep(0)

    def ask(self, asked: Any) -> tuple[Response, bool]:
        """The response, and whether anything was written."""
        return self.loop.run_until_complete(self._ask(asked))

    async def _ask(self, asked: Any) -> tuple[Response, bool]:
        before = self.store.revision
        request = Request(asked.method, asked.path, asked.query, dict(asked.headers), asked.body, ADMIN)
        answer = await self.server.handle(request)
        written = self.store.revision != before
        if answer.stream is not None:
            with contextlib.suppress(StopAsyncIteration, TimeoutError):
                await asyncio.wait_for(anext(answer.stream), 0.01)
            await answer.stream.aclose()  # type: ignore[attr-defined]
        await self.quiet()
        await self._put_back(before)
        return answer, written

    async def _put_back(self, before: int) -> None:
        watch = self.store.watch(PREFIX, before)
        changed = set()
        while (change := watch.next_nowait()) is not None:
            changed.add(change.key)
        watch.close()
        for key in changed:
            if key in self.first:
                await self.store.put(key, self.first[key])
            elif self.store.get(key) is not None:
                await self.store.delete(key)
        await self.quiet()

    def stop(self) -> None:
        self.loop.run_until_complete(self.server.stop())
        self.loop.close()
        self.folder.cleanup()


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.stop()


def sound(asked: Any, answer: Response, written: bool) -> None:
    if answer.status < 400:
        if answer.content_type.startswith("application/json") and answer.body:
            json.loads(answer.body)
        return
    assert not written, "refused, and yet something was written"
    if answer.content_type == protobuf.MEDIA_TYPE:
        status = json.loads(protobuf.to_json(answer.body))
    elif answer.content_type == "application/yaml":
        status = yaml.safe_load(answer.body)
    elif answer.content_type.startswith("application/json"):
        status = json.loads(answer.body)
    else:
        assert answer.status == 404, (answer.status, answer.content_type)
        return
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", answer.status)
    assert answer.status < 500 or any(part in status["message"] for part in KNOWN_500), status["message"]


def fuzz(examples: int) -> settings:
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck))


RANDOMS = st.randoms(note_method_calls=False, use_true_random=False)


@fuzz(1200)
@given(RANDOMS)
def test_objects_and_patches_that_are_almost_right(host: Host, random: Random) -> None:
    asked = nonsense.written(random)
    sound(asked, *host.ask(asked))


@fuzz(300)
@given(RANDOMS)
def test_odd_queries_and_headers(host: Host, random: Random) -> None:
    asked = nonsense.read(random)
    sound(asked, *host.ask(asked))


@fuzz(300)
@given(RANDOMS)
def test_paths_that_hardly_exist(host: Host, random: Random) -> None:
    asked = nonsense.lost(random)
    sound(asked, *host.ask(asked))


@fuzz(300)
@given(st.text(max_size=30), st.sampled_from(sorted(nonsense.QUERIES)), st.sampled_from(["GET", "DELETE", "PATCH"]))
def test_any_text_in_any_parameter(host: Host, text: str, name: str, method: str) -> None:
    body, media = (b"{}", "application/merge-patch+json") if method == "PATCH" else (b"", "")
    path = "/api/v1/namespaces/default/configmaps" + ("" if method == "GET" else "/x")
    asked = nonsense.Asked(method, path, {name: [text]}, {"content-type": media}, body)
    sound(asked, *host.ask(asked))


@fuzz(300)
@given(
    st.binary(max_size=80), st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]), st.sampled_from(nonsense.EVERY_MEDIA)
)
def test_any_bytes_as_a_body(host: Host, raw: bytes, method: str, media: str) -> None:
    path = "/api/v1/namespaces/default/configmaps" + ("" if method == "POST" else "/x")
    asked = nonsense.Asked(method, path, {"fieldManager": ["m"]}, {"content-type": media}, raw)
    sound(asked, *host.ask(asked))


@fuzz(150)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
        max_leaves=20,
    ),
    st.sampled_from(EXAMPLES),
)
def test_any_json_as_any_object(host: Host, value: Any, example: Any) -> None:
    query = {} if example.harmless else {"dryRun": ["All"]}
    asked = nonsense.Asked("POST", example.path, query, {}, json.dumps(value).encode())
    sound(asked, *host.ask(asked))
