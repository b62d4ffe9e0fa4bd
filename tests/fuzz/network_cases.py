"""Random networks, written in Python or as JSON: each is built, and trains to finite predictions,
or is refused in a sentence that names the argument or the entry that does not fit."""

import json
import re
import tempfile
from pathlib import Path

import numpy as np
from file_cases import JSON, changed, damaged_bytes, paths_of
from hypothesis import strategies as st

from dladmm import DLADMMClassifier, DLADMMRegressor
from dladmm import network as kinds
from dladmm.network.presets import read_network
from dladmm.terms.activations import activations

JUNK = st.sampled_from(
    [None, True, -1, 0, 1.5, float("nan"), float("inf"), "?", "", (), [], {}, 10**30, (2, 0)]
)
ACTIVATIONS = sorted(activations)
KINDS = {
    "dense": kinds.Dense,
    "conv1d": kinds.Conv1D,
    "conv2d": kinds.Conv2D,
    "max_pool": kinds.MaxPool,
    "average_pool": kinds.AveragePool,
    "global_average_pool": kinds.GlobalAveragePool,
    "flatten": kinds.Flatten,
    "masking": kinds.Masking,
    "recurrent": kinds.Recurrent,
    "residual": kinds.Residual,
}
POOLS = ["average_pool", "global_average_pool", "flatten"]
FITTING = {
    0: ["dense", "dense", "residual", "flatten"],
    1: ["conv1d", "conv1d", "recurrent", "recurrent", "residual", *POOLS, "dense"],
    2: ["conv2d", "conv2d", "conv2d", "residual", "residual", *POOLS, "dense"],
}
STRANGE = ["lstm", "BatchNorm", "dropout", "conv3d", "relu6", ""]


def often(usual, rare):
    """Mostly one, now and then the other."""
    return st.integers(0, 39).flatmap(lambda k: rare if k == 17 else usual)


def sizes(axes, most=3):
    one = st.integers(1, most)
    return often(one | st.tuples(*[one] * max(axes, 1)), JUNK)


@st.composite
def fields_of(draw, kind, axes):
    if kind == "dense":
        return {"units": draw(often(st.integers(1, 4), JUNK))}
    if kind in ("conv1d", "conv2d"):
        axes = 1 if kind == "conv1d" else 2
        zeros = st.integers(0, 2) | st.tuples(*[st.integers(0, 2)] * axes)
        optional = {
            "strides": sizes(axes, 2),
            "padding": often(st.sampled_from(["valid", "same"]) | zeros, JUNK),
            "dilation": sizes(axes, 2),
            "groups": often(st.sampled_from([1, 1, 2]), JUNK),
        }
        chosen = draw(st.sets(st.sampled_from(sorted(optional)), max_size=3))
        filters = st.sampled_from([2, 4, 2, 4, 3, 1])
        return {
            "filters": draw(often(filters, JUNK)),
            "size": draw(sizes(axes)),
            **{name: draw(optional[name]) for name in sorted(chosen)},
        }
    if kind in ("max_pool", "average_pool"):
        return {"size": draw(sizes(axes, 2))} if draw(st.booleans()) else {}
    if kind == "recurrent":
        zero_at_zero = ["tanh", "relu", "leaky_relu", "identity"]
        names = often(st.sampled_from(zero_at_zero), st.sampled_from(ACTIVATIONS) | JUNK)
        return {
            "units": draw(often(st.integers(1, 3), JUNK)),
            "activation": draw(names),
            "states": draw(often(st.sampled_from(["last", "all"]), JUNK)),
        }
    if kind == "residual":
        return {"body": draw(often(entries(axes, body=True), JUNK))}
    return {}


@st.composite
def entries(draw, axes, body=False):
    """A list as it stands in JSON: names, and [kind, fields]."""
    found = []
    masked = axes == 1 and not body and draw(st.integers(0, 3)) == 0
    if masked:
        found.append(["masking", {}])
    for _ in range(draw(st.integers(int(masked), 2 if body else 3))):
        usual = ["recurrent"] if masked else FITTING[axes]
        kind = draw(often(st.sampled_from(usual), st.sampled_from(sorted(KINDS))))
        fields = draw(fields_of(kind, axes))
        if body and kind != "dense":
            fields |= {"padding": "same"} if kind.startswith("conv") else {}
        found.append([kind, fields])
        if kind == "recurrent" and fields["states"] == "last":
            axes, masked = 0, False
        elif kind in ("dense", "flatten", "global_average_pool"):
            axes = 0
        if kind in ("dense", "conv1d", "conv2d", "residual") and draw(st.integers(0, 3)):
            found.append(draw(often(st.sampled_from(ACTIVATIONS), st.sampled_from(STRANGE) | JUNK)))
            if axes and draw(st.integers(0, 2)) == 0:
                found.append(["max_pool", draw(fields_of("max_pool", axes))])
    if not body:
        found.append(["dense", {"units": draw(st.integers(1, 3))}])
    elif axes:
        found.append([f"conv{axes}d", {"filters": 2, "size": 1}])
    else:
        found.append(["dense", {"units": draw(st.integers(1, 4))}])
    return found


SHAPES = st.sampled_from([(3,), (6, 2), (5, 4), (6, 5, 2), (4, 4, 1), (7, 3, 4)])


@st.composite
def written(draw):
    """(shape of a sample, entries)."""
    shape = draw(SHAPES)
    layers = draw(often(entries(len(shape) - 1), JUNK))
    return draw(often(st.just(shape), JUNK)), layers


def in_python(entry):
    """An entry as Python has it, built; whatever is no pair stays as it is."""
    if not (isinstance(entry, list) and len(entry) == 2 and entry[0] in KINDS):
        return entry
    kind, fields = entry
    if kind == "residual" and isinstance(fields["body"], list):
        fields = {"body": [in_python(one) for one in fields["body"]]}
    return KINDS[kind](**fields)


def in_json(entry):
    if not (isinstance(entry, list) and len(entry) == 2 and entry[0] in KINDS):
        return entry
    kind, fields = entry
    if kind == "residual" and isinstance(fields["body"], list):
        return {kind: [in_json(one) for one in fields["body"]]}
    return {kind: fields}


def built(shape, layers):
    layers = [in_python(one) for one in layers] if isinstance(layers, list) else layers
    return kinds.Network(shape, layers)


# What a refusal of a network speaks of: an argument of an entry, or an entry and its place.
NAMED = re.compile(
    r"in_shape=|layer \d+ of the network|the network (ends|has)|is no layer of a network|layers="
    r"|does not fit: |(\b(" + "|".join(k.__name__ for k in KINDS.values()) + r")\(\w+=)"
    r"|activation"
)


@st.composite
def network_cases(draw):
    """(how it is written, the network, a seed for rows, options of a fit)."""
    how = draw(st.sampled_from(["python", "python", "json", "json", "bytes"]))
    shape, layers = draw(written())
    content = None
    if how != "python":
        listed = [in_json(one) for one in layers] if isinstance(layers, list) else layers
        stored = {"in_shape": shape, "layers": listed}
        if draw(st.integers(0, 4)) == 0:
            stored = json.loads(json.dumps(stored))
            stored = changed(stored, draw(st.sampled_from(paths_of(stored))), draw(JSON))
        content = json.dumps(stored).encode()
        content = draw(damaged_bytes(content)) if how == "bytes" else content
    options = {
        "method": draw(st.sampled_from(["restored", "restored", "dladmm"])),
        "targets": draw(st.sampled_from(["first-order", "first-order", "closed"])),
        "batch_size": draw(st.sampled_from([None, "auto", 3])),
        "loss": draw(st.sampled_from([None, "huber", "log_loss", "hinge"])),
        "step_rule": draw(st.sampled_from(["over-relaxed", "matrix", "closed-form"])),
    }
    return shape, layers, content, draw(st.integers(0, 99)), options


def refused_well(error, *named):
    text = str(error)
    assert "\n" not in text, text
    assert all(name in text for name in named), text
    assert named or NAMED.search(text), text


def building_networks(case):
    shape, layers, content, seed, options = case
    try:
        if content is None:
            network = built(shape, layers)
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "network.json"
                path.write_bytes(content)
                network = read_network(path)
    except ValueError as error:
        refused_well(error, *(["network.json"] if content is not None else []))
        return "refused"
    assert network.summary()
    assert network.n_weights > 0
    return training(network, seed, options)


def rows_for(network, rng, n):
    """Samples of a network, each of a length of its own where they are masked."""
    x = rng.normal(size=(n, *network.in_shape))
    if isinstance(network.layers[0], kinds.Masking):
        steps = network.in_shape[0]
        x[..., -1] = 1
        x[np.arange(steps) < np.arange(n)[:, None] % steps] = 0
    return x


LARGEST = 10**5  # weights: a network of billions is built, and not trained here


def training(network, seed, options):
    if network.n_weights > LARGEST or np.prod(network.in_shape) > LARGEST:
        return "large"
    rng = np.random.default_rng(seed)
    n, outputs = 12, network.out_shape[-1]
    given = {k: v for k, v in options.items() if v is not None} | {"network": network}
    classify = options["loss"] in ("log_loss", "hinge")
    kind = DLADMMClassifier if classify else DLADMMRegressor
    y = np.arange(n) % max(2, outputs) if classify else rng.normal(size=(n, outputs))
    model = kind(max_iter=2, random_state=0, engine="numpy", **given)
    X = rows_for(network, rng, n)
    try:
        predicted = model.fit(X, y).predict(X)
    except ValueError as error:
        text = str(error)
        assert any(re.search(rf"\b{name}\b", text) for name in given), text
        assert "\n" not in text, text
        return "refused to train"
    assert all(np.isfinite(W).all() for W in (*model.coefs_, *model.intercepts_))
    assert np.isfinite(model._output(X.reshape(n, -1))[0]).all() or model.status_ == "diverged"
    assert len(predicted) == n
    return model.status_
