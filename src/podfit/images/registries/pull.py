"""Pulls an image: resolves its name, downloads missing content, verifies it, and adds it to the store.

Interrupted downloads are resumed, in this pull or a later one. Concurrent pulls that need the same layer download it
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import aiohttp

from podfit.images.content.digests import CHUNK, Hash, hasher, matches, sha256, update_from
from podfit.images.content.manifests import (
    Descriptor,
    Manifest,
    Platform,
    choose,
    document,
    is_index,
    read_manifest,
    this_platform,
)
from podfit.images.errors import BrokenImage, ImageError, PullFailed
from podfit.images.index import StoredImage
from podfit.images.references import Reference
from podfit.images.registries.credentials import Credentials
from podfit.images.registries.registry import NETWORK, CannotResume, Registry
from podfit.images.store import ImageStore
from podfit.kit.process.oserrors import system_words

Result = TypeVar("Result")
STALL_S = 30.0
"""A registry that sends nothing for this long counts as stalled."""
_LAYERS_AT_ONCE = 3
_FUTILE = 3
"""A download is aborted after this many consecutive attempts with almost no progress."""
_TRICKLE, _WINDOWS = 64 << 10, 5
"""At least this many bytes must arrive within this multiple of the inactivity timeout."""
_SPARE = 64 << 20
"""Bytes that a pull leaves free on the image disk."""


class Puller:
    def __init__(
        self,
        store: ImageStore,
        insecure: Collection[str] = (),
        stall_s: float = STALL_S,
        platform: Platform | None = None,
    ) -> None:
        """`insecure`: registries that may be contacted without TLS, or with any certificate, like those on loopback."""
        self._store, self._insecure, self._stall_s = store, tuple(insecure), stall_s
        self._platform = platform or this_platform()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(4, "images")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def pull(self, reference: Reference, credentials: Credentials | None = None) -> StoredImage:
        registry = Registry(reference.registry, credentials, self._insecure, self._stall_s)
        try:
            with contextlib.ExitStack() as held:
                await self._in_thread(held.enter_context, self._store.collecting())
                return await self._pull(registry, reference)
        except NETWORK as error:
            raise PullFailed(_whole(reference, _network_words(error, reference.registry))) from error
        except ImageError as error:
            raise PullFailed(_whole(reference, str(error))) from error
        finally:
            await registry.close()

    async def _pull(self, registry: Registry, reference: Reference) -> StoredImage:
        try:
            manifest, digest = await self._resolve(registry, reference)
        except PullFailed as error:
            raise PullFailed(f'failed to resolve reference "{reference}": {_of(reference, error)}') from error
        missing = {
            part.digest: part for part in (manifest.config, *manifest.layers) if not self._store.has(part.digest)
        }
        self._check_room(missing.values())
        try:
            await _all(self._fetch(registry, reference.repository, part) for part in missing.values())
        except PullFailed as error:
            raise PullFailed(f"failed to copy: {error}") from error
        async with self._turn(manifest.config.digest):
            added: StoredImage = await self._in_thread(self._store.add, manifest, digest, (reference,))
            return added

    # --- manifests
    async def _resolve(self, registry: Registry, reference: Reference) -> tuple[Manifest, str]:
        """The manifest for this machine, and the registry's digest of the image."""
        raw, media_type, digest = await self._document(registry, reference, reference.digest or reference.tag)
        found = document(raw, "the manifest")
        outer = digest
        if is_index(found):
            raw, media_type, _ = await self._document(registry, reference, choose(found, self._platform).digest)
            found = document(raw, "the manifest")
        return read_manifest(found, media_type), outer

    async def _document(self, registry: Registry, reference: Reference, which: str) -> tuple[bytes, str, str]:
        raw, media_type, claimed = await registry.manifest(reference.repository, which)
        wanted = which if ":" in which else claimed
        if wanted and not _is(raw, wanted):
            raise PullFailed(f"the registry gave a manifest that is not {wanted}")
        return raw, media_type, which if ":" in which else sha256(raw)

    # --- layers
    def _check_room(self, missing: Iterable[Descriptor]) -> None:
        needed, disk = sum(part.size for part in missing), os.statvfs(self._store.folder)
        free = disk.f_bavail * disk.f_frsize - _SPARE
        if needed > max(free, 0):
            raise PullFailed(f"no space left on the image disk: {needed} bytes to download, {max(free, 0)} bytes free")

    async def _fetch(self, registry: Registry, repository: str, part: Descriptor) -> None:
        async with self._turn(part.digest):
            if self._store.has(part.digest):
                return
            with _Download.of(self._store, part) as download:
                await self._in_thread(download.resume)
                resumed = download.have > 0
                await self._download(registry, repository, download)
                if not download.verified and resumed:
                    # The data of an earlier attempt may be corrupt.
                    download.restart()
                    await self._download(registry, repository, download)
                if not download.verified:
                    download.discard()
                    raise PullFailed(f"failed to verify {part.digest}: the registry gave other content")
                await self._in_thread(self._store.settle, download.file, part.digest)

    async def _download(self, registry: Registry, repository: str, download: _Download) -> None:
        futile = 0
        while download.have < download.part.size:
            before = download.have
            try:
                await self._transfer(registry, repository, download)
            except CannotResume:
                download.restart()
                futile += 1
            except NETWORK as error:
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    download.discard()  # a partial layer uses space that others need
                    raise
                futile = 0 if download.have - before >= _TRICKLE else futile + 1
                if futile >= _FUTILE:
                    raise
            else:
                futile = 0 if download.have - before >= _TRICKLE else futile + 1
            if futile >= _FUTILE:
                raise PullFailed(f"{download.part.digest} ends after {download.have} of {download.part.size} bytes")

    async def _transfer(self, registry: Registry, repository: str, download: _Download) -> None:
        async with registry.blob(repository, download.part.digest, download.have) as (content, start):
            if start != download.have:
                download.restart()
            pieces: list[bytes] = []
            pace = _StallTimer(self._stall_s)
            try:
                async for piece in content.iter_any():
                    pace.received(len(piece))
                    pieces.append(piece)
                    if sum(map(len, pieces)) >= CHUNK:
                        full, pieces = pieces, []
                        await self._in_thread(download.write, b"".join(full))
            finally:
                if pieces:
                    download.write(b"".join(pieces))

    async def _in_thread(self, work: Any, *given: Any) -> Any:
        sys.setswitchinterval(min(sys.getswitchinterval(), 0.001))  # yields to the loop while a thread unpacks
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def _turn(self, digest: str) -> asyncio.Lock:
        return self._turns.setdefault(digest, asyncio.Lock())


@dataclass
class _Download:
    part: Descriptor
    file: Path
    descriptor: int
    have: int = 0
    running: Hash | None = None

    @classmethod
    def of(cls, store: ImageStore, part: Descriptor) -> _Download:
        """The file of an interrupted download, unless another process is writing it."""
        file = store.partial(part.digest)
        while True:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                file = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
                continue
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == file.stat().st_ino:
                    return cls(part, file, descriptor)
            # Meanwhile another process completed it and gave it its final name: it must not be written any more.
            os.close(descriptor)

    def __enter__(self) -> _Download:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)
        if self.file.suffix:
            self.file.unlink(missing_ok=True)

    def resume(self) -> None:
        self.running = hasher(self.part.digest)
        self.have = update_from(self.running, self.file)
        if self.have > self.part.size:
            self.restart()

    def restart(self) -> None:
        os.ftruncate(self.descriptor, 0)
        self.have, self.running = 0, hasher(self.part.digest)

    def discard(self) -> None:
        self.restart()
        self.file.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        if self.have + len(data) > self.part.size:
            self.discard()
            raise PullFailed(f"{self.part.digest} is longer than the {self.part.size} bytes in its manifest")
        assert self.running is not None
        view = memoryview(data)
        while view:
            done = os.pwrite(self.descriptor, view, self.have)
            self.running.update(view[:done])
            self.have += done
            view = view[done:]

    @property
    def verified(self) -> bool:
        return self.running is not None and self.running.hexdigest() == self.part.digest.partition(":")[2]


class _StallTimer:
    """Aborts a transfer that trickles: each byte arrives before the timeout, but the whole takes forever."""

    def __init__(self, stall_s: float) -> None:
        self._window_s, self._since, self._bytes = stall_s * _WINDOWS, time.monotonic(), 0

    def received(self, size: int) -> None:
        self._bytes += size
        if self._bytes >= _TRICKLE:
            self._since, self._bytes = time.monotonic(), 0
        elif time.monotonic() - self._since > self._window_s:
            raise TimeoutError


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all coroutines, a few at a time; the first failure cancels the others."""
    slots = asyncio.Semaphore(_LAYERS_AT_ONCE)

    async def one(each: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await each

    waiting = list(work)
    tasks = [asyncio.ensure_future(one(each)) for each in waiting]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in waiting:
            each.close()


def _is(raw: bytes, digest: str) -> bool:
    try:
        return matches(raw, digest)
    except ValueError:
        raise BrokenImage(f"unknown digest {digest[:80]!r}") from None


def _of(reference: Reference, error: PullFailed) -> str:
    return f"{reference}: {error}" if str(error) == "not found" else str(error)


def _whole(reference: Reference, why: str) -> str:
    return f'failed to pull and unpack image "{reference}": {why}'


def _network_words(error: BaseException, registry: str) -> str:
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return f"the registry {registry} does not answer: no data before the timeout"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {error.host} cannot be verified: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"no secure connection to {error.host}:{error.port}: {error.os_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect to {error.host}:{error.port}: {system_words(error.os_error)}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return f"no space left on the image disk: {system_words(error)}"
    return system_words(error) or type(error).__name__
