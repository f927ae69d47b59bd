"""Validation rules of custom resources on a server: rejected if their estimated cost is too high, cancelled if
the actual cost is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

from podfit.apiserver.request import ADMIN, Request

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_HEAPS = "/apis/example.com/v1/namespaces/default/heaps"
_RULE = "self.all(x, self.all(y, x + y >= 0))"


def _definition(rule: str, **items: Any) -> dict[str, Any]:
    numbers = {
        "type": "array",
        "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule}],
        **items,
    }
    schema = {"type": "object", "properties": {"numbers": numbers}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "heaps", "kind": "Heap"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "heaps.example.com"}, "spec": spec}


def _heap(name: str, numbers: list[int]) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Heap", "metadata": {"name": name}, "numbers": numbers}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


async def _define(ask: Asker, definition: dict[str, Any]) -> None:
    code, made = await ask("POST", _DEFINITIONS, definition)
    assert code == 201, made
    async with asyncio.timeout(10):
        while (await ask("GET", _HEAPS))[0] != 200:
            await asyncio.sleep(0)


async def test_a_rule_that_may_cost_too_much_is_refused(ask: Asker) -> None:
    code, body = await ask("POST", _DEFINITIONS, _definition(_RULE))
    assert code == 422 and "estimated rule cost exceeds budget by factor of more than 100x" in body["message"]


async def test_an_evaluation_that_costs_too_much_ends_and_others_are_answered_meanwhile(ask: Asker) -> None:
    await _define(ask, _definition(_RULE, maxItems=1100))
    code, _ = await ask("POST", _HEAPS, _heap("small", [1, 2, 3]))
    assert code == 201
    big = asyncio.create_task(ask("POST", _HEAPS, _heap("big", list(range(1100)))))
    other = asyncio.create_task(ask("GET", f"{_HEAPS}/small"))
    done, _ = await asyncio.wait({big, other}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {other}, "a short request is answered before the evaluation ends"
    code, body = await big
    assert code == 422 and "operation cancelled: actual cost limit exceeded" in body["message"]


async def test_an_update_that_leaves_an_invalid_value_alone_is_stored_with_a_warning(ask: Asker) -> None:
    await _define(ask, _definition("true"))
    assert (await ask("POST", _HEAPS, _heap("old", [1])))[0] == 201
    tightened = _definition("self.size() > 1")["spec"]["versions"][0]["schema"]
    patch = [{"op": "replace", "path": "/spec/versions/0/schema", "value": tightened}]
    assert (await ask("PATCH", f"{_DEFINITIONS}/heaps.example.com", patch, "application/json-patch+json"))[0] == 200
    body, media = json.dumps({"metadata": {"labels": {"a": "b"}}}).encode(), "application/merge-patch+json"
    request = Request("PATCH", f"{_HEAPS}/old", {}, {"content-type": media}, body, ADMIN)
    async with asyncio.timeout(10):
        while not (answer := await ask.server.handle(request)).headers:
            await asyncio.sleep(0)  # until the server follows the definition
    assert answer.status == 200
    assert answer.headers == [("Warning", '299 - "numbers: Invalid value: failed rule: self.size() > 1"')]
