"""Runs every benchmark, each in its own process so that none affects the next; `make bench` calls it.

`python -m bench resize fleet` runs only those two.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.cluster import environment

HERE = Path(__file__).parent


def main() -> int:
    names = sorted(found.stem for found in HERE.glob("bench_*.py"))
    wanted = {f"bench_{word.removeprefix('bench_')}" for word in sys.argv[1:]}
    if unknown := wanted - set(names):
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        if wanted and name not in wanted:
            continue
        print(f"\n# {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, env=environment()).returncode:
            failed.append(name)
    if failed:
        print(f"\nfailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
