"""Several files in $KUBECONFIG count as one, as for kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from podfit.client.kubeconfig import BadKubeconfig, load


def write(file: Path, name: str, current: str = "", **user: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    document = {
        "current-context": current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{file.stem}"}}],
        "users": [{"name": name, "user": user}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def test_files_are_put_together_and_the_first_word_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write(tmp_path / "a" / "one", "x", token="t1")
    two = write(tmp_path / "b" / "two", "y", current="y", tokenFile="token")
    three = write(tmp_path / "c" / "three", "x", current="x", token="t3")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{one}:{two}:{three}")
    chosen = load()
    assert (chosen.server, chosen.namespace, chosen.token_file) == ("https://two", "y", str(tmp_path / "b" / "token"))
    assert (load(context="x").server, load(context="x").token) == ("https://one", "t1")
    assert load(str(three)).server == "https://three"


def test_unusable_kubeconfigs_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/neither")
    with pytest.raises(BadKubeconfig, match=r"cannot read kubeconfig .*/none: No such file"):
        load()
    broken = write(tmp_path / "a" / "one", "x", current="x", **{"client-key-data": "a"})
    with pytest.raises(BadKubeconfig, match="client-key-data is not base64"):
        load(str(broken))
