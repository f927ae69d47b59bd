"""`podfit recommend` reports invalid usage before it reads any data."""

from __future__ import annotations

import click
import pytest
import typer

from podfit.cli.recommending.applying import steps
from podfit.cli.recommending.collecting import Filters
from podfit.cli.recommending.options import prometheus_config, request_of
from podfit.cli.recommending.patching.patches import Change
from podfit.cli.targets import NoSuchTarget
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.sizing import ContainerSizes


@pytest.mark.parametrize(("history", "why"), [("8x", "is a time such as 8d"), ("1s", "between 10m and 90d")])
def test_a_history_is_checked_where_no_prometheus_is_named(
    history: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((typer.Exit, click.exceptions.Exit, SystemExit)):
        prometheus_config({"prometheus": "", "source": "auto", "history": history})
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(("qos", "sent"), [("BestEffort", []), ("Burstable", ["pod/a"])])
def test_a_pod_whose_qos_class_would_change_is_left_and_named(qos: str, sent: list[str]) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "app"}]}, "status": {"qosClass": qos}}
    workload = Workload(Key("ns", "Pod", "a"), {}, pod, [pod])
    made, left = steps([Change(workload, {("containers", "app"): ContainerSizes({"cpu": 100})})], templates=False)
    assert [item.what for item in made] == sent
    assert left == (
        [] if sent else ["pod/a: not resized in place: it has no requests, and its QoS class BestEffort stays"]
    )


OPTIONS = {
    "min_cpu": "", "min_memory": "", "max_cpu": "", "max_memory": "", "keep_limits": False, "runtimes": True,
    "selector": "", "kind": "", "names": [], "source": "auto", "prometheus": "", "history": "8d", "sample": "2m",
    "policy_costs": [],
    "load": 50.0, "rules": True, "price_cpu": 0.0, "price_memory": 0.0, "sort": "waste", "policy": "default",
    "resume": False, "cluster_label": "", "insecure": False, "timeout_s": 120.0, "bearer_token_file": "",
}  # fmt: skip
WORKLOADS = [Key("shop", "Deployment", "web"), Key("shop", "StatefulSet", "db"), Key("shop", "Rollout", "canary")]


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("selector", "a in (b", "--selector 'a in (b': unable to parse requirement"),
        ("prometheus", "http://127.0.0.1:port", "is an address such as http://localhost:9090"),
        ("prometheus", "http://", "is an address such as http://localhost:9090"),
        ("policy_costs", ["oom=1"], "--policy-cost 'oom=1': a price is one of oom-day, short"),
        ("policy", "krr", "--policy-cost: policy krr does not choose by prices"),
        ("max_memory", "0", "--max-memory must be above 0"),
        ("cluster_label", "production", "is a label with its value, such as cluster=production"),
    ],
)
def test_an_option_that_cannot_be_read_is_named(
    option: str, value: object, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**OPTIONS, "prometheus": "http://localhost:9090", "policy": "auto", "policy_costs": ["short=1"]}
    with pytest.raises((typer.Exit, click.exceptions.Exit, SystemExit)):
        request_of({**given, option: value}, "default")
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["web", "deploy/web", "Deployments/web", "deployment.apps/web", "sts/d*", "Rollout/c*"]
)
def test_workloads_are_named_as_in_kubectl(name: str) -> None:
    filters = request_of({**OPTIONS, "names": [name]}, "shop").filters
    filters.check(WORKLOADS)
    assert sum(filters.let(Workload(key, {}, {})) for key in WORKLOADS) == 1


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        (Filters(names=("web", "deployment/wbe")), "no workload is named deployment/wbe"),
        (Filters(kinds=frozenset({"deploymnt"})), "--kind deploymnt: no workload is of this kind"),
    ],
)
def test_a_name_or_kind_that_does_not_exist_is_an_error(filters: Filters, why: str) -> None:
    with pytest.raises(NoSuchTarget, match=why):
        filters.check(WORKLOADS)
