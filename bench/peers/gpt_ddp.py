"""PyTorch DistributedDataParallel over gloo with the benchmark GPT: two processes of one thread each.

Reads one JSON object per line from stdin: {"steps": n, "optimizer": "default" | "fused", "mode": "ddp" | "fsdp" | "alone",
"precision": "f32" | "bf16"}, where bf16 is torch.autocast,
"fsdp" is fully_shard of each block and of the whole, and "alone" trains the same two ranks without any communication.
The arguments LAYERS WIDTH HEADS BATCH are those of another model than the benchmarks' usual one, and of each rank's batch. Answers each with one line: {"ms": [milliseconds of each step
of rank 0, between two barriers of all ranks], "losses": [rank 0's]}. The first line it writes describes itself.
"""

import sys

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gloo_ranks import answer_lines, timed_steps
from gpt_model import BATCH, GPT, make_optimizer, train_step

WORLD_SIZE = 2


class Training:
    def __init__(self, rank, mode, fused, sizes, batch):
        torch.manual_seed(0)
        model = GPT(**sizes)
        self.rank = rank
        self.batch = batch
        self.model = DistributedDataParallel(model) if mode == "ddp" else model
        if mode == "fsdp":
            mesh = init_device_mesh("cpu", (WORLD_SIZE,))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.optimizer = make_optimizer(model, fused)
        self.step = 0

    def run(self, steps, precision):
        return timed_steps(steps, lambda: self.train(precision))

    def train(self, precision):
        loss = train_step(self.model, self.optimizer, self.step, self.rank, self.batch, precision)
        self.step += 1
        return loss


def make_answer(rank, _, sizes, batch):
    trainings = {}

    def answer(request):
        key = (request["mode"], request["optimizer"])
        if key not in trainings:
            trainings[key] = Training(rank, key[0], True if key[1] == "fused" else None, sizes, batch)
        return trainings[key].run(request["steps"], request["precision"])

    return answer


if __name__ == "__main__":
    sizes = dict(zip(("layers", "width", "heads"), map(int, sys.argv[1:4])))
    batch = int(sys.argv[4]) if len(sys.argv) > 4 else BATCH
    answer_lines(make_answer, WORLD_SIZE, (sizes, batch))
