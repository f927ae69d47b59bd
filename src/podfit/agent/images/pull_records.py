"""Records which pods may run an image that is present: those that could pull it.

An image pulled with credentials is not available to every pod of the node. Digests of the credentials it was pulled
with are recorded; a pod with other ones, or with none, has to pull it itself. Images that this agent did not pull were
put on the node by its administrator and are available to all.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from podfit.images.index import locked
from podfit.images.registries.credentials import Credentials
from podfit.kit.files.atomicfile import write_atomic

log = logging.getLogger(__name__)


PULLS = "image-pulls.json"


class _Pulled(Struct, frozen=True):
    anyone: bool = False
    """Whether a pull without credentials succeeded."""
    digests: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(dict[str, _Pulled])


class PullRecords:
    """Shared by all agents of a data directory, as their images are."""

    def __init__(self, file: Path | None, durable: bool = True) -> None:
        """`file`: None keeps the records in memory."""
        self._file, self._durable = file, durable
        self._kept: tuple[tuple[int, int, int] | None, dict[str, _Pulled]] = (None, {})

    def pulled(self, image_id: str, credentials: Credentials | None) -> None:
        """`credentials`: the pod's own; None for a pull that every pod of the node could have made."""
        with self._changing() as records:
            before = records.get(image_id, _Pulled())
            if credentials is None:
                records[image_id] = _Pulled(True, before.digests)
            else:
                digests = dict.fromkeys((*before.digests, _digest(credentials)))
                records[image_id] = _Pulled(before.anyone, tuple(digests))

    def is_open(self, image_id: str) -> bool:
        """Whether every pod may use the image."""
        record = self._read().get(image_id)
        return record is None or record.anyone

    def may_use(self, image_id: str, credentials: Iterable[Credentials]) -> bool:
        record = self._read().get(image_id)
        return (
            record is None or record.anyone or any(_digest(credential) in record.digests for credential in credentials)
        )

    def keep(self, image_ids: Collection[str]) -> None:
        """Drops records of deleted images: if one comes back by other means, it is the administrator's."""
        if self._read().keys() - set(image_ids):
            with self._changing() as records:
                for image_id in records.keys() - set(image_ids):
                    del records[image_id]

    def _read(self) -> dict[str, _Pulled]:
        if self._file is None:
            return self._kept[1]
        try:
            found = self._file.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._kept[0]:
                self._kept = (seen, _decoder.decode(self._file.read_bytes()))
        except FileNotFoundError:
            self._kept = (None, {})
        except msgspec.DecodeError as error:
            log.error("%s cannot be read: %s", self._file, error)
            self._kept = (None, {})
        return self._kept[1]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, _Pulled]]:
        with locked(self._file.with_suffix(".lock")) if self._file is not None else contextlib.nullcontext():
            records = dict(self._read())
            yield records
            if self._file is None:
                self._kept = (None, records)
            elif records != self._kept[1]:
                write_atomic(self._file, msgspec.json.encode(records), durable=self._durable)


def _digest(credentials: Credentials) -> str:
    """A digest of what the registry gets, not of its source."""
    secret = (credentials.username, credentials.password, credentials.identity_token, credentials.registry_token)
    return hashlib.sha256(msgspec.json.encode(secret)).hexdigest()
