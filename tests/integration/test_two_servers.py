"""Two API servers in one process share no definitions of custom resources."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from podfit.testing.asking import Asker, expect_code, serving

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def definition(**properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[tuple[Asker, Asker]]:
    """The first knows things with a size, the second things with a color."""
    async with serving(tmp_path / "first") as first, serving(tmp_path / "second") as second:
        askers = Asker(first), Asker(second)
        for ask, properties in zip(askers, ({"size": {"type": "integer"}}, {"color": {"type": "string"}}), strict=True):
            code, made = await ask("POST", DEFINITIONS, definition(**properties))
            assert code == 201, made
            await expect_code(ask, THINGS, 200)
        yield askers


async def test_each_prunes_by_its_own_definition(servers: tuple[Asker, Asker]) -> None:
    made = [(await ask("POST", THINGS, thing("x", size=3, color="red")))[1]["spec"] for ask in servers]
    assert made == [{"size": 3}, {"color": "red"}]


async def test_a_definition_deleted_on_one_still_holds_on_the_other(servers: tuple[Asker, Asker]) -> None:
    first, second = servers
    await second("DELETE", f"{DEFINITIONS}/things.example.com")
    await expect_code(second, THINGS, 404)
    code, answer = await first("POST", THINGS, thing("x", size="not a number"))
    assert (code, answer["reason"]) == (422, "Invalid")
