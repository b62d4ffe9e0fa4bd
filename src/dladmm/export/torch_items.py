"""What single PyTorch layers are among the entries of a `Network`, or why they are none."""

from collections.abc import Callable
from typing import Any

from torch import nn

from dladmm.export.torch_activations import NAMES, REQUIRED, QuantizedReLU
from dladmm.export.torch_shapes import Residual
from dladmm.network import AveragePool, Conv1D, Conv2D, GlobalAveragePool, MaxPool, Recurrent
from dladmm.network.items import Item, why_refused

Refuse = Callable[[str], ValueError]
CONVOLUTIONS: dict[type[nn.Module], Any] = {nn.Conv1d: Conv1D, nn.Conv2d: Conv2D}
MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d)
AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d)
GLOBAL_POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
ACTIVATIONS: list[type[nn.Module]] = [nn.LeakyReLU, QuantizedReLU, *NAMES]
ZERO_PADS = (nn.ZeroPad1d, nn.ZeroPad2d)
POOLS: tuple[type[nn.Module], ...] = (*MAX_POOLS, *AVERAGE_POOLS, *GLOBAL_POOLS)


def convolution_item(layer: Any, refuse: Refuse, zeros: Any = ()) -> Item:
    """`zeros` are those of a ZeroPad before it, as that has them: the last axis first."""
    if layer.padding_mode != "zeros":
        raise refuse(f"it has padding_mode={layer.padding_mode!r}; expected 'zeros'")
    padding = layer.padding
    if zeros:
        if padding not in ("valid", (0,) * len(layer.kernel_size)):
            raise refuse(f"it has padding={padding}; expected padding=0 after a ZeroPad")
        padding = tuple(zip(zeros[::2], zeros[1::2], strict=True))[::-1]
    sizes = layer.kernel_size, layer.stride, padding, layer.dilation, layer.groups
    item: Item = CONVOLUTIONS[type(layer)](layer.out_channels, *sizes)
    return item


def pool_item(layer: Any, refuse: Refuse) -> Item:
    """A pooling whose windows do not overlap and leave nothing but the ends of an axis out."""
    if isinstance(layer, GLOBAL_POOLS):
        if _numbers(layer.output_size) != {1}:
            raise refuse(f"it has output_size={layer.output_size}; expected 1")
        return GlobalAveragePool()
    size = layer.kernel_size
    if _each(layer, layer.stride) != _each(layer, size):
        raise refuse(
            f"it has stride={layer.stride}; expected the kernel_size, {size}: windows that do"
            " not overlap"
        )
    expected = {"padding": 0, "dilation": 1, "ceil_mode": False, "return_indices": False}
    for name, value in {**expected, "divisor_override": None}.items():
        given = getattr(layer, name, value)
        if _numbers(given) != {value}:
            raise refuse(f"it has {name}={given}; expected {name}={value}")
    window = _each(layer, size)
    return MaxPool(window) if isinstance(layer, MAX_POOLS) else AveragePool(window)


def recurrent_item(layer: nn.RNN, last: bool, refuse: Refuse) -> Item:
    expected: dict[str, Any] = {
        "num_layers": 1, "batch_first": True, "bidirectional": False, "dropout": 0.0
    }  # fmt: skip
    for name, value in expected.items():
        if getattr(layer, name) != value:
            raise refuse(f"it has {name}={getattr(layer, name)}; expected {name}={value}")
    return Recurrent(layer.hidden_size, layer.nonlinearity, "last" if last else "all")


def is_whole_flatten(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def why_not(layer: nn.Module) -> str:
    """Why a layer cannot be trained."""
    if isinstance(layer, nn.Softmax | nn.LogSoftmax):
        return "the loss takes logits and applies the softmax itself; leave this layer out"
    if isinstance(layer, nn.Flatten):
        return "expected start_dim=1 and end_dim=-1"
    if type(layer) in REQUIRED:
        required = ", ".join(f"{k}={v:g}" for k, v in REQUIRED[type(layer)].items())
        return f"expected {required}"
    reason = why_refused(type(layer).__name__)
    if isinstance(layer, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.AlphaDropout):
        return f"{reason}; leave it out and use a regularizer"
    if reason is not None:
        return reason
    known: list[type[nn.Module]] = [*CONVOLUTIONS, *POOLS, nn.Flatten, nn.RNN, Residual]
    names = sorted(kind.__name__ for kind in (*known, *ACTIVATIONS))
    return f"expected Linear or one of {', '.join(names)}"


def _each(layer: nn.Module, sizes: Any) -> tuple[int, ...]:
    """One number for every axis."""
    axes = 1 if isinstance(layer, nn.MaxPool1d | nn.AvgPool1d) else 2
    return tuple(sizes) if isinstance(sizes, tuple | list) else (sizes,) * axes


def _numbers(sizes: Any) -> set[Any]:
    return set(sizes) if isinstance(sizes, tuple | list) else {sizes}
