"""What docs/guide/networks.md says of the race of networks, from its records."""

import statistics

NETWORKS = {
    ("mnist", "lenet"): "MNIST",
    ("fashion-mnist", "lenet"): "Fashion-MNIST",
    ("mnist", "rnn"): "MNIST row by row",
    ("mnist1d", "cnn-small"): "MNIST-1D",
    ("cifar10-jpeg", "cnn-small"): "CIFAR-10 (JPEG)",
}


def networks(record):
    """The race of images and sequences: where each network first had its accuracy."""
    races = {key: record(f"race-{key[1]}-{key[0]}.json") for key in NETWORKS}
    for (_, network), words, race in zip(races, NETWORKS.values(), races.values(), strict=True):
        target = race["table"][0]["target"]
        yield f"| {words} {target:.1%}, `{network}` | {' | '.join(cells(race))} |"
    names = ("restored /128", "torch adam 0.003 /128")
    ours, theirs = (epoch_seconds(races["mnist", "lenet"], name) for name in names)
    yield f"An epoch of `lenet` takes us {ours:.1f} s"
    yield f"and PyTorch {theirs:.1f} s"


def cells(race):
    """Ours, the fastest of the others, and the one with the fewest epochs; where none of them
    arrived, the most accurate one."""
    ours, *others = race["table"]
    assert ours["ours"]
    arrived = [row for row in others if row["seconds"] is not None]
    if not arrived:
        most, name = max((most_of(race, row["racer"]), row["racer"]) for row in others)
        return [place(ours), f"never: {most:.2%} at best ({name})", "never"]
    fastest, fewest = (min(arrived, key=lambda row: row[key]) for key in ("seconds", "iteration"))
    return [place(ours), *(f"{place(row)} ({row['racer']})" for row in (fastest, fewest))]


def place(row):
    return f"{row['iteration']:.1f} epochs, {row['seconds']:.2f} s"


def runs_of(race, racer):
    return [run for run in race["runs"] if run["racer"] == racer]


def most_of(race, racer):
    """The highest accuracy, the median over the seeds."""
    runs = runs_of(race, racer)
    return statistics.median(max(p["test_accuracy"] for p in run["curve"]) for run in runs)


def epoch_seconds(race, racer):
    """The median over its runs."""
    last = [run["curve"][-1] for run in runs_of(race, racer)]
    return statistics.median(point["seconds"] / point["iteration"] for point in last)
