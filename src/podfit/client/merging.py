"""Adds a cluster to a shared kubeconfig, and removes it again.

Everything else in the file is preserved. The file is replaced atomically, under the lock file that kubectl uses
(`config.lock`), so that neither loses the other's changes.
"""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from podfit.client.kubeconfig import BadKubeconfig
from podfit.kit.files.atomicfile import write_atomic

Document = dict[str, Any]
SECTIONS = ("clusters", "users", "contexts")
LOCK_TRIES, LOCK_WAIT_S = 40, 0.05


def usual_files() -> list[Path]:
    """Files that may contain a merged cluster: the files of $KUBECONFIG, of which the first is merged into, and
    ~/.kube/config."""
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    return list(dict.fromkeys((*named, Path.home() / ".kube" / "config")))


def read_renamed(file: Path, name: str) -> Document:
    """A kubeconfig with one cluster, one user and one context, all named `name`."""
    document = _read(file)
    entries = {section: [{**document[section][0], "name": name}] for section in SECTIONS}
    (context,) = entries["contexts"]
    context["context"] = {**context["context"], "cluster": name, "user": name}
    return {"apiVersion": "v1", "kind": "Config", **entries, "current-context": name}


def with_cluster(document: Document, added: Document) -> Document:
    """`document` with the entries and the current context of `added`; entries of the same name are replaced."""
    result = {"apiVersion": "v1", "kind": "Config", **copy.deepcopy(document)}
    for section in SECTIONS:
        entries = result[section] = list(result.get(section) or ())
        for entry in added[section]:
            at = next((at for at, old in enumerate(entries) if _name(old) == entry["name"]), len(entries))
            entries[at : at + 1] = [entry]
    result["current-context"] = added["current-context"]
    return result


def without_cluster(document: Document, name: str) -> Document:
    """`document` without the cluster, user and context `name`; if that was the current context, none is current."""
    result = copy.deepcopy(document)
    for section in SECTIONS:
        if section in result:
            result[section] = [entry for entry in result[section] or () if _name(entry) != name]
    if result.get("current-context") == name:
        result["current-context"] = ""
    return result


def merge(file: Path, added: Document) -> None:
    _change(file, lambda document: with_cluster(document, added))


def unmerge(file: Path, name: str) -> bool:
    """False if the file has no such entries; it is then not written."""
    return file.exists() and _change(file, lambda document: without_cluster(document, name))


def _name(entry: Any) -> str:
    return str(entry.get("name")) if isinstance(entry, dict) else ""


def _change(file: Path, changed: Callable[[Document], Document]) -> bool:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file):
        before = _read(file)
        after = changed(before)
        if after == before:
            return False
        target = file.resolve()  # keep a symbolic link
        found = target.stat() if target.exists() else None
        data = yaml.safe_dump(after, sort_keys=False, allow_unicode=True).encode()
        write_atomic(target, data, found.st_mode & 0o777 if found else 0o600)
        if found is not None and found.st_uid != os.geteuid():
            os.chown(target, found.st_uid, found.st_gid)
    return True


def _read(file: Path) -> Document:
    try:
        document = yaml.safe_load(file.read_text()) if file.exists() else {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadKubeconfig(f"kubeconfig {file} is no YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(document.get(name) or [], list) for name in SECTIONS):
        raise BadKubeconfig(f"kubeconfig {file} is not a kubeconfig: it is left as it is")
    return document


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = file.with_name(file.name + ".lock")
    for attempt in range(LOCK_TRIES):
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            break
        except FileExistsError:
            if attempt == LOCK_TRIES - 1:
                raise BadKubeconfig(
                    f"{lock} exists: another program is changing {file}. If none is, remove the lock and try again"
                ) from None
            time.sleep(LOCK_WAIT_S)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
