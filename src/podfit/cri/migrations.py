"""A service beside CRI's: moves a running container from one runtime to another. Its messages are JSON objects.

A runtime that moves VMs serves it on the socket of its CRI services; every other runtime answers UNIMPLEMENTED.

| call | sent to | request | response |
|---|---|---|---|
| Offer | the source | `id` | `offer`: the description of the VM for the destination |
| Prepare | the destination | `sandbox`, `config` (base64), `offer` | `place`: where the container is expected |
| Move | the source | `id`, `place` | `{}` once it runs at the destination |
| Adopt | the destination | `id` | `{}`: its log is written from now on, appended to the log from the source |
| Stay | the source | `id` | `{}`: the move is cancelled, the container continues at the source |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import msgspec

SERVICE = "podfit.vm.v1.Migrations"
METHODS = ("Offer", "Prepare", "Move", "Adopt", "Stay")


def migration_calls(channel: grpc.aio.Channel) -> Mapping[str, Any]:
    return {
        name: channel.unary_unary(
            f"/{SERVICE}/{name}", request_serializer=msgspec.json.encode, response_deserializer=msgspec.json.decode
        )
        for name in METHODS
    }


def migration_handler(servicer: object) -> grpc.GenericRpcHandler:
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, name),
            request_deserializer=msgspec.json.decode,
            response_serializer=msgspec.json.encode,
        )
        for name in METHODS
    }
    return grpc.method_handlers_generic_handler(SERVICE, methods)
