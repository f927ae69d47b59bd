"""Shuffle sharding: a flow is assigned a small hand of a level's queues. Pure.

Two flows rarely share their whole hand, so a flow that floods its queues leaves the others most of theirs.
"""

from __future__ import annotations

from hashlib import sha256


def flow_hash(schema: str, flow: str) -> int:
    """A 64-bit number for a flow, the same in every process."""
    return int.from_bytes(sha256(f"{schema}\0{flow}".encode()).digest()[:8], "little")


def deal(number: int, queues: int, hand_size: int) -> list[int]:
    """Selects `hand_size` different queues out of `queues`, determined by the hash, like cards dealt from a deck."""
    hand: list[int] = []
    for drawn in range(min(hand_size, queues)):
        number, card = divmod(number, queues - drawn)
        # The card is an index into the remaining deck.
        for earlier in sorted(hand):
            if card >= earlier:
                card += 1
        hand.append(card)
    return hand
