"""When pressure on a node begins and ends."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.node import pressure
from podfit.agent.decide.node.pressure import DISK, HOLD_S, MEMORY, PID, Readings, seen_after, shown_by
from podfit.agent.node.pressure import machine_readings
from podfit.agent.pods.ledger import Ledger

MI, GI = 1 << 20, 1 << 30


def test_memory_is_short_below_100_mi() -> None:
    assert shown_by(Readings(memory_free=100 * MI)) == frozenset()
    assert shown_by(Readings(memory_free=100 * MI - 1)) == {MEMORY}


def test_a_disk_is_short_below_a_tenth_or_1_gi_whichever_is_less() -> None:
    assert shown_by(Readings(disk_free=GI, disk_size=1000 * GI)) == frozenset()
    assert shown_by(Readings(disk_free=GI - 1, disk_size=1000 * GI)) == {DISK}
    assert shown_by(Readings(disk_free=GI // 4, disk_size=2 * GI)) == frozenset()
    assert shown_by(Readings(disk_free=GI // 10, disk_size=2 * GI)) == {DISK}


def test_an_allocation_that_could_not_be_written_is_disk_pressure() -> None:
    assert shown_by(Readings(disk_free=500 * GI, disk_size=1000 * GI, unwritable=True)) == {DISK}


def test_process_ids_are_short_when_few_are_left() -> None:
    assert shown_by(Readings(pids_used=31_000, pids_most=32_768)) == frozenset()
    assert shown_by(Readings(pids_used=32_000, pids_most=32_768)) == {PID}


def test_a_machine_that_says_nothing_is_under_no_pressure() -> None:
    assert shown_by(Readings()) == frozenset()


@given(st.lists(st.tuples(st.floats(0.1, 400), st.booleans()), max_size=30))
def test_a_pressure_lasts_from_its_first_sign_until_five_minutes_without_one(looks: list[tuple[float, bool]]) -> None:
    now, seen, last = 0.0, {}, None
    for pause, short in looks:
        now += pause
        last = now if short else last
        seen = seen_after(seen, Readings(memory_free=0 if short else GI), now)
        assert (MEMORY in seen) == (last is not None and now - last < HOLD_S)


def test_conditions_use_the_words_of_kubernetes() -> None:
    assert pressure.conditions(frozenset({MEMORY, PID})) == [
        (MEMORY, "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        (DISK, "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (PID, "True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ]


def test_the_machine_is_read_from_proc_and_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel").mkdir(parents=True)
    (tmp_path / "meminfo").write_text("MemTotal:  4096 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n")
    (tmp_path / "loadavg").write_text("0.10 0.20 0.30 2/345 6789\n")
    (tmp_path / "sys/kernel/pid_max").write_text("32768\n")
    ledger = Ledger(tmp_path / "ledger")
    found = machine_readings(tmp_path, ledger, tmp_path)
    assert (found.memory_free, found.pids_used, found.pids_most) == (2 * MI, 345, 32_768)
    assert found.disk_free is not None and 0 <= found.disk_free <= found.disk_size
    assert not found.unwritable
    ledger.problem = "No space left on device"
    assert machine_readings(tmp_path, ledger, tmp_path).unwritable


def test_what_cannot_be_read_is_left_open(tmp_path: Path) -> None:
    found = machine_readings(tmp_path / "missing", Ledger(tmp_path / "ledger"), tmp_path)
    assert found == Readings()
