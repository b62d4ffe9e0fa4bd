"""The targets of the races' tasks, by the rule of `dladmm.experiments.tasks`, as one JSON object.

Needs the extras compare and benchmarks.
"""

import json

from dladmm.experiments.machine import describe_machine
from dladmm.experiments.tasks import TASKS, score_of_rule, target_of_rule, task_named


def main():
    rows = {}
    for name in TASKS:
        task = task_named(name, judged="validation")
        scores = score_of_rule(task)
        rows[name] = {
            "samples": len(task.setup.arrays[0]),
            "network": task.network,
            "figure": task.targets[0].figure,
            "scores": [round(score, 5) for score in scores],
            "target": target_of_rule(scores),
        }
    print(json.dumps({"tasks": rows, "machine": describe_machine()}, indent=2))


if __name__ == "__main__":
    main()
