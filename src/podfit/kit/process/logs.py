"""Log set-up for commands: one line per record, on stderr, never on stdout."""

from __future__ import annotations

import logging
import sys


def setup_logs(verbosity: int = 0) -> None:
    """Level 0 logs warnings, 1 also information, 2 also podfit's debug messages."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname).1s %(name)s %(message)s"
    )
    logging.getLogger("podfit").setLevel(level)
