"""Provides the image of a container: found on the node, or pulled according to its policy, with a back-off after
failures.

Works with every runtime. Reasons, messages and Events are the kubelet's. Pulls run outside the pod's passes; the number
of pulls per registry is limited, so that a stalled registry does not block images of another.
"""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakValueDictionary

from podfit.agent.core import Core
from podfit.agent.images.pull_records import PullRecords
from podfit.agent.images.pull_secrets import PullSecrets
from podfit.agent.pods.events import NORMAL, WARNING
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import ImageMissing, RuntimeFailure, invalid_image
from podfit.api.objects import Object
from podfit.api.resize.states import every_container
from podfit.images.references import InvalidReference, Reference, parse
from podfit.images.registries.credentials import BadCredentials, Credentials
from podfit.kit.backoff import Backoff
from podfit.kit.durations import go_duration
from podfit.kit.process.oserrors import system_words

log = logging.getLogger(__name__)

_REPORT_AFTER_S = 0.05
"""An image that is present is found within this time; a pull continues in the background."""
_PULL_FAILED_S = 1.0
"""The time for which a failed pull is reported as ErrImagePull before it is reported as ImagePullBackOff."""
_CHECK_EVERY_S = 10.0
"""The interval at which, during a back-off, the node is checked for an image that was loaded by other means."""
_PULL_FAILED = "ErrImagePull"
_BACKING_OFF = "ImagePullBackOff"
_NEVER = "ErrImageNeverPull"
_EVENTS = {_NEVER: _NEVER, "InvalidImageName": "InspectFailed"}
_RUNTIME_REASONS = {
    "RegistryUnavailable": "because the registry is unavailable",
    "SignatureValidationFailed": "because the signature validation failed",
}
"""Reasons that a CRI runtime prefixes to its message."""


class PullSlots:
    """Limits the number of concurrent pulls."""

    def __init__(self, per_registry: int, most: int = 0) -> None:
        """`most`: a limit for all registries together instead; 0 for no such limit."""
        self._count, self._shared = most or per_registry, bool(most)
        self._slots: dict[str, asyncio.Semaphore] = {}

    def of(self, registry: str) -> asyncio.Semaphore:
        return self._slots.setdefault("" if self._shared else registry, asyncio.Semaphore(self._count))


class ImagePulls:
    def __init__(self, core: Core, secrets: PullSecrets, pulls: PullRecords, slots: PullSlots) -> None:
        self._core, self._secrets, self._pulls, self._slots = core, secrets, pulls, slots
        self._runtime, self._events, self._clock = core.runtime, core.events, core.clock
        self._backoff = Backoff(10.0, 300.0)
        self._failures: dict[tuple[str, str], tuple[float, str]] = {}
        """The time (monotonic) before which no pull is tried, and the error of the last pull, by pod and image."""
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def get(self, record: PodRecord, container: Object) -> str | None:
        """The image's ID; None while it is being pulled or cannot be pulled."""
        return await self._get(record, container, "")

    async def has_mounted(self, record: PodRecord, container: Object) -> bool:
        """Whether the images that the container mounts as volumes are present."""
        mounted = {mount["name"] for mount in container.get("volumeMounts") or ()}
        for volume in record.pod["spec"].get("volumes") or ():
            if volume["name"] not in mounted or volume.get("image") is None:
                continue
            wanted = _as_container(container["name"], volume["image"])
            if await self._get(record, wanted, volume["name"]) is None:
                return False
        return True

    async def _get(self, record: PodRecord, container: Object, volume: str) -> str | None:
        name, image = container["name"], container["image"]
        job = f"image:{name}:{volume}"
        if (name, image) not in record.images and not record.jobs.running(job):
            record.jobs.start(job, self._fetch(record, name, volume), self._core.tasks)
            await record.jobs.wait(job, _REPORT_AFTER_S)
        return record.images.get((name, image))

    def used(self, record: PodRecord, container: Object) -> None:
        """Forgets the images of a container that was created, or failed to be: they are looked up again for the next
        one."""
        for key in [key for key in record.images if key[0] == container["name"]]:
            del record.images[key]

    def forget(self, uid: str) -> None:
        for key in [key for key in self._failures if key[0] == uid]:
            del self._failures[key]
            self._backoff.forget(key)

    async def _fetch(self, record: PodRecord, name: str, volume: str) -> None:
        """Runs until the container has its image or the pod terminates. The pod's image may change meanwhile."""
        try:
            while (container := _wanted(record, name, volume)) is not None:
                turn = self._turns.setdefault((record.uid, container["image"]), asyncio.Lock())
                try:
                    async with turn:
                        found = await self._ensure(record, container)
                    record.images[name, container["image"]] = found
                    record.waiting.clear(name)
                    return
                except (RuntimeFailure, OSError) as error:
                    missing = error if isinstance(error, ImageMissing) else ImageMissing(system_words(error))
                except Exception as error:
                    # If the task ended here, the next pass would restart it without a delay.
                    log.exception("pod %s: getting image %s failed", record.uid, container["image"])
                    missing = ImageMissing(str(error))
                await self._without(record, container, volume, missing)
        finally:
            self._core.queue.enqueue(record.uid)

    async def _ensure(self, record: PodRecord, container: Object) -> str:
        name, image = container["name"], container["image"]
        try:
            reference = parse(image)
        except InvalidReference as error:
            raise invalid_image(image, str(error)) from error
        state, policy = await self._runtime.image_status(image, record.handler), _policy(container)
        if state is not None and state.host_files:
            return state.id
        if state is not None and policy != "Always" and await self._may_use(record, state.id, reference):
            self._pulled(record, image)
            message = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._events.emit(record.pod, NORMAL, "Pulled", message, name)
            return state.id
        if policy == "Never":
            raise ImageMissing(f'Container image "{image}" is not present with pull policy of Never', _NEVER)
        until, why = self._failures.get((record.uid, image), (0.0, ""))
        if until > self._clock.monotonic():
            raise ImageMissing(f'Back-off pulling image "{image}": {why}', _BACKING_OFF)
        return await self._pull(record, name, image, reference)

    # --- pulling
    async def _pull(self, record: PodRecord, name: str, image: str, reference: Reference) -> str:
        self._events.emit(record.pod, NORMAL, "Pulling", f'Pulling image "{image}"', name)
        since = self._clock.monotonic()
        credentials = await self._credentials(record, reference)
        async with self._slots.of(reference.registry):
            began = self._clock.monotonic()
            found = await self._try_each(image, credentials, self._secrets.of_node(reference), record.handler)
            ended = self._clock.monotonic()
        self._pulled(record, image)
        state = await self._runtime.image_status(image, record.handler)
        took, waited = _rendered(ended - began), _rendered(ended - since)
        how = f"in {took} ({waited} including waiting). Image size: {state.size_bytes if state else 0} bytes."
        self._events.emit(record.pod, NORMAL, "Pulled", f'Successfully pulled image "{image}" {how}', name)
        return found

    async def _credentials(self, record: PodRecord, reference: Reference) -> list[Credentials]:
        try:
            return await self._secrets.credentials(record, reference)
        except BadCredentials as error:
            raise ImageMissing(str(error)) from error

    async def _may_use(self, record: PodRecord, image_id: str, reference: Reference) -> bool:
        """A pod may use an image that others pulled if it could have pulled it itself."""
        if self._pulls.is_open(image_id):
            return True
        return self._pulls.may_use(image_id, await self._credentials(record, reference))

    async def _try_each(self, image: str, own: list[Credentials], of_node: list[Credentials], handler: str) -> str:
        """Tries all matching credentials in turn; without any, an anonymous pull."""
        reasons: list[str] = []
        tries: list[Credentials | None] = [*own, *of_node] or [None]
        for each in tries:
            try:
                found = await self._runtime.pull_image(image, each, handler)
            except ImageMissing as error:
                reasons.append(str(error))
            else:
                self._pulls.pulled(found, each if each in own else None)
                return found
        distinct = list(dict.fromkeys(reasons))
        raise ImageMissing(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")

    def _pulled(self, record: PodRecord, image: str) -> None:
        self._failures.pop((record.uid, image), None)
        self._backoff.forget((record.uid, image))

    # --- failures
    async def _without(self, record: PodRecord, container: Object, volume: str, missing: ImageMissing) -> None:
        """Reports the failure, and returns when it is time to retry."""
        name, image, reason, text = container["name"], container["image"], missing.reason, str(missing)
        if reason == _PULL_FAILED:
            self._events.emit(record.pod, WARNING, "Failed", f'Failed to pull image "{image}": {text}', name)
            reason, text = _runtime_reason(image, text)
            self._start_backoff(record, image, f"{reason}: {text}")
            self._report(record, name, reason, text)
            await self._clock.sleep(_PULL_FAILED_S)
            reason, text = _BACKING_OFF, f'Back-off pulling image "{image}": {reason}: {text}'
        if reason == _BACKING_OFF:
            self._events.emit(record.pod, NORMAL, "BackOff", f'Back-off pulling image "{image}"', name)
        else:
            self._events.emit(record.pod, WARNING, _EVENTS.get(reason, "Failed"), text, name)
        self._report(record, name, reason, text)
        await self._until_worth_trying(record, container, volume)

    def _start_backoff(self, record: PodRecord, image: str, why: str) -> None:
        pause = self._backoff.next((record.uid, image))
        self._failures[record.uid, image] = (self._clock.monotonic() + pause, why)

    def _report(self, record: PodRecord, name: str, reason: str, message: str) -> None:
        record.waiting.set(name, reason, message)
        record.story.add("not started", message, container=name)
        self._events.emit(record.pod, WARNING, "Failed", f"Error: {reason}", name)
        self._core.queue.enqueue(record.uid)

    async def _until_worth_trying(self, record: PodRecord, container: Object, volume: str) -> None:
        """Waits for the end of the back-off, another image in the spec, or the image on the node by other means."""
        name, image = container["name"], container["image"]
        while (now := _wanted(record, name, volume)) is not None and now["image"] == image:
            until, _ = self._failures.get((record.uid, image), (float("inf"), ""))
            left = until - self._clock.monotonic()
            if left <= 0 or (_policy(now) != "Always" and await self._here(record, image)):
                return
            await self._clock.sleep(min(left, _CHECK_EVERY_S))

    async def _here(self, record: PodRecord, image: str) -> bool:
        """Whether the pod could start with the image that is present now."""
        try:
            # An invalid reference is rejected before any runtime is called, as in a pull.
            reference = parse(image)
            state = await self._runtime.image_status(image, record.handler)
            return state is not None and (state.host_files or await self._may_use(record, state.id, reference))
        except (RuntimeFailure, OSError, InvalidReference):
            return False


def _wanted(record: PodRecord, name: str, volume: str) -> Object | None:
    """The container whose image is needed, or the volume as if it were one."""
    if record.termination is not None or record.finished:
        return None
    spec = record.pod["spec"]
    if volume:
        found = next(
            (declared.get("image") for declared in spec.get("volumes") or () if declared["name"] == volume), None
        )
        return _as_container(name, found) if found is not None else None
    return next((container for container in every_container(spec) if container["name"] == name), None)


def _as_container(name: str, source: Object) -> Object:
    """A volume's image, for the container that mounts it."""
    return {"name": name, "image": source["reference"], "imagePullPolicy": source.get("pullPolicy")}


def _policy(container: Object) -> str:
    return str(container.get("imagePullPolicy") or "IfNotPresent")


def _runtime_reason(image: str, text: str) -> tuple[str, str]:
    for reason, why in _RUNTIME_REASONS.items():
        if text.startswith(reason):
            return reason, f"image pull failed for {image} {why}{text.removeprefix(reason)}"
    return _PULL_FAILED, text


def _rendered(seconds: float) -> str:
    return go_duration(int(seconds * 1000) / 1000)
