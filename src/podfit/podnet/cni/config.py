"""The CNI configuration of a folder: a list of plugins, from a .conflist or a single .conf or .json.

The first file by name is used, as in every runtime. If it is invalid, that is an error that names it: using the next
file instead would connect pods to the wrong network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from podfit.podnet.failures import NetworkFailure

_ENDINGS = (".conf", ".conflist", ".json")
NEWEST = (1, 1, 0)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")


class NetworkConfig(Struct, frozen=True):
    name: str
    version: str
    plugins: tuple[dict[str, Any], ...]
    disable_check: bool = False
    disable_gc: bool = False

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that some plugin of the chain supports."""
        return frozenset(
            name for plugin in self.plugins for name, on in (plugin.get("capabilities") or {}).items() if on is True
        )


def version_of(text: str) -> tuple[int, int, int]:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f'cniVersion "{text}" is not of the form 1.0.0')
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch)


def files(folder: Path) -> list[Path]:
    try:
        return sorted(file for file in folder.iterdir() if file.suffix in _ENDINGS and file.is_file())
    except OSError:
        return []


def load(folder: Path) -> NetworkConfig | None:
    """The configuration in use; None if there is none. Raises NetworkFailure for an invalid one."""
    for file in files(folder):
        try:
            return parse(file.read_bytes(), file.suffix == ".conflist")
        except FileNotFoundError:
            continue  # removed between the listing and the reading
        except (OSError, ValueError) as error:
            raise NetworkFailure(f"CNI configuration {file}: {error}") from error
    return None


def parse(content: bytes, is_list: bool) -> NetworkConfig:
    """Parses a configuration file. Raises ValueError with the reason if it is invalid."""
    try:
        body = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")
    plugins = body.get("plugins") if is_list else [body]
    if not is_list and "plugins" in body:
        raise ValueError("a list of plugins belongs into a .conflist")
    if not isinstance(plugins, list) or not plugins:
        raise ValueError("has no plugins")
    for at, plugin in enumerate(plugins):
        _check_plugin(plugin, f"plugins[{at}]" if is_list else "the configuration")
    name = body.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"invalid network name {name!r}" if name else "has no name")
    return NetworkConfig(name, _version(body), tuple(plugins), _flag(body, "disableCheck"), _flag(body, "disableGC"))


def _check_plugin(plugin: object, where: str) -> None:
    if not isinstance(plugin, dict):
        raise ValueError(f"{where} is not an object")
    kind = plugin.get("type")
    if not isinstance(kind, str) or not kind:
        raise ValueError(f'{where} has no "type"')
    if "/" in kind or kind in (".", ".."):
        raise ValueError(f'{where}: plugin type "{kind}" is not the name of a program')
    if not isinstance(plugin.get("capabilities") or {}, dict):
        raise ValueError(f"{where}: capabilities is not an object")


def _version(body: dict[str, Any]) -> str:
    """The newest supported one of `cniVersions` and `cniVersion`; without either, the specification's first."""
    given = body.get("cniVersion", "")
    listed = body.get("cniVersions") or []
    if not isinstance(given, str) or not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise ValueError("cniVersion is not a string")
    known: list[str] = [text for text in (*listed, *([given] if given else [])) if version_of(text) <= NEWEST]
    if not known:
        if given or listed:
            newest = ".".join(str(part) for part in NEWEST)
            raise ValueError(f"cniVersion {given or ', '.join(listed)} is not supported: the newest is {newest}")
        return "0.1.0"
    return max(known, key=version_of)


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"{name} is not true or false")
    return value
