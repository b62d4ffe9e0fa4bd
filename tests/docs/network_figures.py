"""What docs/guide/networks.md says of the race of networks, from its records."""

import statistics

NETWORKS = {
    ("mnist", "lenet"): "MNIST",
    ("fashion-mnist", "lenet"): "Fashion-MNIST",
    ("mnist", "rnn"): "MNIST row by row",
}
COLUMNS = ("restored", "torch", "schedule-free")  # as the names of racers begin


def networks(record):
    """The race of images and sequences: where each network first had its accuracy."""
    races = {key: record(f"race-{key[1]}-{key[0]}.json") for key in NETWORKS}
    racers = {row["racer"] for race in races.values() for row in race["table"]}
    torch, free = ([r for r in racers if r.split()[0] == name] for name in COLUMNS[1:])
    (size,), (own,) = {r.split("/")[1] for r in torch}, free
    rates = " and ".join(sorted(plain_rate(racer) for racer in torch))
    yield (
        f"| to reach | restored sweeps | PyTorch's Adam, better of {rates}, batches of {size} |"
        f" schedule-free AdamW {plain_rate(own)}, batches of {own.split('/')[1]} |"
    )
    for (data, network), words in NETWORKS.items():
        race = races[data, network]
        target = race["table"][0]["target"]
        cells = [network_cell(race, column) for column in COLUMNS]
        yield f"| {words} {target:.1%}, `{network}` | {' | '.join(cells)} |"
    ours, theirs = (epoch_seconds(races["mnist", "lenet"], name) for name in COLUMNS[:2])
    yield f"An epoch of `lenet` takes us {ours:.1f} s"
    yield f"and PyTorch {theirs:.1f} s"
    yield whole_grid("MNIST-1D", record("race-cnn-small-mnist1d.json"))
    yield whole_grid("CIFAR-10 (JPEG)", record("race-cnn-small-cifar10-jpeg.json"))


def whole_grid(words, race):
    """A race of Adam by JAX and PyTorch over rates and batches: ours, the fastest of the others,
    and the one with the fewest epochs."""
    ours, *others = race["table"]
    arrived = [row for row in others if row["seconds"] is not None]
    assert ours["ours"]
    fastest, fewest = (min(arrived, key=lambda row: row[key]) for key in ("seconds", "iteration"))
    cells = [
        f"{row['iteration']:.1f} epochs, {row['seconds']:.2f} s" for row in (ours, fastest, fewest)
    ]
    names = [f" ({row['racer']})" for row in (fastest, fewest)]
    return (
        f"| {words} {ours['target']:.1%}, `{race['network']}` | {cells[0]} | {cells[1]}{names[0]} |"
        f" {cells[2]}{names[1]} |"
    )


def network_cell(race, column):
    """The first one there of some racers; where none is, the most accurate one."""
    rows = [row for row in race["table"] if row["racer"].split()[0] == column]
    arrived = [row for row in rows if row["seconds"] is not None]
    if arrived:
        row = min(arrived, key=lambda row: row["seconds"])
        return f"{row['iteration']:.1f} epochs, {row['seconds']:.1f} s{rate(row, rows)}"
    found = [(most_of(race, row), row) for row in rows]
    most, row = max(found, key=lambda pair: pair[0])
    last = [run["curve"][-1] for run in runs_of(race, row)]
    epochs, seconds = (statistics.median(p[key] for p in last) for key in ("iteration", "seconds"))
    return f"never: {most:.2%} at best in {epochs:.0f} epochs, {seconds:.1f} s{rate(row, rows)}"


def runs_of(race, row):
    return [run for run in race["runs"] if run["racer"] == row["racer"]]


def most_of(race, row):
    """The highest accuracy, the median over the seeds."""
    runs = runs_of(race, row)
    return statistics.median(max(p["test_accuracy"] for p in run["curve"]) for run in runs)


def rate(row, rows):
    """Which of several rates."""
    return "" if len(rows) == 1 else f" ({plain_rate(row['racer'])})"


def plain_rate(name):
    """As one writes it: 2.5e-3 for 0.0025."""
    digits, power = f"{float(name.split()[-2]):e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def epoch_seconds(race, column):
    """Of the racers of a column, the median over their runs."""
    runs = [run for run in race["runs"] if run["racer"].split()[0] == column]
    last = [run["curve"][-1] for run in runs]
    return statistics.median(point["seconds"] / point["iteration"] for point in last)
