"""Records what PyTorch's pipelines compute: losses of microbatches and gradients, on two ranks over gloo.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-pipelines.py

It rewrites packages/strategies/test/golden/pipelines.json. The model is four blocks of Linear(6, 6) and tanh, whose
weights are sines of their place; the batch is 8 rows in 4 microbatches.
"""

import json
import os
import pathlib

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed import pipelining as pp

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/pipelines.json"
RANKS, BLOCKS, WIDTH, ROWS, MICROBATCHES = 2, 4, 6, 8, 4

# The stages of each rank, by schedule.
SCHEDULES = {
    "gpipe": (pp.ScheduleGPipe, [[0], [1]]),
    "1f1b": (pp.Schedule1F1B, [[0], [1]]),
    "interleaved1f1b": (pp.ScheduleInterleaved1F1B, [[0, 2], [1, 3]]),
    "zb1p": (pp.ScheduleInterleavedZeroBubble, [[0, 2], [1, 3]]),
    "zbv": (pp.ScheduleZBVZeroBubble, [[0, 3], [1, 2]]),
}


def block(index):
    layer = torch.nn.Linear(WIDTH, WIDTH)
    with torch.no_grad():
        places = torch.arange(WIDTH * WIDTH, dtype=torch.float64) + 100 * index
        layer.weight.copy_(torch.sin(places).reshape(WIDTH, WIDTH) * 0.6)
        layer.bias.copy_(torch.cos(places[:WIDTH]) * 0.1)
    return torch.nn.Sequential(layer, torch.nn.Tanh())


def batch():
    places = torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH)
    return torch.cos(places).float(), torch.sin(0.3 * places).float()


def run(rank, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    x, y = batch()
    found = {}
    for name, (kind, stages_of_rank) in SCHEDULES.items():
        count = sum(len(own) for own in stages_of_rank)
        per_stage = BLOCKS // count
        own = stages_of_rank[rank]
        modules = {
            stage: torch.nn.Sequential(*[block(stage * per_stage + i) for i in range(per_stage)])
            for stage in own
        }
        stages = [pp.PipelineStage(modules[s], s, count, torch.device("cpu")) for s in own]
        single = kind in (pp.ScheduleGPipe, pp.Schedule1F1B)
        schedule = kind(stages[0] if single else stages, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
        losses = []
        has_last = count - 1 in own
        inputs = (x,) if 0 in own else ()
        schedule.step(*inputs, **({"target": y, "losses": losses} if has_last else {}))
        gradients = {}
        for stage, module in modules.items():
            for i in range(per_stage):
                layer = module[i][0]
                at = stage * per_stage + i
                gradients[f"{at}.0.weight"] = layer.weight.grad.flatten().tolist()
                gradients[f"{at}.0.bias"] = layer.bias.grad.tolist()
        found[name] = {"losses": [each.item() for each in losses], "gradients": gradients}
    results[rank] = found
    dist.destroy_process_group()


def digits(values):
    return [float(f"{value:.8g}") for value in values]


if __name__ == "__main__":
    results = mp.Manager().dict()
    mp.spawn(run, args=(results,), nprocs=RANKS)
    merged = {}
    for name in SCHEDULES:
        ranks = [results[rank][name] for rank in range(RANKS)]
        gradients = {key: digits(value) for each in ranks for key, value in each["gradients"].items()}
        losses = digits(next(each["losses"] for each in ranks if each["losses"]))
        merged[name] = {"losses": losses, "gradients": dict(sorted(gradients.items()))}
    OUTPUT.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "schedules": merged}, indent=1) + "\n")
