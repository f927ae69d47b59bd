"""Clusters by name: their directories, valid names, and their ports."""

from __future__ import annotations

import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

from podfit.cli.clusters import CLUSTER_LOCK, DEFAULT_DATA, Cluster, chosen, home, known
from podfit.cli.completing.candidates import complete
from podfit.cli.completing.directives import NO_FILES
from podfit.cli.main import app
from podfit.cli.options.listening import explain, own_port
from podfit.kit.files.dirlock import DirectoryLock
from podfit.kit.web.addresses import CannotListen


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state"


@pytest.fixture
def dev(state: Path) -> Cluster:
    cluster = chosen("dev", DEFAULT_DATA.resolve())
    cluster.data_dir.mkdir(parents=True)
    return cluster


@pytest.mark.parametrize(("value", "expected"), [("", "H/.local/state/podfit"), ("rel", "H/.local/state/podfit")])
def test_named_clusters_live_in_the_user_s_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", value)
    assert home() == Path(expected.replace("H", str(tmp_path), 1))


def test_a_name_gives_directory_context_and_option(state: Path) -> None:
    cluster = chosen("dev", DEFAULT_DATA.resolve())
    assert cluster.data_dir == state / "podfit" / "dev"
    assert (cluster.context, cluster.option) == ("podfit-dev", "--name dev")


def test_a_data_directory_of_a_named_cluster_means_that_cluster(state: Path, tmp_path: Path) -> None:
    assert chosen("", state / "podfit" / "dev") == chosen("dev", DEFAULT_DATA.resolve())
    other = chosen("", tmp_path / "a b")
    assert (other.context, other.option) == ("podfit", f"--data-dir '{tmp_path}/a b'")


@pytest.mark.parametrize("name", ["..", "a/b", "A", "-a", "a-", "a.b", "x" * 51])
def test_a_name_that_is_not_a_label_is_invalid_usage(name: str) -> None:
    with pytest.raises(typer.Exit) as ended:
        chosen(name, DEFAULT_DATA.resolve())
    assert ended.value.exit_code == 2


def test_name_and_data_directory_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit) as ended:
        chosen("dev", tmp_path)
    assert ended.value.exit_code == 2


def test_a_cluster_keeps_the_port_of_its_first_start(dev: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        (dev.data_dir / "port").write_text(f"{taken}\n")
        first = own_port(dev)
        assert first != taken
    assert own_port(dev) == own_port(dev) == first


def test_a_port_that_a_stopped_cluster_keeps_is_not_given_to_another_one(dev: Cluster) -> None:
    other = chosen("other", DEFAULT_DATA.resolve())
    other.data_dir.mkdir(parents=True)
    (other.data_dir / "port").write_text("6443\n")
    assert own_port(dev) != 6443
    assert own_port(other) == own_port(other)


def test_clusters_that_start_at_the_same_moment_choose_different_ports(state: Path) -> None:
    clusters = [chosen(f"c{number}", DEFAULT_DATA.resolve()) for number in range(8)]
    for cluster in clusters:
        cluster.data_dir.mkdir(parents=True)
    with ThreadPoolExecutor(len(clusters)) as pool:
        assert len(set(pool.map(own_port, clusters))) == len(clusters)


def test_a_cluster_that_has_to_move_reports_it(dev: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        (dev.data_dir / "port").write_text(f"{taken}\n")
        moved = own_port(dev)
    said = capsys.readouterr().err
    assert f"port {taken} is in use" in said and f"listens on {moved}" in said and f"(pid {os.getpid()})" in said


def test_a_port_file_with_nonsense_counts_as_none(dev: Cluster) -> None:
    (dev.data_dir / "port").write_text("all of them\n")
    assert 0 < own_port(dev) < 65536


def test_a_taken_port_is_explained_by_the_data_directory_of_its_cluster(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, DirectoryLock(tmp_path / "d", CLUSTER_LOCK, "podfit up"):
        port = server.getsockname()[1]
        error = CannotListen("127.0.0.1", port, OSError(errno.EADDRINUSE, ""))
        explain(error, port)
    by = f"by `podfit up` (pid {os.getpid()}) of the data directory {tmp_path}/d; choose another port by --listen"
    assert by in str(error.strerror) and "--name NAME" in str(error.strerror)


def test_other_reasons_for_not_listening_are_left_as_they_are() -> None:
    error = CannotListen("nowhere", 1, OSError(-2, "Name or service not known"))
    explain(error, 1)
    assert error.strerror == "cannot listen on nowhere:1: Name or service not known"


def test_known_are_named_clusters_and_those_that_run_elsewhere(tmp_path: Path, dev: Cluster) -> None:
    dev.kubeconfig.write_text("{}")
    (dev.data_dir.parent / "not-a-cluster").mkdir()
    elsewhere = tmp_path / "elsewhere"
    with DirectoryLock(elsewhere, CLUSTER_LOCK, "podfit up"):
        found = known()
        assert dev in found and Cluster(elsewhere) in found
        assert not [item for item in found if item.name == "not-a-cluster"]
    assert Cluster(elsewhere) not in known()


@pytest.mark.parametrize("command", ["up", "down", "kubeconfig"])
def test_names_of_clusters_are_completed(dev: Cluster, command: str) -> None:
    dev.kubeconfig.write_text("{}")
    assert complete(app, [command, "--name", "d"]) == (["dev"], NO_FILES)
    assert complete(app, [command, "--name", "x"]) == ([], NO_FILES)
