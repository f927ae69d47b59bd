"""Paginated lists, metadata-only lists, and creates of existing objects get the responses of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

SPACE = "/api/v1/namespaces/default"
PARTIAL = "application/json;as=PartialObjectMetadataList;v={};g=meta.k8s.io"


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def five_config_maps(ask: Asker) -> None:
    for number in range(5):
        code, _ = await ask("POST", f"{SPACE}/configmaps", config_map(name=f"c{number}"))
        assert code == 201


async def test_every_page_but_the_last_says_how_many_items_remain(ask: Asker) -> None:
    await five_config_maps(ask)
    remaining, token = [], {}
    for _ in range(3):
        _, page = await ask("GET", f"{SPACE}/configmaps", limit="2", **token)
        remaining.append(page["metadata"].get("remainingItemCount"))
        token = {"continue": page["metadata"].get("continue", "")}
    assert remaining == [3, 1, None]


async def test_the_items_that_remain_are_counted_at_the_revision_of_the_first_page(ask: Asker) -> None:
    await five_config_maps(ask)
    _, page = await ask("GET", f"{SPACE}/configmaps", limit="2")
    await ask("DELETE", f"{SPACE}/configmaps/c4")
    await ask("POST", f"{SPACE}/configmaps", config_map(name="d"))
    await ask("POST", f"{SPACE}/configmaps", config_map(name="e"))
    _, second = await ask("GET", f"{SPACE}/configmaps", limit="2", **{"continue": page["metadata"]["continue"]})
    assert second["metadata"]["remainingItemCount"] == 1


async def test_a_list_from_revision_0_is_not_paged(ask: Asker) -> None:
    await five_config_maps(ask)
    _, page = await ask("GET", f"{SPACE}/configmaps", limit="2", resourceVersion="0")
    assert len(page["items"]) == 5
    assert page["metadata"].keys() == {"resourceVersion"}


async def test_a_broken_token_is_reported_before_the_revision_given_with_it(ask: Asker) -> None:
    code, status = await ask("GET", f"{SPACE}/configmaps", resourceVersion="5", **{"continue": "abc"})
    assert (code, status["message"]) == (
        400,
        "invalid continue token: continue key is not valid: invalid character 'i' looking for beginning of value",
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_each_item_of_a_metadata_list_names_its_kind(ask: Asker, version: str) -> None:
    await ask("POST", f"{SPACE}/configmaps", config_map(name="c"))
    _, found = await ask("GET", f"{SPACE}/configmaps", accept=PARTIAL.format(version))
    kinds = [(item["kind"], item["apiVersion"]) for item in found["items"]]
    assert kinds == [("PartialObjectMetadata", f"meta.k8s.io/{version}")]


async def test_an_empty_metadata_list_has_null_for_items(ask: Asker) -> None:
    _, found = await ask("GET", f"{SPACE}/configmaps", accept=PARTIAL.format("v1"))
    assert found["items"] is None


@pytest.mark.parametrize("query", [{}, {"dryRun": "All"}], ids=["written", "dry run"])
async def test_a_create_is_refused_with_the_reason_that_its_predecessor_is_being_deleted(
    ask: Asker, query: dict[str, str]
) -> None:
    held = config_map(name="c", finalizers=["example.com/held"])
    await ask("POST", f"{SPACE}/configmaps", held)
    await ask("DELETE", f"{SPACE}/configmaps/c")
    code, status = await ask("POST", f"{SPACE}/configmaps", config_map(name="c"), **query)
    assert (code, status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'object is being deleted: configmaps "c" already exists'


async def test_a_name_given_beside_generate_name_is_never_replaced_by_a_generated_one(ask: Asker) -> None:
    given = config_map(name="c", generateName="c")
    assert (await ask("POST", f"{SPACE}/configmaps", given))[0] == 201
    code, status = await ask("POST", f"{SPACE}/configmaps", given)
    assert (code, status["details"]["retryAfterSeconds"]) == (409, 1)
    assert status["message"] == (
        'configmaps "c" already exists, the server was not able to generate a unique name for the object'
    )
