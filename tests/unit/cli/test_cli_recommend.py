"""`podfit recommend` reports invalid usage before it reads any data."""

from __future__ import annotations

import click
import pytest
import typer

from podfit.cli.recommending.applying import steps
from podfit.cli.recommending.options import prometheus_config
from podfit.cli.recommending.patches import Change
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
    assert [one.what for one in made] == sent
    assert left == (
        [] if sent else ["pod/a: not resized in place: it has no requests, and its QoS class BestEffort stays"]
    )
