"""The two services of CRI, RuntimeService and ImageService, as gRPC callables and handlers.

Both are created from the compiled descriptors, so they need no generated gRPC module and work with any release of
grpcio. A client calls `calls(channel, RUNTIME)["Version"](VersionRequest(), timeout=2)`. A server passes an object
whose methods are named like the calls (`async def Version(self, request, context)`); a streaming call is an async
generator. Calls that the object does not define are answered with UNIMPLEMENTED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from . import api_pb2

RUNTIME, IMAGE = "RuntimeService", "ImageService"
MAX_MESSAGE_BYTES = 16 << 20
"""The kubelet's limit: a list of all containers of a node fits."""
OPTIONS = (("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES))
"""For both ends: `grpc.aio.insecure_channel(url, options=OPTIONS)`, `grpc.aio.server(options=OPTIONS)`."""

Call = Callable[..., Any]


def method_path(service: str, method: str) -> str:
    return f"/runtime.v1.{service}/{method}"


def calls(channel: grpc.aio.Channel, service: str) -> Mapping[str, Call]:
    """The callables of a service by the names of its calls."""
    found: dict[str, Call] = {}
    for method in api_pb2.DESCRIPTOR.services_by_name[service].methods:
        make = channel.unary_stream if method.server_streaming else channel.unary_unary
        found[method.name] = make(
            method_path(service, method.name),
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
    return found


def handler(service: str, servicer: object) -> grpc.GenericRpcHandler:
    """The gRPC handler of a service: `server.add_generic_rpc_handlers((handler(RUNTIME, servicer),))`."""
    methods: dict[str, Any] = {}
    for method in api_pb2.DESCRIPTOR.services_by_name[service].methods:
        work = getattr(servicer, method.name, None)
        if work is None:
            continue
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        methods[method.name] = make(
            work,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(f"runtime.v1.{service}", methods)
