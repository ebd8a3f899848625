"""Records what torch.profiler.schedule says of the steps of a program.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-profiler-schedule.py

It rewrites packages/shardwise/test/golden/profiler-schedule.json: for options in the order wait, warmup, active, repeat,
skip_first, skip_first_wait, a letter for each of the first 30 steps: N (none), W (warmup), R (record) or S (record and
save).
"""

import itertools
import json
import pathlib
import warnings

from torch.profiler import ProfilerAction, schedule

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/shardwise/test/golden/profiler-schedule.json"
LETTERS = {
    ProfilerAction.NONE: "N",
    ProfilerAction.WARMUP: "W",
    ProfilerAction.RECORD: "R",
    ProfilerAction.RECORD_AND_SAVE: "S",
}
NAMES = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
# Without warmup, PyTorch warns.
warnings.simplefilter("ignore")

cases = itertools.product((0, 1, 3), (0, 1, 2), (1, 3), (0, 1, 2), (0, 4), (0, 1))
table = {
    " ".join(map(str, case)): "".join(
        LETTERS[action(step)] for step in range(30)
    )
    for case in cases
    for action in [schedule(**dict(zip(NAMES, case)))]
}
OUTPUT.write_text(json.dumps(table, indent=1) + "\n")
