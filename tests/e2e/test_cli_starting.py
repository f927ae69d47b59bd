"""Starts that cannot succeed end at once with one line that says why, never with a traceback or an endless wait."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def podfit(*words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("up --listen nowhere", "--listen 'nowhere': it is HOST:PORT"),
        ("up --runtime docker", "--runtime 'docker': it is one of process, cri, fake"),
        ("up --image-fallback docker", "--image-fallback 'docker': must be host"),
        ("up --store files", "--store 'files': it is sqlite, memory or etcd=URL[,URL…]"),
        ("up --store etcd=", "--store 'etcd=': it is sqlite, memory or etcd=URL[,URL…]"),
        ("up --node-cpu two", "--node-cpu 'two': quantities must match"),
        ("up --node-memory=-1Gi", "--node-memory '-1Gi': must be greater than or equal to 0"),
        ("up --node-name My_Node", "--node-name 'My_Node': a lowercase RFC 1123 subdomain must consist of"),
        ("agent --node-name My_Node", "--node-name 'My_Node': a lowercase RFC 1123 subdomain must consist of"),
        ("up --enable-admission-plugins Nope", "unknown admission plugin 'Nope'; known are CertificateApproval,"),
        ("up --deferred-resize-policy hope", 'the deferred resize policy must be "wait" or "preempt", not "hope"'),
        ("up --deferred-resize-deadline=-1", "the deferred resize deadline must not be negative"),
        ("up --recommender-address 8942", "--recommender-address '8942': it is HOST:PORT"),
        ("agent --eviction-hard memory", "--eviction-hard: malformed pair"),
        ("agent --container-log-max-size ten", "--container-log-max-size: failed to parse"),
        ("agent --container-log-max-files 1", "--container-log-max-files: 1 must be greater than 1"),
        (
            "agent --server https://127.0.0.1:1 --token a --certificate-authority FOLDER/tokens.csv",
            "--certificate-authority FOLDER/tokens.csv contains no certificate",
        ),
    ],
)
def test_a_setting_that_is_invalid_ends_with_2(tmp_path: Path, words: str, reported: str) -> None:
    (tmp_path / "tokens.csv").write_text("secret,user\n")
    command, *options = words.replace("FOLDER", str(tmp_path)).split()
    # The last value of an option counts; the default port may be in use.
    listen = ["--listen", "127.0.0.1:0"] if command == "up" else []
    code, said = podfit(command, "--data-dir", str(tmp_path / "data"), *listen, *options)
    assert (code, said.count("\n")) == (2, 1), said
    assert said.startswith(f"podfit: {reported.replace('FOLDER', str(tmp_path))}"), said


def test_an_error_of_the_machine_exits_with_1(tmp_path: Path) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    file, tokens, none = tmp_path / "file", tmp_path / "tokens.csv", tmp_path / "none.csv"
    file.write_text("")
    tokens.write_text("secret,user\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, reported in (
            (["up", *data, "--listen", f"127.0.0.1:{port}"], f"cannot listen on 127.0.0.1:{port}: Address already"),
            (
                ["up", *data, "--listen", "127.0.0.1:0", "--runtime", "fake", "--node-port", str(port)],
                f"cannot listen on 127.0.0.1:{port}: Address already",
            ),
            (["up", "--data-dir", str(file)], f"{file}: File exists"),
            (["apiserver", *data, "--token-auth-file", str(none)], f"{none}: No such file or directory"),
            (["apiserver", *data, "--token-auth-file", str(tokens)], f"{tokens}:1: a line is token,user,uid"),
        ):
            code, said = podfit(*words)
            assert (code, said.count("\n")) == (1, 1) and said.startswith(f"podfit: {reported}"), said


def test_a_damaged_store_or_key_ends_with_1(tmp_path: Path) -> None:
    from podfit.apiserver.auth.certs.pki import Pki

    Pki(tmp_path / "pki")
    (tmp_path / "podfit.db").touch()
    code, said = podfit("apiserver", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert code == 1 and said.startswith(f"podfit: the store {tmp_path}/podfit.db is damaged (the file is empty)"), said
    (tmp_path / "pki" / "sa.key").write_bytes(b"")
    code, said = podfit("apiserver", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0")
    assert (code, said.count("\n")) == (1, 1) and said.startswith(f"podfit: {tmp_path}/pki/sa.key is damaged"), said


def test_an_agent_without_a_server_reports_it_once_for_each_part_and_stops_cleanly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = f"clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{server.getsockname()[1]}'}}}}]\n"
        context = "contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
        (tmp_path / "kubeconfig").write_text(config + context)
        words = [
            "agent",
            "--kubeconfig",
            f"{tmp_path}/kubeconfig",
            "--data-dir",
            f"{tmp_path}/data",
            "--runtime",
            "fake",
        ]
        agent = subprocess.Popen(
            [sys.executable, "-m", "podfit.cli.main", *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        server.settimeout(60)
        for _ in range(12):
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
        agent.terminate()
        _, err = agent.communicate(timeout=60)
    lines = err.splitlines()
    assert len([line for line in lines if "podfit.agent.node.node" in line]) == 1, err
    assert not [line for line in lines if " E " in line], err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_up_without_the_rights_it_needs_leaves_no_data_directory() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        command = [sys.executable, "-m", "podfit.cli.main", "up", "--listen", "127.0.0.1:0"]
        done = subprocess.run(
            command, cwd=folder, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout, os.listdir(folder)) == (1, "", []), done.stderr
    assert "root" in done.stderr and done.stderr.endswith("Run as root, or add --runtime fake\n")
