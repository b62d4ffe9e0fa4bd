"""`dladmm bench`: figures measured side by side in one run, with the machine they came from."""

from typing import Annotated, Any

import typer

from dladmm.cli.options import AsJson, parse_sizes, print_json
from dladmm.cli.race import race

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)


@app.command()
def iteration(
    samples: Annotated[
        int | None, typer.Option(help="Number of samples: 55,000, or 2,000 with --network.")
    ] = None,
    hidden: Annotated[str, typer.Option(help="Hidden layers, such as 1000,1000.")] = "1000,1000",
    network: Annotated[
        str | None, typer.Option(help="In place of them: lenet or cnn-small, on 28x28 images.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Best of this many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Seconds per iteration against the time of its matrix products alone; memory; compile time."""
    from dladmm.bench.iteration import bench_iteration

    if samples is None:
        samples = 55_000 if network is None else 2_000
    sizes = _sizes(samples, hidden, repeats)
    figures = bench_iteration(samples, sizes, repeats, network=network)
    if as_json:
        print_json(figures)
        return
    _print_iteration(figures)


def _sizes(samples: int, hidden: str, repeats: int) -> tuple[int, ...]:
    for option, value in (("--samples", samples), ("--repeats", repeats)):
        if value < 1:
            raise ValueError(f"{option} {value} is not valid; expected a positive integer")
    return parse_sizes("--hidden", hidden)


def _print_iteration(figures: dict[str, Any]) -> None:
    network = figures["network"] or "-".join(str(n) for n in figures["sizes"])
    rows = [
        ("iteration", f"{figures['seconds_per_iteration']:.3f} s"),
        ("its products alone", f"{figures['floor_seconds']:.3f} s"),
        ("speed of products", f"{figures['gflops']:.0f} GFLOP/s"),
        ("ratio", f"{figures['ratio']:.2f}"),
        ("peak memory", f"{figures['peak_bytes'] / 2**20:,.0f} MiB"),
        ("state", f"{figures['state_bytes'] / 2**20:,.0f} MiB  (x, y, W, b, z, a, p, u)"),
        ("peak / state", f"{figures['memory_ratio']:.2f}"),
        ("compilation", f"{figures['compile_seconds']:.1f} s, once per shape"),
    ]
    typer.echo(f"{figures['n_samples']:,} samples, {network}, float32")
    for name, text in rows:
        typer.echo(f"  {name:<20} {text}")
    typer.echo(f"  {'product':<24} {'shape':<24} {'times':>5} {'seconds':>8}")
    for p in figures["products"]:
        shape = f"{p['m']:,} x {p['k']:,} x {p['n']:,}"
        typer.echo(f"  {p['why']:<24} {shape:<24} {p['count']:>5} {p['seconds']:>8.3f}")


@app.command()
def rules(
    samples: Annotated[int, typer.Option(help="Number of samples.")] = 55_000,
    hidden: Annotated[str, typer.Option(help="Hidden layers, such as 1000,1000.")] = "1000,1000",
    repeats: Annotated[int, typer.Option(help="Best of this many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Seconds per iteration of dlADMM by its step rules, side by side."""
    from dladmm.bench.iteration import bench_rules

    figures = bench_rules(samples, _sizes(samples, hidden, repeats), repeats)
    if as_json:
        print_json(figures)
        return
    for name, run in figures["rules"].items():
        typer.echo(
            f"{name:<13} {run['seconds_per_iteration']:.3f} s, {run['over_vectors']:.2f} x the"
            f" vectors; peak memory {run['memory_ratio']:.2f} x the state"
        )


@app.command()
def growth(
    method: Annotated[
        str, typer.Option(help="dladmm, over samples and width; or restored, with Adam beside.")
    ] = "dladmm",
    samples: Annotated[
        str | None, typer.Option(help="dladmm: numbers of samples; 11,000 to 55,000 by default.")
    ] = None,
    widths: Annotated[
        str | None,
        typer.Option(help="Of two hidden layers; 200 to 1,000, restored: 500 to 4,000."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Best of this many; restored: their median.")] = 3,
    as_json: AsJson = False,
) -> None:
    """The time of an iteration over samples and width, or of a step of restored sweeps over
    mini-batches of 512 and 10,000 rows at full batch."""
    kinds = {"dladmm": _dladmm_growth, "restored": _restored_growth}
    if method not in kinds:
        raise ValueError(f"--method {method!r} is unknown; expected one of {', '.join(kinds)}")
    if repeats < 1:
        raise ValueError(f"--repeats {repeats} is not valid; expected a positive integer")
    given = {"samples": _series("--samples", samples), "widths": _series("--widths", widths)}
    sizes = {name: series for name, series in given.items() if series}
    show = lambda line: typer.echo(line, err=True)  # noqa: E731
    figures, lines = kinds[method](repeats=repeats, show=show, **sizes)
    if as_json:
        print_json(figures)
        return
    typer.echo("\n".join(lines))


def _series(option: str, text: str | None) -> tuple[int, ...]:
    """The sizes of a series, of which an exponent can be fitted; none where none are given."""
    if text is None:
        return ()
    sizes = parse_sizes(option, text)
    if len(set(sizes)) < 2:
        raise ValueError(f"{option} {text!r} is not valid; expected two different ones at least")
    return sizes


def _dladmm_growth(**given: Any) -> tuple[dict[str, Any], list[str]]:
    from dladmm.bench.iteration import bench_growth

    figures = bench_growth(**given)
    return figures, [
        f"time grows as {what}^{figures[f'{what}_exponent']:.3f}" for what in ("samples", "width")
    ]


def _restored_growth(**given: Any) -> tuple[dict[str, Any], list[str]]:
    from dladmm.bench.growth import bench_restored_growth

    if "samples" in given:
        raise ValueError("--samples is for --method dladmm; expected none")
    figures = bench_restored_growth(**given)
    return figures, [
        f"{mode}: {name} grows as width^{exponent:.3f}"
        for mode, series in figures["modes"].items()
        for name, exponent in series["exponents"].items()
    ]


@app.command()
def overhead(
    repeats: Annotated[int, typer.Option(help="Best of this many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """What a second fit of the same shape spends on anything but iterating (digits)."""
    from dladmm.bench.overhead import bench_overhead

    figures = bench_overhead(repeats)
    if as_json:
        print_json(figures)
        return
    typer.echo(f"  {'method':<10} {'overhead':>10} {'iteration':>10} {'compilation':>12}")
    for row in figures["rows"]:
        overhead_ms, each = 1e3 * row["overhead_seconds"], 1e3 * row["seconds_per_iteration"]
        compilation = f"{row['compile_seconds']:.1f} s"
        typer.echo(
            f"  {row['method']:<10} {overhead_ms:>7.1f} ms {each:>7.2f} ms {compilation:>12}"
        )


@app.command()
def engines(as_json: AsJson = False) -> None:
    """The same fits by NumPy and by JAX, cold and warm, and which of them auto takes."""
    from dladmm.bench.engines import bench_engines

    figures = bench_engines(show=lambda line: typer.echo(line, err=True))
    if as_json:
        print_json(figures)
        return
    typer.echo(f"{figures['iterations']} iterations; first fit / second fit of a process")
    typer.echo(
        f"  {'network':<24} {'rows':>7} {'numpy':>17} {'jax':>17} {'auto':>6} {'of best':>8}"
    )
    for row in figures["rows"]:
        network = "-".join(str(n) for n in (row["inputs"], *row["hidden"]))
        times = [f"{row[e]['cold']:>7.2f} / {row[e]['warm']:.2f} s" for e in ("numpy", "jax")]
        typer.echo(
            f"  {network:<24} {row['samples']:>7,} {times[0]:>17} {times[1]:>17}"
            f" {row['auto']:>6} {row['auto_over_best']:>8.2f}"
        )


@app.command()
def layers(
    samples: Annotated[int, typer.Option(help="Number of samples.")] = 2_000,
    width: Annotated[int, typer.Option(help="Units of each hidden layer.")] = 200,
    depth: Annotated[str, typer.Option(help="Numbers of hidden layers.")] = "4,8,16,32",
    groups: Annotated[str, typer.Option(help="Numbers of groups, a process each.")] = "1,2,3",
    messages: Annotated[str, typer.Option(help="exact, bfloat16 or 8bit.")] = "exact",
    iterations: Annotated[int, typer.Option(help="Best of this many.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Layers in groups at the same time against one group, and a pipeline by its cost model."""
    from dladmm.bench.layers import HEADER, bench_layers, line
    from dladmm.core.relaxed.layer_messages import MESSAGES

    for option, value in (("--samples", samples), ("--width", width), ("--iterations", iterations)):
        if value < 1:
            raise ValueError(f"{option} {value} is not valid; expected a positive integer")
    if messages not in MESSAGES:
        known = ", ".join(MESSAGES)
        raise ValueError(f"--messages {messages!r} is unknown; expected one of {known}")
    sizes = (parse_sizes("--depth", depth), parse_sizes("--groups", groups))
    if max(sizes[1]) > min(sizes[0]) + 1:
        raise ValueError(
            f"--groups {groups} has more groups than {min(sizes[0]) + 1} layers; expected no more"
        )
    show = lambda text: typer.echo(text, err=True)  # noqa: E731
    figures = bench_layers(samples, width, *sizes, iterations, messages, show)
    if as_json:
        print_json(figures)
        return
    typer.echo(f"{samples:,} samples, layers of {width}, {figures['cores']} cores, {messages}")
    typer.echo("\n".join([HEADER, *map(line, figures["rows"])]))


app.command()(race)
