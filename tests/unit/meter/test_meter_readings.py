"""Parsing of nodes' metrics pages, valid and invalid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.numbers import Reading
from podfit.meter.readings import read_page

KEY = ("default", "p", "c")
LABELS = 'container="c",namespace="default",pod="p"'


def page(cpu: str = "1.5 1000000", memory: str = "2048 1000000", started: str = "900") -> str:
    return (
        "# HELP container_cpu_usage_seconds_total …\n# TYPE container_cpu_usage_seconds_total counter\n"
        f"container_cpu_usage_seconds_total{{{LABELS}}} {cpu}\n"
        f"container_memory_working_set_bytes{{{LABELS}}} {memory}\n"
        f"container_start_time_seconds{{{LABELS}}} {started}\n"
        "node_cpu_usage_seconds_total 77.25 1000000\nnode_memory_working_set_bytes 4096 1000000\n"
        'pod_cpu_usage_seconds_total{namespace="default",pod="p"} 9 1000000\nscrape_error 0\n'
    )


def test_containers_and_the_node_are_read() -> None:
    reading = read_page(page(), 5.0)
    assert reading.containers == {KEY: Reading(1000.0, 1.5, 2048, 900)}
    assert reading.node == Reading(1000.0, 77.25, 4096)


def test_without_a_time_the_moment_of_reading_counts() -> None:
    assert read_page(page(cpu="1.5"), 5.0).containers[KEY].at == 5.0


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "zero", ""])
def test_values_that_cannot_be_leave_the_container_out(value: str) -> None:
    assert read_page(page(cpu=value), 5.0).containers == {}
    assert read_page(page(memory=value), 5.0).containers == {}


def test_an_unknown_start_is_no_start() -> None:
    assert read_page(page(started="NaN"), 5.0).containers[KEY].started == 0.0


def test_labels_may_hold_anything() -> None:
    labels = 'pod="a}b,c=\\"d\\"",namespace="n\\\\s",container="x"'
    text = f"container_cpu_usage_seconds_total{{{labels}}} 1 1\ncontainer_memory_working_set_bytes{{{labels}}} 2 1\n"
    assert list(read_page(text, 0.0).containers) == [("n\\s", 'a}b,c="d"', "x")]


def test_the_kubelets_own_cgroups_have_no_pod_and_are_left_out() -> None:
    text = page().replace('pod="p"', 'pod=""')
    assert read_page(text, 0.0).containers == {}


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_page(text, 0.0)
    read_page(f"container_cpu_usage_seconds_total{text}\nnode_{text}", 0.0)
