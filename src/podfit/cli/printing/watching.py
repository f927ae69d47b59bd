"""Shows a page repeatedly, for `--watch`: in place in a terminal, one page after the other elsewhere."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from podfit.cli.printing.output import echo, visible

Page = Callable[[], Awaitable[str]]


async def show(page: Page, watch: bool, every_s: float = 2.0, times: int = 0) -> None:
    """Shows the page `times` times; 0: until Ctrl-C."""
    if not watch:
        echo(await page())
        return
    shown = 0
    if not sys.stdout.isatty():
        while True:
            echo(await page())
            shown += 1
            if shown == times:
                return
            await asyncio.sleep(every_s)
    from rich.live import Live
    from rich.text import Text

    with Live(Text(visible(await page())), auto_refresh=False, screen=False, vertical_overflow="crop") as live:
        while True:
            shown += 1
            if shown == times:
                return
            await asyncio.sleep(every_s)
            live.update(Text(visible(await page())), refresh=True)
