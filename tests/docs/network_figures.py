"""What docs/guide/networks.md says of the race of networks, from its records."""

import math
import statistics

from run_records import RESULTS, medians, reached

NETWORKS = {
    ("mnist", "lenet"): "MNIST",
    ("fashion-mnist", "lenet"): "Fashion-MNIST",
    ("mnist", "rnn"): "MNIST row by row",
}
LIBRARIES = {"restored": "restored sweeps", "torch": "PyTorch's Adam"}


def network_race(record, data, network):
    """Of each racer over mini-batches of a network: its seeds' runs."""
    runs = {}
    for path in sorted((RESULTS / "race-networks").glob(f"{data}-mini-*-{network}-*")):
        run = record(f"race-networks/{path.name}")
        runs.setdefault(run["racer"], []).append(run)
    return runs


def of_library(runs, library):
    """The racers of a column: ours, PyTorch's, and whoever is left."""
    named = {racer: racer.split()[0] for racer in runs}
    return {r: runs[r] for r in runs if (named[r] if named[r] in LIBRARIES else None) == library}


def best_of(runs, target):
    """Of some racers the first one there; where none is, the most accurate one."""

    def order(racer):
        there = medians([reached(run["curve"], "test_accuracy", target) for run in runs[racer]])
        most = statistics.median(highest(run) for run in runs[racer])
        return there["seconds"], -most

    return min(runs, key=order)


def highest(run):
    return max(point["test_accuracy"] for point in run["curve"])


def network_cell(runs, target):
    if not runs:
        return "not run"
    name = best_of(runs, target)
    there = medians([reached(run["curve"], "test_accuracy", target) for run in runs[name]])
    rate = f" ({racer_rate(name)})" if len(runs) > 1 else ""
    if math.isfinite(there["seconds"]):
        return f"{there['iteration']:.1f} epochs, {there['seconds']:.1f} s{rate}"
    most = statistics.median(highest(run) for run in runs[name])
    seconds = statistics.median(run["curve"][-1]["seconds"] for run in runs[name])
    epochs = statistics.median(run["curve"][-1]["iteration"] for run in runs[name])
    return f"never: {most:.2%} at best in {epochs:.0f} epochs, {seconds:.1f} s{rate}"


def racer_rate(name):
    """As one writes it: 2.5e-3 for 0.0025."""
    digits, power = f"{float(name.split()[-2]):e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def networks(record):
    """The race of images and sequences: where each network first had its accuracy."""
    races = {key: network_race(record, *key) for key in NETWORKS}
    heads = [LIBRARIES["restored"]]
    for library in ("torch", None):
        racers = sorted({racer for runs in races.values() for racer in of_library(runs, library)})
        rates = " and ".join(sorted({racer_rate(racer) for racer in racers}))
        (size,) = {racer.split("/")[1] for racer in racers}
        name = LIBRARIES.get(library, "schedule-free AdamW")
        better = f", better of {rates}" if len(racers) > 1 else f" {rates}"
        heads.append(f"{name}{better}, batches of {size}")
    yield f"| to reach | {' | '.join(heads)} |"
    for (data, network), words in NETWORKS.items():
        target = record(f"race-{network}-{data}.json")["target"]["test_accuracy"]
        runs = races[data, network]
        columns = [of_library(runs, library) for library in (*LIBRARIES, None)]
        cells = [network_cell(column, target) for column in columns]
        yield f"| {words} {target:.1%}, `{network}` | {' | '.join(cells)} |"
    ours, theirs = (of_library(races["mnist", "lenet"], each) for each in ("restored", "torch"))
    took = [epoch_seconds(runs[best_of(runs, math.inf)]) for runs in (ours, theirs)]
    yield f"an epoch of `lenet` took us {took[0]:.0f} s"
    yield f"and PyTorch {took[1]:.1f} s"


def epoch_seconds(runs):
    last = (run["curve"][-1] for run in runs)
    return statistics.median(point["seconds"] / point["iteration"] for point in last)
