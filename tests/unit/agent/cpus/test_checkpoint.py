"""The checkpoint of the CPU manager: the kubelet's format, and what makes a checkpoint unusable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podfit.agent.cpus.checkpoint import UnusableState, decode, encode, load, save
from podfit.agent.cpus.decide.sets import parse
from podfit.agent.cpus.decide.state import CpuState
from podfit.agent.cpus.decide.validate import contradiction

STATE = CpuState("static", parse("0-1"), {"pod": {"a": parse("2-3"), "b": parse("5")}})


@pytest.mark.parametrize(
    ("content", "shared", "assigned"),
    [
        ({"policyName": "none", "defaultCpuSet": "", "checksum": 1353318690}, "", {}),
        ({"policyName": "none", "defaultCpuSet": "4-6", "entries": {}, "checksum": 354655845}, "4-6", {}),
        (
            {
                "policyName": "none",
                "defaultCpuSet": "1-3",
                "entries": {"pod": {"container1": "4-6", "container2": "1-3"}},
                "checksum": 3610638499,
            },
            "1-3",
            {"pod": {"container1": "4-6", "container2": "1-3"}},
        ),
    ],
)
def test_a_kubelets_checkpoint_is_read_and_written_with_the_same_checksum(
    content: dict[str, object], shared: str, assigned: dict[str, dict[str, str]]
) -> None:
    state = decode(json.dumps(content).encode(), "none")
    sets = {uid: {name: parse(cpus) for name, cpus in item.items()} for uid, item in assigned.items()}
    assert (state.shared, dict(state.assigned)) == (parse(shared), sets)
    assert json.loads(encode(state))["checksum"] == content["checksum"]


def test_a_state_is_found_again_as_it_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "cpu_manager_state"
    assert load(file, "static") is None
    save(file, STATE)
    assert load(file, "static") == STATE


@pytest.mark.parametrize("spoiled", [b"", b"{}", b"null", b'{"policyName":"static"', b"[1]"])
def test_a_file_that_is_not_a_checkpoint_is_unusable(tmp_path: Path, spoiled: bytes) -> None:
    file = tmp_path / "cpu_manager_state"
    file.write_bytes(spoiled)
    with pytest.raises(UnusableState, match="delete the CPU manager checkpoint file"):
        load(file, "static")


def test_a_changed_file_is_unusable(tmp_path: Path) -> None:
    file = tmp_path / "cpu_manager_state"
    file.write_bytes(encode(STATE).replace(b'"2-3"', b'"2-4"'))
    with pytest.raises(UnusableState, match="checkpoint is corrupted"):
        load(file, "static")


def test_the_state_of_another_policy_is_unusable(tmp_path: Path) -> None:
    file = tmp_path / "cpu_manager_state"
    save(file, STATE)
    with pytest.raises(UnusableState, match='configured policy "none" differs from state checkpoint policy "static"'):
        load(file, "none")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (STATE, ""),
        (CpuState("static", parse("1"), {"p": {"c": parse("0,2-3,5")}}), "not all reserved cpus"),
        (CpuState("static", parse("0-2"), {"p": {"c": parse("2-3,5")}}), "overlaps with default cpuset"),
        (CpuState("static", parse("0-1"), {"p": {"c": parse("2-3")}}), "doesn't match with CPUs in state"),
        (CpuState("static", parse("0-1"), {"p": {"c": parse("2-5")}}), "doesn't match with CPUs in state"),
        (CpuState("static", parse("0"), {"p": {"c": parse("1-3")}, "q": {"c": parse("3,5")}}), "the same CPUs"),
    ],
)
def test_a_state_that_cannot_be_true_here_is_recognised(state: CpuState, why: str) -> None:
    found = contradiction(state, parse("0-3,5"), parse("0"))
    assert why in found and bool(why) == bool(found)
