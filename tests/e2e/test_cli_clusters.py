"""Two clusters on one machine, used as with kind: by name, with merged contexts."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import KUBECTL
from tests.e2e.parts import Part

FAKE = ("--runtime", "fake", "--store", "memory")


@pytest.fixture(autouse=True)
def somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user with an empty home directory, on a machine where the default port is in use."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # another process has it
            held.enter_context(socket.create_server(("127.0.0.1", 6443)))
        yield tmp_path / "home"


@pytest.fixture
def parts() -> Iterator[list[Part]]:
    started: list[Part] = []
    yield started
    for part in started:
        part.stop()


def podfit(*words: str, code: int = 0) -> tuple[str, str]:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def kubectl(*words: str) -> str:
    assert KUBECTL is not None
    return subprocess.run([KUBECTL, *words], capture_output=True, text=True, timeout=60, check=True).stdout


def up(parts: list[Part], *words: str) -> None:
    parts.append(Part("up", *FAKE, *words, ready=True))


def mine(home: Path) -> dict[str, Any]:
    """The output of `podfit clusters` about this test's own clusters."""
    rows = json.loads(podfit("clusters", "-o", "json")[0])["items"]
    return {row["name"]: row for row in rows if row["dataDirectory"].startswith(str(home))}


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_two_named_clusters_run_side_by_side_with_a_context_each(parts: list[Part], somebody: Path) -> None:
    for name in ("dev", "test"):
        up(parts, "--name", name, "--node-name", f"node-of-{name}")
        podfit("kubeconfig", "--name", name, "--merge")
    assert kubectl("config", "current-context").strip() == "podfit-test"
    for name in ("dev", "test"):
        assert kubectl("--context", f"podfit-{name}", "get", "nodes", "-o", "name") == f"node/node-of-{name}\n"
        assert f"node-of-{name}" in podfit("top", "nodes", "--context", f"podfit-{name}")[0]
        server = mine(somebody)[name]["server"]
        assert f"--server {server} " in podfit("token", "create", "--context", f"podfit-{name}")[0]
    found = mine(somebody)
    assert {name: row["status"] for name, row in found.items()} == {"dev": "Running", "test": "Running"}
    assert found["dev"]["server"] != found["test"]["server"]


def test_a_named_cluster_comes_back_at_the_same_address(parts: list[Part], somebody: Path) -> None:
    up(parts, "--name", "dev")
    before = mine(somebody)["dev"]
    parts[0].stop()
    assert mine(somebody)["dev"] == {**before, "status": "Stopped", "pid": None}
    up(parts, "--name", "dev")
    assert mine(somebody)["dev"]["server"] == before["server"]


def test_deleting_a_named_cluster_removes_its_data_and_its_context(parts: list[Part], somebody: Path) -> None:
    config = somebody / ".kube" / "config"
    config.parent.mkdir(parents=True)
    work = {"name": "work", "context": {"cluster": "work", "user": "me"}}
    config.write_text(yaml.safe_dump({"contexts": [work], "current-context": "work"}))
    up(parts, "--name", "dev")
    podfit("kubeconfig", "--name", "dev", "--merge")
    assert yaml.safe_load(config.read_text())["current-context"] == "podfit-dev"
    podfit("down", "--name", "dev", "--delete", code=3)
    podfit("down", "--name", "dev", "--delete", "--force")
    assert parts[0].process.wait(0) == 0
    assert not mine(somebody)
    assert yaml.safe_load(config.read_text())["contexts"] == [work]


def test_the_kubeconfig_is_printed_and_is_merged_only_on_request(parts: list[Part], somebody: Path) -> None:
    up(parts, "--listen", "127.0.0.1:0", "--data-dir", str(somebody / "data"))
    document = yaml.safe_load(podfit("kubeconfig", "--data-dir", str(somebody / "data"))[0])
    assert document["current-context"] == "podfit"
    assert [entry["name"] for entry in document["clusters"] + document["users"]] == ["podfit", "podfit"]
    assert not (somebody / ".kube").exists()


def test_a_kubeconfig_given_to_up_keeps_what_others_wrote_there(parts: list[Part], somebody: Path) -> None:
    somebody.mkdir()
    file = somebody / "config"
    file.write_text(yaml.safe_dump({"users": [{"name": "me", "user": {"token": "mine"}}]}))
    up(parts, "--listen", "127.0.0.1:0", "--data-dir", str(somebody / "data"), "--kubeconfig", str(file))
    assert [entry["name"] for entry in yaml.safe_load(file.read_text())["users"]] == ["me", "podfit"]


def test_up_in_a_second_folder_says_whose_the_port_is(parts: list[Part], somebody: Path) -> None:
    up(parts, "--listen", "127.0.0.1:0", "--data-dir", str(somebody / "first"))
    server = mine(somebody)[""]["server"]
    _, err = podfit(
        "up", *FAKE, "--data-dir", str(somebody / "second"), "--listen", server.removeprefix("https://"), code=1
    )
    assert f"`podfit up` (pid {parts[0].process.pid}) of the data directory {somebody}/first" in err
    assert "--listen" in err and "--name NAME" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kubeconfig --name none", "no cluster in HOME/.local/state/podfit/none: start it with"),
        ("kubeconfig --name a --data-dir b", "--name and --data-dir exclude each other"),
        ("kubeconfig --merge --unmerge", "--merge and --unmerge exclude each other"),
        ("kubeconfig --kubeconfig x", "--kubeconfig needs --merge or --unmerge"),
        ("down --delete", "--delete needs --name"),
        ("up --name Dev", "--name 'Dev': at most 50 lower case letters"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(somebody: Path, words: str, expected: str) -> None:
    _, err = podfit(*words.split(), code=1 if "none" in words else 2)
    assert err.startswith(f"podfit: {expected.replace('HOME', str(somebody))}") and err.count("\n") == 1, err


def test_the_cluster_s_own_kubeconfig_is_not_merged_into(
    parts: list[Part], somebody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(parts, "--listen", "127.0.0.1:0", "--data-dir", str(somebody / "data"))
    monkeypatch.setenv("KUBECONFIG", os.path.join(somebody, "data", "admin.kubeconfig"))
    _, err = podfit("kubeconfig", "--data-dir", str(somebody / "data"), "--merge", code=2)
    assert "is the cluster's own kubeconfig" in err
