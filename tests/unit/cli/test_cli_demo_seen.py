"""Which states the demo counts as an observed resize."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.cli.demo.history import SPARKS, Seen, spark
from podfit.cli.printing.output import age, span, table


def row(cpu: str, memory: str = "64Mi") -> list[dict[str, Any]]:
    return [{"name": "c", "actual": {"requests": {"cpu": "10m"}, "limits": {"cpu": cpu, "memory": memory}}}]


def test_ups_and_downs_are_counted_from_what_the_kernel_has() -> None:
    seen = Seen()
    assert seen.states("p", row("100m")) == []
    assert [str(state) for state in seen.states("p", row("200m"))] == ["c: cpu limit 100m → 200m ▲ in place"]
    assert [state.up for state in seen.states("p", row("200m", "32Mi"))] == [False]
    assert (seen.ups, seen.downs) == (1, 1)
    assert seen.summary == "resized in place: 1 up, 1 down; restarts: 0"


def test_a_new_pod_of_the_workload_is_not_a_resize() -> None:
    seen = Seen()
    seen.states("p-1", row("100m"))
    seen.forget({"p-2"})
    assert seen.states("p-2", row("500m")) == [] and seen.ups == 0


@given(st.lists(st.integers(0, 10**12), max_size=60), st.floats(0, 1e12))
def test_a_spark_line_shows_the_last_values_only(values: list[int], top: float) -> None:
    line = spark(values, top)
    assert len(line) == min(16, len(values)) and set(line) <= set(SPARKS)


def test_ages_read_as_kubectl_writes_them() -> None:
    shown = [span(item) for item in (5, 119, 120, 260, 700, 4 * 3600, 50 * 3600, 9 * 86400)]
    assert shown == ["5s", "119s", "2m", "4m20s", "11m", "4h", "2d2h", "9d"]
    assert age("2024-01-01T00:00:00Z", 1704067260.0) == "60s"


def test_tables_align_and_leave_no_blanks_at_the_end() -> None:
    assert table([["a", "b"], ["longer", None]], ["X", "Y"]) == "X        Y\na        b\nlonger"
