"""The methods by name; `Options.method` is looked up here and nowhere else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dladmm.core.method import Method
from dladmm.core.options import Options
from dladmm.core.problem import Problem
from dladmm.core.relaxed.layer_messages import MESSAGES
from dladmm.core.relaxed.step_rules import SweepOptions, step_rule
from dladmm.core.restored.method import FullBatch, MiniBatch
from dladmm.terms.activations import WithoutSlope


def _restored(problem: Problem, options: Options) -> Method:
    if options.targets == "closed":
        problem = replace(problem, activations=tuple(map(WithoutSlope, problem.activations)))
    if options.batch_size is None:
        return FullBatch(problem)
    return MiniBatch(problem, options.batch_size, options.seed)


def _relaxed(kind: str) -> Callable[[Problem, Options], Method]:
    def build(problem: Problem, options: Options) -> Method:
        from dladmm.core.relaxed import method  # a process that never asks for it starts sooner

        if options.batch_size is not None:
            raise ValueError(
                f"batch_size={options.batch_size!r} does not fit method={options.method!r}, which"
                " works on all samples at once; expected None, or method='restored'"
            )
        how = SweepOptions(step_rule(options.step_rule), options.zl_solver)
        alone: Any = getattr(method, kind)(problem, how)
        if options.layer_devices is None:
            return alone
        from dladmm.core.relaxed.layer_parallel import LayerDLADMM

        messages = MESSAGES[options.layer_messages]
        return LayerDLADMM(problem, alone, options.layer_devices, messages)

    return build


@dataclass(frozen=True)
class Kind:
    """A method before it is made for a problem: how it is, and which options mean nothing to
    others."""

    build: Callable[[Problem, Options], Method]
    own_options: tuple[str, ...] = ()


METHODS = {
    "restored": Kind(_restored),
    # Its layers need not wait for each other.
    "dladmm": Kind(_relaxed("DLADMM"), ("step_rule", "layer_devices")),
    "admm": Kind(_relaxed("ADMM")),
}


def method_for(problem: Problem, options: Options) -> Method:
    """The method these options name; ValueError where they do not fit it."""
    kind = METHODS[options.method]
    if options.layer_devices is not None and "layer_devices" not in kind.own_options:
        raise ValueError(
            f"layer_devices={options.layer_devices!r} does not fit method={options.method!r}, whose"
            " layers wait for each other; expected None, or method='dladmm'"
        )
    return kind.build(problem, options)
