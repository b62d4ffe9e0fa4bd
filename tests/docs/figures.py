"""What README and docs say in figures, computed from the records under docs/results.

Each page has a function that yields the lines, or parts of lines, that must stand in it. Nothing is
typed in here: a figure that changes in a record or on a page is a line that is no longer found.
"""

import math
import statistics

from network_figures import networks
from run_records import ROOT, Records, medians, reached

__all__ = ["PAGES", "ROOT", "Records"]


def readme(record):
    ours, theirs = (record("first_fit.json")["fits"][0][f"{name}Classifier"] for name in PAIR)
    yield (
        "| digits, defaults, cold: first fit of a process, median of five | "
        f"{ours['accuracy']:.1%}, {ours['fit']:.2f} s | "
        f"{theirs['accuracy']:.1%}, {theirs['fit']:.2f} s (`MLPClassifier`) |"
    )
    r2, accuracy, log_loss = (
        mean_scores(record, score) for score in ("r2", "accuracy", "log_loss")
    )
    yield (
        f"| {r2['tables']} regression tables, defaults, mean R² | {r2['dladmm']:.2f} | "
        f"{r2['mlp-stop']:.2f} (`MLPRegressor` with early stopping), {r2['forest']:.2f} (forests), "
        f"{r2['boosting']:.2f} (boosting), {r2['linear']:.2f} (linear) |"
    )
    pair = {name: f"{accuracy[name]:.3f}; {log_loss[name]:.2f}" for name in accuracy}
    yield (
        f"| {accuracy['tables']} classification tables, defaults, mean accuracy; log-loss | "
        f"{pair['dladmm']} | {pair['boosting']} (boosting), {pair['forest']} (forests), "
        f"{pair['mlp']} (`MLPClassifier`), {pair['linear']} (linear) |"
    )
    for data, words in (
        ("mnist", "MNIST to 98.0%, mini-batches, warm, median of three seeds"),
        ("fashion-mnist", "Fashion-MNIST to 88.5%, the same"),
    ):
        found = mini_race(record, data)
        best = fastest(found)
        ours, other = (
            f"{point['seconds']:.2f} s, {point['iteration']:.1f} epochs"
            for point in (found[OURS], found[best])
        )
        name = {"schedule-free": "schedule-free AdamW"}.get(best.split()[0], best)
        yield f"| {words} | {ours} | {other} ({name}, the best of {len(found) - 1}) |"
    rows = full_race(record, "mnist")
    adams = [name for name in rows if name != "restored"]
    quickest = min(adams, key=lambda name: rows[name]["seconds"])
    most = max(rows[name]["test_accuracy"] for name in adams)
    yield (
        "| MNIST, paper's network, full batch, warm, to the loss of Adam after 200 iterations | "
        f"{reached_text(rows['restored'])} | {reached_text(rows[quickest])} "
        f"(fastest Adam of three; {most:.1%} the most accurate) |"
    )
    rows = full_race(record, "fashion-mnist")
    quickest = min(adams, key=lambda name: rows[name]["seconds"])
    yield (
        f"| Fashion-MNIST, the same | {reached_text(rows['restored'])} | "
        f"{reached_text(rows[quickest])} (best Adam of three) |"
    )
    by_jax = [row["jax"] for row in record("engines.json")["rows"]]
    compiled = sorted(row["cold"] - row["warm"] for row in by_jax)
    yield f"compilation apart, which takes up to {compiled[-1]:.0f} s once per shape"


PAIR = ("DLADMM", "MLP")
DATA = ("mnist", "fashion-mnist")
OURS = "restored /512"


def mean_scores(record, score):
    """The mean of a score over the tables that have it, for each method."""
    kept = record("tables.json")
    rows = [table["scores"][score] for table in kept["tables"] if score in table["scores"]]
    means = {name: statistics.fmean(row[name]["mean"] for row in rows) for name in kept["methods"]}
    return means | {"tables": len(rows)}


def mini_race(record, data):
    """Where each racer over mini-batches reached its target, the median over the seeds of each
    figure; inf where it never did."""
    rows = record(f"race-mini-{data}.json")["table"]
    never = {"seconds": math.inf, "iteration": math.inf}
    return {row["racer"]: row if row["seconds"] is not None else row | never for row in rows}


def fastest(found, group=None):
    """Of a group, or of all racers but ours."""
    names = [name for name, row in found.items() if group in (None, row["group"])]
    rivals = [name for name in names if group is not None or not found[name]["ours"]]
    return min(rivals, key=lambda name: found[name]["seconds"])


def full_runs(record, data):
    """Of each full-batch racer, where each seed reached the loss of Adam at 1e-3."""
    samples = {"mnist": 55000, "fashion-mnist": 60000}[data]
    name = f"race/{data}-full-{samples}-1000-1000-{{}}-{{}}.json"
    found = {racer: [] for racer in ("restored", "adam-0.001", "adam-0.003", "adam-0.01")}
    for seed in range(3):
        target = record(name.format("adam-0.001", seed))["curve"][-1]["train_loss"]
        for racer, points in found.items():
            points.append(reached(record(name.format(racer, seed))["curve"], "train_loss", target))
    return found


def full_race(record, data):
    """The median over the seeds of each figure."""
    return {racer: medians(points) for racer, points in full_runs(record, data).items()}


def reached_text(row):
    return f"{row['iteration']:.0f} iterations, {row['seconds']:.0f} s, {row['test_accuracy']:.1%}"


def in_race(found, name):
    """Where a racer reached its target."""
    row = found[name]
    if math.isinf(row["seconds"]):
        return "never"
    return f"{row['seconds']:.2f} s, {row['iteration']:.1f} epochs ({name})"


def race_rows(found):
    """The fastest racer of each group that arrived in one of several races."""
    for group in dict.fromkeys(row["group"] for row in found[0].values()):
        cells = [in_race(one, fastest(one, group)) for one in found]
        if set(cells) != {"never"}:
            yield f"| {group} | {' | '.join(cells)} |"


def race_ratios(found):
    """What part of the fastest rival's time ours takes in each race."""
    ratios = []
    for one in found:
        ours = min(row["seconds"] for row in one.values() if row["ours"])
        ratios.append(ours / one[fastest(one)]["seconds"])
    return [f"{ratio:.2f}" for ratio in ratios]


def restored(record):
    found = [mini_race(record, data) for data in DATA]
    yield from race_rows(found)
    ratios = race_ratios(found)
    yield f"{ratios[0]} and {ratios[1]} of the time of the best of {len(found[0]) - 1} others"
    curves = (record("epochs.json")["data"][data]["curves"] for data in DATA)
    last = [statistics.median(curve[-1] for curve in found) for found in curves]
    yield f"median test accuracy is {last[0]:.1%} on MNIST and {last[1]:.1%} on Fashion-MNIST"
    for name, task in record("race-targets.json")["tasks"].items():
        yield task_row(name, task)
    for data in DATA:
        for racer, points in full_runs(record, data).items():
            yield full_row(racer, points)
    for row in record("defaults.json")["rows"]:
        yield defaults_row(row)


def task_row(name, task):
    """What a task of the races trains on, and what is to be reached there."""
    words = {
        "deep-narrow": "MNIST",
        "diamonds-cut": "five grades of `ggplot2/diamonds`",
        "diamonds-price": "R²",
    }[name]
    scores = ", ".join(f"{100 * score:.1f}" for score in task["scores"])
    return (
        f"| {name}: {words} | {task['samples']:,} | {task['network']} | {scores} % | "
        f"{100 * task['target']:.1f} % |"
    )


def full_row(racer, points):
    """A racer's three seeds and their median."""
    name = {"restored": "**restored**"}.get(racer) or f"Adam {RATES[racer.split('-')[1]]}"

    def each(key):
        return ", ".join("never" if math.isinf(p["seconds"]) else f"{p[key]:.0f}" for p in points)

    accuracies = ", ".join(
        "—" if math.isinf(p["seconds"]) else f"{100 * p['test_accuracy']:.2f} %" for p in points
    )
    middle = {
        key: statistics.median(point[key] for point in points) for key in ("iteration", "seconds")
    }
    last = "never"
    if math.isfinite(middle["seconds"]):
        accuracy = 100 * statistics.median(point["test_accuracy"] for point in points)
        last = f"{middle['iteration']:.0f} iterations, {middle['seconds']:.0f} s, {accuracy:.2f} %"
    return f"| {name} | {each('iteration')} | {each('seconds')} | {accuracies} | {last} |"


RATES = {"0.001": "1e-3", "0.003": "3e-3", "0.01": "1e-2"}


def defaults_row(row):
    name = {
        "digits": "digits, accuracy",
        "diabetes": "diabetes, R²",
        "mnist": "MNIST, 10,000 images",
        "fashion-mnist": "Fashion-MNIST, 10,000 images",
    }.get(row["data"], row["data"])
    worst = min(row["adam"].values())
    scores = (row["dladmm"], row["best adam"], worst)
    if row["data"] == "diabetes":
        shown = [f"{s:.3f}" if s > -1 else f"{s:.2f}".replace("-", "−") for s in scores]
    else:
        shown = [f"{100 * s:.2f} %" for s in scores]
    return f"| {name} | {' | '.join(shown)} |"


def performance(record):
    for size in ("55000x1000", "12000x200"):
        r = record(f"iteration-{size}.json")
        yield (
            f"| {r['n_samples']:,} × {r['sizes'][1]:,} | {r['seconds_per_iteration']:.3f} s | "
            f"{r['floor_seconds']:.3f} s | {r['ratio']:.2f} | {r['memory_ratio']:.2f} | "
            f"{r['compile_seconds']:.1f} s |"
        )
    gflops = record("iteration-55000x1000.json")["gflops"]
    yield f"({gflops:.0f} GFLOP/s at the paper's size)"
    ours, papers = (1000 * row["overhead_seconds"] for row in record("overhead.json")["rows"])
    yield f"spends {ours:.0f} ms, with the paper's method {papers:.0f} ms"
    growth = record("growth.json")
    for r in (*growth["over_samples"], *growth["over_widths"][:-1]):
        yield (
            f"| {r['n_samples']:,} × {r['width']:,} | {r['seconds_per_iteration']:.3f} s | "
            f"{r['ratio']:.2f} | {r['memory_ratio']:.2f} |"
        )
    yield f"samples^{growth['samples_exponent']:.2f}"
    yield f"width^{growth['width_exponent']:.2f}"
    for r in record("engines.json")["rows"]:
        network = "-".join(str(n) for n in (r["inputs"], *r["hidden"], 10))
        times = [f"{r[name]['cold']:.2f} / {r[name]['warm']:.2f} s" for name in ("numpy", "jax")]
        taken = {"numpy": "NumPy", "jax": "JAX"}[r["auto"]]
        yield (
            f"| {r['samples']:,} | {network} | {' | '.join(times)} | {taken} | "
            f"{r['auto_over_best']:.2f} × |"
        )
    first = record("first_fit.json")
    names = ["digits, layers 100", "digits, layers (60, 40)", "breast cancer, layers 100"]
    names += [
        f"search, {data}, `n_jobs={n}`" for data in ("breast cancer", "digits") for n in (1, 2)
    ]
    for name, r in zip(names, [*first["fits"], *first["searches"]], strict=True):
        ours, theirs = (r[f"{kind}Classifier"] for kind in PAIR)
        yield (
            f"| {name} | {ours['fit']:.2f} s | {theirs['fit']:.2f} s | {r['ratio']['fit']:.2f} | "
            f"{r['ratio']['process']:.2f} | {ours['accuracy']:.1%}, {theirs['accuracy']:.1%} |"
        )
    now, before = (
        " and ".join(
            f"{one[when]['seconds']:.1f} s" for one in record("check_estimator.json")["checks"]
        )
        for when in ("now", "before")
    )
    yield f"`check_estimator` of both takes {now} instead of {before}"


def scale(record):
    for r in record("scaling.json")["rows"]:
        yield (
            f"| {r['method']} | {r['seconds_alone']:.3f} s | {r['strong_speedup']:.2f} × as fast | "
            f"{100 * r['weak_efficiency']:.0f} % |"
        )
    for r in record("layers.json")["rows"]:
        yield (
            f"| {r['depth']} | {r['groups']} | {r['seconds']:.2f} s | {r['speedup']:.2f} × | "
            f"{r['even']:.2f} × | {r['pipeline']:.2f} × |"
        )
    for r in record("layer_messages.json")["rows"]:
        yield f"| `{r['messages']}` | {r['bytes_per_sample']:,} | {r['accuracy']:.1%} |"
    for r in record("layer_order.json")["rows"]:
        pairs = zip(r["lagrangian"], r["train_loss"], strict=True)
        figures = [f"{value:.1f} | {loss:.4f}" for value, loss in pairs]
        yield f"| {r['groups'] or 'the sweep'} | {' | '.join(figures)} | {r['rises']} |"


def reproduce(record):
    """The accuracies that runs of the full setting end with, in training and in test."""

    def end(piece, run):
        curve = record(f"reproduce/{piece}.json")["runs"][run]["curves"][0]
        return curve["train_accuracy"][-1], curve["test_accuracy"][-1]

    def both(piece, run, digits=3):
        train, test = end(piece, run)
        return f"{train:.{digits}f} and {test:.3f}"

    train, test = end("fig5", "dladmm text")
    yield f"the text's ends with {train:.3f} in training and {test:.3f} in test"
    yield f"the authors' with {both('fig5', 'dladmm authors')}"
    train, test = end("fig5", "dladmm matrix")
    yield f"after one iteration and ends with {train:.3f} in training and {test:.3f} in test"
    curve = record("reproduce/fig5.json")["runs"]["dladmm matrix"]["curves"][0]
    of_adagrad = record("reproduce/fig5.json")["runs"]["adagrad paper"]["curves"][0]
    means = [statistics.fmean(one["train_accuracy"]) for one in (curve, of_adagrad)]
    yield f"run is {means[0]:.3f} in training, Adagrad's {means[1]:.3f}"
    rose = curve["certificate"]
    times = {1: "once"}[rose["rises"]]
    yield f"rose {times}, at iteration {rose['first_rise']}, by {rose['largest_rise']:.2f}"
    yield f"Adam ends with {both('fig5', 'adam paper', 4)}"
    yield f"Adagrad with {both('fig5', 'adagrad paper')}"
    yield f"ADMM ends with {both('fig5', 'admm')}"
    yield f"Adagrad ends with {both('fig5', 'adagrad best')}"
    yield f"Adadelta with {both('fig5', 'adadelta best')}"
    yield f"Restored sweeps have {both('fig5', 'restored', 4)} after 30"
    yield f"ends with {both('fig6', 'dladmm text')} (`fig6.json`"
    yield f"in test after twelve, and ends with {both('fig6', 'dladmm matrix')}"
    yield f"Adam ends with {both('fig6', 'adam paper')}"
    yield f"Adagrad with {both('fig6', 'adagrad paper')}"
    yield f"Adagrad ends with {both('fig6', 'adagrad best')}"
    yield f"SGD with {both('fig6', 'sgd best')}"
    yield f"Restored sweeps have {both('fig6', 'restored')}"


def researchers(record):
    """Trials of dlADMM, what an iteration costs by its step rules, and closed targets."""
    trials = record("dladmm_rules.json")["trials"]
    for name, trial in trials.items():
        runs = trial["runs"]
        figures = (
            ", ".join(f"{run['loss']:.3f}" for run in runs),
            ", ".join(f"{run['accuracy']:.1%}" for run in runs),
            ", ".join(str(run["rises"]) for run in runs),
        )
        yield f"| {name.removeprefix('test: ')} | {' | '.join(figures)} |"
    some, all_at_once, damped = (
        trials[name]["runs"][0]
        for name in (
            "batches of 500, delta = F",
            "matrix steps, delta = F",
            "batches of 500, delta = 10",
        )
    )
    yield f"leave {some['loss']:.3f} instead of {all_at_once['loss']:.3f}"
    yield f"at {some['accuracy']:.1%} instead of {all_at_once['accuracy']:.1%}"
    yield f"they leave {damped['loss']:.3f}"
    rules = record("step_rules.json")["rules"]
    vectors, matrix, over = (rules[name] for name in ("closed-form", "matrix", "over-relaxed"))
    yield (
        f"matrix steps take {matrix['over_vectors']:.2f} times as long as vectors "
        f"({matrix['seconds_per_iteration']:.2f} s to {vectors['seconds_per_iteration']:.2f} s)"
    )
    yield f"{over['over_vectors']:.2f} times ({over['seconds_per_iteration']:.2f} s)"
    closed = record("closed_targets.json")
    for targets, runs in closed["full_batch"].items():
        figures = (
            ", ".join(str(run["iterations"]) for run in runs),
            ", ".join(f"{run['test_accuracy']:.1%}" for run in runs),
            ", ".join(f"{run['last_test_accuracy']:.1%}" for run in runs),
            *(
                ", ".join(f"{epochs:.2f}" for epochs in closed["epochs"][data][targets])
                for data in DATA
            ),
        )
        yield f"| {targets} | {' | '.join(figures)} |"
    yield from by_activation(closed["activations"])
    one, larger, largest = (
        [run["iterations"] for run in closed["shares"][share]] for share in ("0.1", "0.3", "1.0")
    )
    assert largest == [None] * 3
    yield f"0.3 takes {min(larger)} to {max(larger)}"
    yield f"iterations on the split instead of {min(one)} to {max(one)}"


def by_activation(found):
    """Iterations to a loss of 0.01 and accuracy at the end, medians, by targets of both kinds."""
    for name, by_targets in found.items():
        cells = []
        for targets in ("first-order", "closed"):
            runs = by_targets.get(targets)
            there = runs and [run["iterations"] for run in runs]
            never = there and None in there
            cells.append(
                "-" if not runs else "never" if never else f"{statistics.median(there):.0f}"
            )
            last = runs and statistics.median(run["last_test_accuracy"] for run in runs)
            cells.append(f"{last:.1%}" if runs else "-")
        yield f"| `{name}` | {' | '.join(cells)} |"


PAGES = {
    "README.md": readme,
    "docs/restored.md": restored,
    "docs/performance.md": performance,
    "docs/scale.md": scale,
    "docs/reproduce.md": reproduce,
    "docs/researchers.md": researchers,
    "docs/guide/networks.md": networks,
}
