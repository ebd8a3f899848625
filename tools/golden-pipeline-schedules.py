"""Records the orders of PyTorch's pipeline schedules, and what PyTorch makes of them before it runs them.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-pipeline-schedules.py

It rewrites packages/strategies/test/golden/pipeline-schedules.json:

- `tables`: whole orders, one line for each rank; empty cells are left out, since they say nothing about the order.
- `orders`: the first 16 digits of the SHA-256 of such lines, for many shapes, by schedule and shape; null is a shape
  that PyTorch refuses.
- `lowered`: orders with messages, gathering and reductions, the steps of PyTorch's dry run where it has one, and the
  slots of activations.
"""

import hashlib
import json
import logging
import pathlib
import types

from torch.distributed.pipelining import schedules as pp
from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/pipeline-schedules.json"
logging.disable(logging.WARNING)

CLASSES = {
    "gpipe": pp.ScheduleGPipe,
    "1f1b": pp.Schedule1F1B,
    "loopedBfs": pp.ScheduleLoopedBFS,
    "interleaved1f1b": pp.ScheduleInterleaved1F1B,
    "zb1p": pp.ScheduleInterleavedZeroBubble,
    "zbv": pp.ScheduleZBVZeroBubble,
    "dualPipeV": pp.ScheduleDualPipeV,
}
V_SCHEDULES = {"zbv", "dualPipeV"}
SINGLE_SCHEDULES = {"gpipe", "1f1b"}


class Stage:
    """What the schedules ask of a stage before anything runs."""

    def __init__(self, ranks, per_rank):
        self.group_size = ranks
        self.group_rank = 0
        self.num_stages = ranks * per_rank
        self.stage_index = 0
        self.has_backward = True
        self.is_first = True
        self.is_last = ranks * per_rank == 1
        self.group = None
        self.submod = None
        self.stage_index_to_group_rank = {s: s % ranks for s in range(self.num_stages)}


class RecordingStage(Stage):
    """A stage that notes what a schedule of single stages really runs: its printed order has other microbatches."""

    def __init__(self, ranks, rank):
        super().__init__(ranks, 1)
        self.stage_index = rank
        self.actions = []

    def forward_one_chunk(self, microbatch, *_args, **_options):
        self.actions.append(pp._Action(self.stage_index, pp.FORWARD, microbatch))

    def backward_one_chunk(self, microbatch, **_options):
        self.actions.append(pp._Action(self.stage_index, pp.FULL_BACKWARD, microbatch))

    def perform_reduce_grad(self, _scale):
        pass

    def _no_messages(self, _microbatch):
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = _no_messages

    def __getattr__(self, name):
        return lambda *_args, **_options: None


def recorded(kind, ranks, rank, microbatches):
    stage = RecordingStage(ranks, rank)
    schedule = kind(stage, microbatches)
    schedule._initialize_stage = schedule._update_losses = lambda *_: None
    schedule._maybe_compute_loss = schedule._maybe_get_loss = lambda *_: None
    schedule._step_microbatches([()] * microbatches, [{}] * microbatches)
    return stage.actions


def stage_to_rank(name, ranks, per_rank):
    style = "v" if name in V_SCHEDULES else "loop"
    mapping = generate_stage_to_rank_mapping(ranks, ranks * per_rank, style=style)
    return lambda stage: mapping[stage]


def order(name, ranks, per_rank, microbatches):
    """Lists of actions by rank, or None for a shape that the schedule refuses."""
    kind = CLASSES[name]
    stages = [Stage(ranks, per_rank) for _ in range(per_rank)]
    for index, stage in enumerate(stages):
        stage.stage_index = index * ranks
    try:
        if name in SINGLE_SCHEDULES:
            return {rank: recorded(kind, ranks, rank, microbatches) for rank in range(ranks)}
        made = kind(stages, microbatches)
    except ValueError:
        return None
    return {rank: [a for a in made.pipeline_order[rank] if a is not None] for rank in range(ranks)}


def lines(actions):
    return [" ".join(str(a) for a in actions[rank]) for rank in sorted(actions)]


def digest(rows):
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def lower(actions, to_rank, stages, microbatches, *, active=None, reduce=False, late=False):
    now = {rank: pp._merge_bw(list(own)) for rank, own in actions.items()}
    if active is not None:
        now = {rank: pp._add_unshard_reshard(own, active) for rank, own in now.items()}
    if reduce:
        now = {
            rank: [a for a in pp._add_reduce_grad(own, microbatches) if "WAIT" not in str(a)]
            for rank, own in now.items()
        }
    now = pp._add_send_recv(now, to_rank, stages)
    return pp._defer_recv_ops(now, to_rank) if late else now


def parsed(rows):
    return {rank: [pp._Action.from_str(text) for text in row.split()] for rank, row in enumerate(rows)}


# Those that PyTorch's own tests have, and every shape up to 8 ranks with a few microbatches.
GRID = [
    (4, 3, 6), (5, 4, 10), (4, 2, 3), (4, 2, 10), (4, 2, 15), (2, 3, 2), (2, 3, 8), (4, 3, 12), (4, 4, 64),
    (16, 4, 16), (32, 4, 32), (64, 4, 128),
]
SHAPES = sorted(
    {(p, v, m) for p in range(1, 9) for v in (1, 2, 3, 4) for m in (1, 2, 3, 4, 7, 8, 12, 16)} | set(GRID)
)
TABLES = [
    ("1f1b", 4, 1, 8), ("interleaved1f1b", 2, 2, 4), ("interleaved1f1b", 4, 2, 8), ("zb1p", 2, 2, 8),
    ("zb1p", 4, 1, 8), ("zbv", 2, 2, 4), ("zbv", 4, 2, 8), ("dualPipeV", 4, 2, 10),
]
LOWERED = [*TABLES, ("gpipe", 3, 1, 4), ("loopedBfs", 2, 2, 4)]


def slots(actions, to_rank, stages, microbatches):
    """For each rank the slots of its activations, in the order of its forwards."""
    schedule = types.SimpleNamespace(pipeline_order=actions, _n_microbatches=microbatches)
    rows = []
    for rank, own in actions.items():
        plan = pp.analyze_pipeline_activation_liveness(
            schedule,
            pp_rank=rank,
            stage_indices=[s for s in range(stages) if to_rank(s) == rank],
            granularity="stage_microbatch",
        )
        leaves = [leaf for action in own for leaf in (action.sub_actions or (action,))]
        forwards = [leaf for leaf in leaves if leaf.computation_type == pp.FORWARD]
        rows.append(" ".join(str(plan.slot_for(leaf.stage_index, leaf.microbatch_index)) for leaf in forwards))
    return rows


def main():
    tables = {}
    orders = {}
    lowered = {}
    for name in CLASSES:
        for p, v, m in SHAPES:
            if (name in SINGLE_SCHEDULES and v != 1) or (name in V_SCHEDULES and v != 2):
                continue
            actions = order(name, p, v, m)
            orders[f"{name} {p} {v} {m}"] = None if actions is None else digest(lines(actions))
    for name, p, v, m in TABLES:
        tables[f"{name} {p} {v} {m}"] = lines(order(name, p, v, m))
    for name, p, v, m in LOWERED:
        actions = order(name, p, v, m)
        to_rank = stage_to_rank(name, p, v)
        plain = lower(actions, to_rank, p * v, m)
        # The dry run does not know pairs.
        steps = None
        if name != "dualPipeV":
            steps = max(len(own) for own in pp._simulate_comms_compute(plain, to_rank, p * v).values())
        lowered[f"{name} {p} {v} {m}"] = {
            "messages": digest(lines(plain)),
            "late": digest(lines(lower(actions, to_rank, p * v, m, late=True))),
            "all": digest(lines(lower(actions, to_rank, p * v, m, active=3, reduce=True))),
            "steps": steps,
            "slots": digest(slots(actions, to_rank, p * v, m)),
        }
    OUTPUT.write_text(json.dumps({"tables": tables, "orders": orders, "lowered": lowered}, indent=2) + "\n")


main()
