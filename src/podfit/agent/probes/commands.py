"""Runs the commands of hooks, probes and the server's `run` endpoint in containers."""

from __future__ import annotations

from podfit.agent.runtimes.base import Runtime


async def run_command(runtime: Runtime, container_id: str, command: list[str]) -> tuple[int, str]:
    """Exit code and the beginning of the output of a command in a container, standard error last."""
    code, output, errors = await run(runtime, container_id, command)
    return code, output + errors


async def run(runtime: Runtime, container_id: str, command: list[str]) -> tuple[int, str, str]:
    code, output, errors = await runtime.exec_sync(container_id, list(command))
    return code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")
