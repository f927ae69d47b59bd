"""Runs a CNI plugin: parameters in the environment, configuration on standard input, the result on standard output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from podfit.podnet.failures import NetworkFailure

_TIMEOUT_S = 120.0
"""A plugin that hangs is killed after this time: its pod waits with the reason; other pods are not affected."""


def find_plugin(kind: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        path = folder / kind
        if path.is_file() and os.access(path, os.X_OK):
            return path
    listed = " ".join(str(folder) for folder in folders)
    raise NetworkFailure(f'failed to find plugin "{kind}" in path [{listed}]')


async def run_plugin(
    command: str, config: Mapping[str, Any], parameters: Mapping[str, str], folders: Sequence[Path]
) -> dict[str, Any]:
    """The plugin's result; {} for commands without one. Raises NetworkFailure with the plugin's own message."""
    kind = str(config["type"])
    program = find_plugin(kind, folders)
    variables = {**parameters, "CNI_COMMAND": command, "CNI_PATH": ":".join(str(folder) for folder in folders)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CNI_")}
    what = f'plugin type="{kind}" failed ({command.lower()})'
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**inherited, **variables},
        )
    except OSError as error:
        raise NetworkFailure(f"{what}: {error.strerror}: {program}") from error
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            output, errors = await process.communicate(msgspec.json.encode(config))
    except TimeoutError as error:
        raise NetworkFailure(f"{what}: no answer within {_TIMEOUT_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise NetworkFailure(f"{what}: {_complaint(output, errors, process.returncode)}")
    return _result(output, what)


def _complaint(output: bytes, errors: bytes, code: int) -> str:
    try:
        answer = msgspec.json.decode(output)
        words = [str(answer[key]) for key in ("msg", "details") if answer.get(key)]
    except (msgspec.DecodeError, AttributeError, TypeError):
        words = []
    return "; ".join(words) or errors.decode("utf-8", "replace").strip() or f"exit code {code}"


def _result(output: bytes, what: str) -> dict[str, Any]:
    if not output.strip():
        return {}
    try:
        answer = msgspec.json.decode(output)
    except msgspec.DecodeError as error:
        raise NetworkFailure(f"{what}: its result is not JSON: {error}") from error
    if not isinstance(answer, dict):
        raise NetworkFailure(f"{what}: its result is not a JSON object")
    return answer
