"""Starts the components of a cluster in order."""

from __future__ import annotations

import asyncio

from podfit.api.status import ApiError
from podfit.client.kubeconfig import load
from podfit.client.rest import Client
from podfit.client.transport import Unreachable

from .programs import PARTS, Programs

START_S = 120.0


async def answering(programs: Programs) -> Client:
    """A client of the API server, once it is ready."""
    async with asyncio.timeout(START_S):
        while True:
            if programs.config("admin").exists():
                client = Client(load(str(programs.config("admin"))).transport("story"))
                try:
                    if await client.raw("GET", "/readyz") == "ok":
                        return client
                except (ApiError, Unreachable):
                    pass
                await client.close()
            await asyncio.sleep(0.1)


async def start(programs: Programs, theirs: dict[str, bool]) -> Client:
    """Starts the named components, each Kubernetes' own or podfit's."""
    programs.starter("apiserver", theirs["apiserver"])()
    client = await answering(programs)
    if not theirs["apiserver"]:
        programs.own_configs()
    for part in ("controllers", "scheduler", "node"):
        if part in theirs:
            programs.starter(part, theirs[part])()
    return client


def last_lines(programs: Programs) -> str:
    texts = []
    for name in PARTS:
        log = programs.log(name)
        lines = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
        texts.append("\n".join([f"--- {name}", *lines]))
    return "\n".join(texts)
