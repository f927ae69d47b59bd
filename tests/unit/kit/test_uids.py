"""UIDs: random, version 4, and unique across processes."""

from __future__ import annotations

import os
import uuid

from podfit.kit.uids import new_uid


def test_uids_are_random_uuids_and_differ() -> None:
    made = [new_uid() for _ in range(1000)]
    assert len(set(made)) == 1000
    for text in made:
        read = uuid.UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, uuid.RFC_4122)


def test_a_forked_process_draws_uids_of_its_own() -> None:
    new_uid()
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, "".join(new_uid() for _ in range(64)).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as reported:
        text = reported.read()
    os.waitpid(child, 0)
    theirs = {text[start : start + 36] for start in range(0, len(text), 36)}
    assert len(theirs) == 64
    assert theirs.isdisjoint(new_uid() for _ in range(64))
