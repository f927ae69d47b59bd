"""The folder of `podfit recommend --patch-dir` over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli.recommending.patching.folder import write
from podfit.cli.recommending.patching.patches import Change, changes
from podfit.kit.badsetting import BadSetting
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.findings import Finding
from podfit.vpa.report.decide.sizing import ContainerSizes
from podfit.vpa.report.usage.evidence import Evidence

MI = 1 << 20
MAIN, PROXY = ("containers", "main"), ("containers", "proxy")


def workload(name: str, *containers: str) -> Workload:
    template = {"spec": {"containers": [{"name": one, "resources": {"requests": {"cpu": "1"}}} for one in containers]}}
    return Workload(Key("shop", "Deployment", name), {}, template)


def listed(folder: Path) -> list[str]:
    return [one["path"] for one in yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]]


def containers(folder: Path, name: str) -> dict[str, Any]:
    patch = yaml.safe_load((folder / f"shop-deployment-{name}.yaml").read_text())
    return {one["name"]: one["resources"] for one in patch["spec"]["template"]["spec"]["containers"]}


def test_a_workload_that_fits_keeps_its_patch_and_one_that_changes_keeps_its_other_sizes(tmp_path: Path) -> None:
    web = workload("web", "main", "proxy")
    first = {MAIN: ContainerSizes({"cpu": 100, "memory": 64 * MI}), PROXY: ContainerSizes({"cpu": 10})}
    write(tmp_path, [Change(web, first), Change(workload("db", "main"), {MAIN: ContainerSizes({"cpu": 200})})])
    notes = write(tmp_path, [Change(web, {MAIN: ContainerSizes({"memory": 96 * MI}, {"memory": 128 * MI})})])
    assert listed(tmp_path) == ["shop-deployment-db.yaml", "shop-deployment-web.yaml"]
    main = {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "128Mi"}}
    assert containers(tmp_path, "web") == {"main": main, "proxy": {"requests": {"cpu": "10m"}}}
    assert notes == [f"1 patches and a kustomization, which also lists 1 of earlier runs, in {tmp_path}"]


def test_a_container_that_is_gone_is_in_no_patch(tmp_path: Path) -> None:
    write(tmp_path, [Change(workload("web", "main", "proxy"), {PROXY: ContainerSizes({"cpu": 10})})])
    write(tmp_path, [Change(workload("web", "main"), {MAIN: ContainerSizes({"cpu": 100})})])
    assert set(containers(tmp_path, "web")) == {"main"}


@pytest.mark.parametrize(
    "text",
    [
        "resources: [a.yaml]",
        "kind: Component\napiVersion: v1\npatches: [{path: a.yaml, target: {kind: Pod}}]",
        "kind: Component\napiVersion: v1\npatches: [{path: ../a.yaml}]",
        "- 1",
        "[",
    ],
)
def test_a_kustomization_of_someone_else_is_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kustomization.yaml"
    file.write_text(text)
    with pytest.raises(BadSetting, match="is not one of podfit's; choose another folder"):
        write(tmp_path, [Change(workload("web", "main"), {MAIN: ContainerSizes({"cpu": 100})})])
    assert file.read_text() == text and len(list(tmp_path.iterdir())) == 1


def test_a_template_is_patched_though_its_pods_were_resized_already() -> None:
    web = workload("web", "main")
    fits = ContainerSizes({"cpu": 100})
    finding = Finding(web.key, "main", "containers", 1, fits, fits, Evidence("prometheus"))
    assert not changes([finding], {web.key: web}, 0.1)
    [change] = changes([finding], {web.key: web}, 0.1, templates=True)
    assert change.sizes == {MAIN: ContainerSizes({"cpu": 100})}
