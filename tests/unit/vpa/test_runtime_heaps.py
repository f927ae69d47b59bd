"""Heap sizes of language runtimes, read from command, arguments and environment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.runtimes.heaps import BESIDE_LEAST, MI, heap_of

GI = 1 << 30


def container(*command: str, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return {"name": "c", "command": list(command), "env": listed, **more}


@pytest.mark.parametrize(
    ("one", "heap"),
    [
        (container("java", "-Xmx512m", "-jar", "a.jar"), 512 * MI),
        (container("/usr/bin/java", "-Xmx1g", "-Xmx2G", "A"), 2 * GI),
        (container("sh", "-c", "exec java -Xms64m -Xmx300M -jar /a.jar"), 300 * MI),
        (container("app", env={"JAVA_TOOL_OPTIONS": "-Xmx1g"}), GI),
        (container("java", "-Xmx2g", "A", env={"JAVA_TOOL_OPTIONS": "-Xmx1g"}), 2 * GI),
        (container("java", "-Xmx2g", "A", env={"_JAVA_OPTIONS": "-Xmx3g"}), 3 * GI),
        (container("java", "-XX:MaxHeapSize=1048576k", "A"), GI),
        (container("java", "$(OPTS)", "A", env={"OPTS": "-Xmx256m"}), 256 * MI),
        (container("app", env={"GOMEMLIMIT": "750MiB"}), 750 * MI),
        (container("app", env={"GOMEMLIMIT": "1073741824"}), GI),
        (container("node", "--max-old-space-size=400", "a.js"), 400 * MI),
        (container("node", "--max_old_space_size", "400", "a.js"), 400 * MI),
        (container("npm", "start", env={"NODE_OPTIONS": "--max-old-space-size=1024 --trace-gc"}), GI),
        (container("dotnet", "a.dll", env={"DOTNET_GCHeapHardLimit": "0x20000000"}), 512 * MI),
        (container("dotnet", "a.dll", env={"COMPlus_GCHeapHardLimit": "C800000"}), 200 * MI),
    ],
)
def test_a_heap_that_is_named_is_a_floor_with_room_beside_it(one: dict[str, Any], heap: int) -> None:
    found = heap_of(one)
    assert found is not None and found.heap == heap
    assert found.floor >= heap + BESIDE_LEAST and found.setting in found.words


@pytest.mark.parametrize(
    ("one", "percent"),
    [
        (container("java", "-XX:MaxRAMPercentage=75.0", "A"), 75.0),
        (container("dotnet", env={"DOTNET_GCHeapHardLimitPercent": "0x4B"}), 75.0),
    ],
)
def test_a_part_of_the_limit_has_no_floor_and_needs_a_restart(one: dict[str, Any], percent: float) -> None:
    found = heap_of(one)
    assert found is not None and found.percent == percent and found.floor == 0
    assert "restart" in found.restart
    assert 750 * MI < found.may_grow_to(1000 * MI) <= 1000 * MI


def test_a_limit_handed_to_go_is_all_of_the_limit() -> None:
    source = {"resourceFieldRef": {"resource": "limits.memory"}}
    found = heap_of({"name": "c", "env": [{"name": "GOMEMLIMIT", "valueFrom": source}]})
    assert found is not None and found.percent == 100.0


@pytest.mark.parametrize(
    "one",
    [
        container(),
        container("app", "-Xmxnonsense"),
        container("app", env={"GOMEMLIMIT": "off"}),
        container("app", env={"GOMEMLIMIT": "-5"}),
        container("java", "-Xmx0", "A"),
        container("java", "-XX:MaxRAMPercentage=500", "A"),
        container("app", env={"DOTNET_GCHeapHardLimit": "many"}),
        container("node", "--max-old-space-size=lots"),
        container("sh", "-c", "echo 'unfinished"),
        {"name": "c", "env": [{"name": "JAVA_TOOL_OPTIONS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"name": "c", "command": None, "args": None, "env": None},
    ],
)
def test_settings_that_say_nothing_are_no_floor(one: dict[str, Any]) -> None:
    assert heap_of(one) is None


words = st.text(alphabet="-Xmx0123456789gGkK=:$() '\"abMaxRAMPercentage._", max_size=30)


@given(
    st.lists(words, max_size=5),
    st.dictionaries(st.sampled_from(["GOMEMLIMIT", "NODE_OPTIONS", "_JAVA_OPTIONS"]), words),
)
def test_any_words_are_read_without_an_error(line: list[str], env: dict[str, str]) -> None:
    found = heap_of(container("java", *line, env=env))
    assert found is None or (found.floor >= 0 and found.words and found.restart)
