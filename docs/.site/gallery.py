"""Builds the gallery: runs each example and writes its page and picture beside it.

    python docs/.site/gallery.py [NAME ...]

An example is a script whose docstring has the title and the text, and which leaves one figure of
matplotlib. What it prints is on its page; where and with what it ran, in `gallery.json`.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # as in the tests: several threads add up in another order

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from dladmm.experiments.machine import describe_machine
from dladmm.io.files import write_atomically, write_file

GALLERY = Path(__file__).parents[1] / "gallery"
# In the order a newcomer might want them.
NAMES = (
    "swap_mlp", "exact_zeros", "monotone", "quantised_onnx", "quantile_bands", "poisson_counts",
    "cnn_filters", "residual", "patterns", "recurrent", "certificates", "torch_module",
    "against_adam",
)  # fmt: skip


def parts(name):
    """Title, text and code of an example."""
    source = (GALLERY / f"{name}.py").read_text(encoding="utf-8")
    _, words, code = source.split('"""', 2)
    title, text = words.split("\n", 1)
    return title, text.strip(), code.strip()


def page(name, printed):
    title, text, code = parts(name)
    return (
        f"# {title}\n\n{text}\n\n![{title}]({name}.png)\n\n```text\n{printed.strip()}\n```\n\n"
        f"```python\n{code}\n```\n\n[The script]({name}.py), run by `make gallery`"
        " ([where and when](gallery.json)).\n"
    )


def index():
    """The page that leads to all of them."""
    cards = "".join(
        f'<a href="{name}.html"><img src="{name}.png" alt="{parts(name)[0]}">{parts(name)[0]}</a>\n'
        for name in NAMES
    )
    lead = "# Gallery\n\nShort examples, each run as it stands."
    return f'{lead}\n\n<div class="cards">\n{cards}</div>\n'


def run(name):
    """Run an example in a folder of its own; what it printed, and the seconds it took."""
    _, _, code = parts(name)
    printed, began, here = io.StringIO(), time.perf_counter(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(code, f"{name}.py", "exec"), {"__name__": "__main__"})
        finally:
            os.chdir(here)
    (figure,) = (plt.figure(number) for number in plt.get_fignums())
    with write_atomically(GALLERY / f"{name}.png") as part:
        figure.savefig(part, format="png", dpi=110)
    plt.close(figure)
    return printed.getvalue(), time.perf_counter() - began


def main(wanted):
    record = GALLERY / "gallery.json"
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for name in wanted or NAMES:
        printed, seconds = run(name)
        write_file(GALLERY / f"{name}.md", page(name, printed))
        known[name] = {"seconds": round(seconds, 1), "machine": describe_machine()}
        print(f"{name}: {seconds:.1f} s", flush=True)
    write_file(record, json.dumps(known, indent=1) + "\n")
    write_file(GALLERY / "index.md", index())


if __name__ == "__main__":
    main(sys.argv[1:])
