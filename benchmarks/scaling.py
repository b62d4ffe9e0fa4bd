"""Weak and strong scaling over processes of one core each, and what crosses between them.

    python benchmarks/scaling.py --out docs/results/scaling.json

Each process is bound to a core of its own and has one thread, so that the single process it is
compared with has the same. Strong: the same samples on more processes. Weak: the same samples for
each process. Best of several iterations; processes talk by gloo over loopback.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from dladmm.bench.bound import seconds_bound
from dladmm.io.files import write_atomically

METHODS = ("restored", "dladmm", "admm")


def measured(method: str, samples: int, width: int, count: int, timed: int) -> float:
    sizes = [784, width, width, 10]
    run = {"method": method, "samples": samples, "sizes": sizes, "iterations": timed}
    return seconds_bound(count, **run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    from dladmm.experiments.machine import describe_machine

    counts = [2**k for k in range((os.cpu_count() or 1).bit_length()) if 2**k <= os.cpu_count()]
    rows = []
    for method in METHODS:
        alone = measured(method, asked.samples, asked.width, 1, asked.iterations)
        for count in counts[1:]:
            strong = measured(method, asked.samples, asked.width, count, asked.iterations)
            weak = measured(method, count * asked.samples, asked.width, count, asked.iterations)
            row = {
                "method": method,
                "processes": count,
                "seconds_alone": alone,
                "strong_speedup": alone / strong,
                "weak_efficiency": alone / weak,
            }
            rows.append(row)
            figures = f"strong x{alone / strong:.2f}  weak {alone / weak:.0%}"
            print(f"{method:<10} {count} processes  alone {alone:.3f} s  {figures}", flush=True)
    record = {
        "samples": asked.samples,
        "network": [784, asked.width, asked.width, 10],
        "rows": rows,
        "machine": describe_machine(),
    }
    if asked.out:
        with write_atomically(asked.out) as part:
            part.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
