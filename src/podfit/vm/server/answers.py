"""Converts records to CRI messages, applies filters, and maps failures to gRPC statuses."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc

from podfit.cri import api_pb2 as cri
from podfit.images.errors import ImageInUse, NoSuchImage
from podfit.images.references import InvalidReference
from podfit.podnet.failures import NetworkFailure
from podfit.vm.decide import refusals
from podfit.vm.decide.sizes import Limits
from podfit.vm.guest.disks import DiskFailed
from podfit.vm.guest.images import ImageError, ImageMissing, ImageUnusable
from podfit.vm.machines.guest import AgentFailed
from podfit.vm.machines.hypervisor import LibvirtFailed
from podfit.vm.moving.places import CannotMove
from podfit.vm.records import CREATED, EXITED, RUNNING, Container, Sandbox

log = logging.getLogger(__name__)
Answer = TypeVar("Answer")

STATES = {
    CREATED: cri.ContainerState.CONTAINER_CREATED,
    RUNNING: cri.ContainerState.CONTAINER_RUNNING,
    EXITED: cri.ContainerState.CONTAINER_EXITED,
}
# UNAVAILABLE is not used for failures of a guest, because callers take it for a runtime that is down.
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (refusals.Invalid, grpc.StatusCode.INVALID_ARGUMENT),
    (refusals.BeyondMaximum, grpc.StatusCode.OUT_OF_RANGE),
    (refusals.OutOfSlots, grpc.StatusCode.OUT_OF_RANGE),
    (refusals.GuestUnsupported, grpc.StatusCode.FAILED_PRECONDITION),
    (refusals.GuestBusy, grpc.StatusCode.ABORTED),
    (CannotMove, grpc.StatusCode.FAILED_PRECONDITION),
    (ImageMissing, grpc.StatusCode.NOT_FOUND),
    (ImageUnusable, grpc.StatusCode.FAILED_PRECONDITION),
    (ImageInUse, grpc.StatusCode.FAILED_PRECONDITION),
    (NoSuchImage, grpc.StatusCode.NOT_FOUND),
    (ImageError, grpc.StatusCode.UNAVAILABLE),
    (InvalidReference, grpc.StatusCode.INVALID_ARGUMENT),
    (NetworkFailure, grpc.StatusCode.UNAVAILABLE),
    (DiskFailed, grpc.StatusCode.INTERNAL),
    (AgentFailed, grpc.StatusCode.FAILED_PRECONDITION),
    (TimeoutError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (OverflowError, grpc.StatusCode.INVALID_ARGUMENT),
)


class NotFound(Exception):
    """No sandbox or container with this ID."""


class WrongState(Exception):
    """The container or sandbox is not in a state that allows the call."""


def code_of(error: Exception) -> grpc.StatusCode:
    if isinstance(error, NotFound):
        return grpc.StatusCode.NOT_FOUND
    if isinstance(error, WrongState):
        return grpc.StatusCode.FAILED_PRECONDITION
    if isinstance(error, LibvirtFailed):
        if error.unanswered:
            return grpc.StatusCode.ABORTED
        return grpc.StatusCode.UNAVAILABLE if error.gone else grpc.StatusCode.INTERNAL
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.UNKNOWN)


def answered(call: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """Wraps a call whose failures become gRPC statuses with the cause as message."""

    @functools.wraps(call)
    async def wrapped(self: Any, request: Any, context: grpc.aio.ServicerContext) -> Answer:
        try:
            return await call(self, request, context)
        except (NotImplementedError, grpc.aio.AbortError):
            raise
        except Exception as error:
            code = code_of(error)
            if code is grpc.StatusCode.UNKNOWN:
                log.exception("%s failed", call.__name__)
            await context.abort(code, str(error) or type(error).__name__)
            raise

    return wrapped


def limits_from(resources: cri.LinuxContainerResources) -> Limits:
    return Limits(
        cpu_period=resources.cpu_period,
        cpu_quota=resources.cpu_quota,
        cpu_shares=resources.cpu_shares,
        memory_bytes=resources.memory_limit_in_bytes,
        cpuset_cpus=resources.cpuset_cpus,
        cpuset_mems=resources.cpuset_mems,
    )


def resources_from(limits: Limits) -> cri.ContainerResources:
    linux = cri.LinuxContainerResources(
        cpu_period=limits.cpu_period,
        cpu_quota=limits.cpu_quota,
        cpu_shares=limits.cpu_shares,
        memory_limit_in_bytes=limits.memory_bytes,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
    )
    return cri.ContainerResources(linux=linux)


def sandbox_state(sandbox: Sandbox) -> cri.PodSandboxState:
    return cri.PodSandboxState.SANDBOX_READY if sandbox.ready else cri.PodSandboxState.SANDBOX_NOTREADY


def listed_sandbox(sandbox: Sandbox) -> cri.PodSandbox:
    config = sandbox.config
    return cri.PodSandbox(
        id=sandbox.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_ns,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.handler,
    )


def sandbox_status(sandbox: Sandbox) -> cri.PodSandboxStatus:
    config = sandbox.config
    return cri.PodSandboxStatus(
        id=sandbox.id,
        metadata=config.metadata,
        state=sandbox_state(sandbox),
        created_at=sandbox.created_ns,
        network=cri.PodSandboxNetworkStatus(ip=sandbox.address),
        linux=cri.LinuxPodSandboxStatus(
            namespaces=cri.Namespace(options=config.linux.security_context.namespace_options)
        ),
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.handler,
    )


def listed_container(container: Container) -> cri.Container:
    config = container.config
    return cri.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        metadata=config.metadata,
        image=_named(config.image),
        image_ref=container.image.id,
        image_id=container.image.id,
        state=STATES[container.state],
        created_at=container.created_ns,
        labels=config.labels,
        annotations=config.annotations,
    )


def container_status(container: Container, actual: Limits, log_path: str) -> cri.ContainerStatus:
    config = container.config
    return cri.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=STATES[container.state],
        created_at=container.created_ns,
        started_at=container.started_ns,
        finished_at=container.finished_ns,
        exit_code=container.exit_code,
        image=_named(config.image),
        image_ref=container.image.id,
        image_id=container.image.id,
        reason=container.reason,
        message=container.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=log_path,
        resources=resources_from(actual),
    )


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def sandbox_matches(sandbox: Sandbox, wanted: cri.PodSandboxFilter) -> bool:
    return (
        sandbox.id.startswith(wanted.id)
        and (not wanted.HasField("state") or wanted.state.state == sandbox_state(sandbox))
        and has_labels(sandbox.config.labels, wanted.label_selector)
    )


def container_matches(container: Container, wanted: cri.ContainerFilter) -> bool:
    return (
        container.id.startswith(wanted.id)
        and (not wanted.HasField("state") or wanted.state.state == STATES[container.state])
        and container.sandbox_id.startswith(wanted.pod_sandbox_id)
        and has_labels(container.config.labels, wanted.label_selector)
    )


def _named(image: cri.ImageSpec) -> cri.ImageSpec:
    """The image spec with the image's name from the pod's spec, because callers put the image's ID in `image`."""
    return cri.ImageSpec(image=image.user_specified_image or image.image, annotations=image.annotations)
