"""A cluster is merged into a shared kubeconfig and taken out again, and nothing else in the file changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podfit.client.kubeconfig import BadKubeconfig
from podfit.client.merging import (
    SECTIONS,
    Document,
    merge,
    read_renamed,
    unmerge,
    usual_files,
    with_cluster,
    without_cluster,
)

OTHERS = """
apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: work
  cluster: {server: "https://work:6443", insecure-skip-tls-verify: true, extensions: [{name: x, extension: {a: 1}}]}
users:
- name: me
  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login}}
contexts:
- name: work
  context: {cluster: work, user: me, namespace: team}
current-context: work
"""


def entry(name: str, server: str = "https://127.0.0.1:1") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    file = tmp_path / "config"
    file.write_text(OTHERS)
    return file


def content(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def test_merging_keeps_everything_of_others_and_makes_the_context_current(shared: Path) -> None:
    merge(shared, entry("podfit"))
    after, before = content(shared), yaml.safe_load(OTHERS)
    assert after["current-context"] == "podfit"
    assert after["preferences"] == before["preferences"]
    for section in SECTIONS:
        assert [item for item in after[section] if item["name"] != "podfit"] == before[section]


def test_unmerging_leaves_what_was_there_and_no_current_context(shared: Path) -> None:
    merge(shared, entry("podfit"))
    assert unmerge(shared, "podfit")
    assert content(shared) == {**yaml.safe_load(OTHERS), "current-context": ""}


def test_unmerging_a_missing_entry_leaves_the_file_unchanged(shared: Path, tmp_path: Path) -> None:
    before = shared.stat()
    assert not unmerge(shared, "podfit")
    assert shared.stat() == before
    assert not unmerge(tmp_path / "none" / "config", "podfit")
    assert not (tmp_path / "none").exists()


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / ".kube" / "config"
    merge(file, entry("podfit"))
    assert content(file) == entry("podfit")
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["config"]


def test_mode_and_link_of_the_file_are_kept(shared: Path, tmp_path: Path) -> None:
    shared.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(shared)
    merge(link, entry("podfit"))
    assert link.is_symlink() and shared.stat().st_mode & 0o777 == 0o640
    assert content(shared)["current-context"] == "podfit"


@pytest.mark.parametrize("text", ["a: [", "- a", "just words", "clusters: {a: b}", "\x00"])
def test_a_file_that_is_not_a_kubeconfig_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(BadKubeconfig, match=str(file)):
        merge(file, entry("podfit"))
    assert file.read_text() == text
    assert os.listdir(tmp_path) == ["config"]


def test_a_file_that_kubectl_has_locked_is_left_as_it_is(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.client.merging.LOCK_TRIES", 2)
    lock = shared.with_name("config.lock")
    lock.touch()
    with pytest.raises(BadKubeconfig, match="another program is changing"):
        merge(shared, entry("podfit"))
    assert shared.read_text() == OTHERS and lock.exists()


def test_cluster_user_and_context_get_the_name_they_are_read_under(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(entry("podfit")))
    assert read_renamed(file, "podfit-dev") == entry("podfit-dev")


def test_the_first_file_of_the_environment_is_merged_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert usual_files() == [Path("/a"), Path("/b"), tmp_path / ".kube" / "config"]
    monkeypatch.delenv("KUBECONFIG")
    assert usual_files() == [tmp_path / ".kube" / "config"]


names = st.sampled_from(["podfit", "podfit-dev", "work", "home"])
sections = st.lists(names, unique=True).map(lambda found: [{"name": name, "keep": name} for name in found])
documents = st.fixed_dictionaries(
    {},
    optional={
        **{section: st.none() | sections for section in SECTIONS},
        "current-context": names,
        "preferences": st.just({"colors": True}),
    },
)


@given(documents, names)
def test_merging_twice_is_merging_once(document: Document, name: str) -> None:
    once = with_cluster(document, entry(name))
    assert with_cluster(once, entry(name)) == once


@given(documents, names)
def test_after_merging_and_unmerging_only_entries_of_that_name_are_gone(document: Document, name: str) -> None:
    after = without_cluster(with_cluster(document, entry(name)), name)
    for section in SECTIONS:
        assert after[section] == [item for item in document.get(section) or () if item["name"] != name]
    assert after["current-context"] == ""
    assert after.get("preferences") == document.get("preferences")
