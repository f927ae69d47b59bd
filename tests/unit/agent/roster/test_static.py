"""Static pods from the node's folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.unit.agent.lab import Lab

from podfit.agent.roster.static import StaticPods


def manifest(name: str = "web", **spec: object) -> str:
    body = {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return yaml.safe_dump(body)


@pytest_asyncio.fixture
async def node(tmp_path: Path) -> AsyncIterator[tuple[Lab, StaticPods, Path]]:
    folder = tmp_path / "manifests"
    folder.mkdir()
    lab = Lab(tmp_path, static_dir=folder)
    yield lab, lab.built.tracking.static, folder
    await lab.stop()


Node = tuple[Lab, StaticPods, Path]


async def test_a_manifest_becomes_a_pod_of_this_node(node: Node) -> None:
    lab, static, folder = node
    (folder / "web.yaml").write_text(manifest())
    static.check()
    (record,) = lab.records.values()
    assert (record.name, record.static, record.admitted) == ("web-n", True, True)
    assert record.pod["spec"]["nodeName"] == "n" and record.pod["spec"]["priority"] > 2_000_000_000


async def test_a_file_that_is_written_again_with_the_same_text_is_the_same_pod(node: Node) -> None:
    lab, static, folder = node
    (folder / "web.yaml").write_text(manifest())
    static.check()
    (before,) = lab.records.values()
    (folder / "web.yaml").write_text(manifest() + "\n")
    static.check()
    assert list(lab.records.values()) == [before] and before.termination is None


async def test_a_changed_manifest_waits_for_the_end_of_the_pod_before(node: Node) -> None:
    lab, static, folder = node
    (folder / "web.yaml").write_text(manifest())
    static.check()
    (before,) = lab.records.values()
    (folder / "web.yaml").write_text(manifest(terminationGracePeriodSeconds=1))
    static.check()
    assert before.termination is not None and len(lab.records) == 1
    lab.built.tracking.roster.forget(before.uid)
    static.on_removed(before.uid)
    static.check()
    (after,) = lab.records.values()
    assert after.uid != before.uid and after.admitted


async def test_a_removed_manifest_terminates_its_pod(node: Node) -> None:
    lab, static, folder = node
    (folder / "web.yaml").write_text(manifest())
    static.check()
    (folder / "web.yaml").unlink()
    static.check()
    (record,) = lab.records.values()
    assert record.termination is not None


@pytest.mark.parametrize(
    "text",
    ["", "kind: Pod", "[", manifest().replace("image: i", "image: 5"), manifest(serviceAccountName="x")],
    ids=["empty", "no spec", "no YAML", "no image", "refers to an object"],
)
async def test_a_file_that_is_not_a_static_pod_is_ignored(node: Node, text: str) -> None:
    lab, static, folder = node
    (folder / "web.yaml").write_text(text)
    (folder / ".hidden").write_text(manifest("hidden"))
    (folder / "good.yaml").write_text(manifest("good"))
    static.check()
    assert [record.name for record in lab.records.values()] == ["good-n"]
