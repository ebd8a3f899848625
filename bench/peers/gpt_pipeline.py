"""PyTorch's pipelining over gloo with the benchmark GPT: two processes of one thread each.

Reads one JSON object per line from stdin: {"steps": n, "mode": "gpipe" | "1f1b" | "zb1p" | "zbv"}, and answers each with
one line: {"ms": [milliseconds of each step of rank 0, between two barriers of all ranks], "losses": [of the batches]}.
The arguments are LAYERS WIDTH HEADS ROWS MICROBATCHES, where ROWS are those of a microbatch. The first line it writes
describes itself. Stages begin at the same blocks as in bench/pipeline/messages.ts.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining import schedules as pp
from torch.nn import functional as F

from gloo_ranks import answer_lines, timed_steps
from gpt_model import GPT, VOCABULARY, batch_of, make_optimizer

WORLD_SIZE = 2
SCHEDULES = {
    "gpipe": pp.ScheduleGPipe,
    "1f1b": pp.Schedule1F1B,
    "zb1p": pp.ScheduleInterleavedZeroBubble,
    "zbv": pp.ScheduleZBVZeroBubble,
}


class Stage(nn.Module):
    """What a stage has of the whole model."""

    def __init__(self, model, index, count):
        super().__init__()
        size = len(model.blocks) // count
        self.blocks = nn.ModuleList(model.blocks[index * size : (index + 1) * size])
        self.tokens = model.tokens if index == 0 else None
        self.positions = model.positions if index == 0 else None
        self.norm = model.norm if index == count - 1 else None
        self.head = model.head if index == count - 1 else None

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x if self.norm is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class Training:
    def __init__(self, rank, mode, sizes, rows, microbatches):
        torch.manual_seed(0)
        model = GPT(**sizes)
        self.batch = rows * microbatches
        own = [rank, 2 * WORLD_SIZE - 1 - rank] if mode == "zbv" else [rank]
        count = WORLD_SIZE * len(own)
        modules = [Stage(model, index, count) for index in own]
        stages = [PipelineStage(m, i, count, torch.device("cpu")) for m, i in zip(modules, own)]
        several = mode in ("zb1p", "zbv")
        self.schedule = SCHEDULES[mode](stages if several else stages[0], microbatches, loss_fn=loss_of)
        self.has_first, self.has_last = 0 in own, count - 1 in own
        self.last_rank = 0 if mode == "zbv" else WORLD_SIZE - 1
        self.optimizer = make_optimizer(nn.ModuleList(modules), None)
        self.step = 0

    def train(self):
        inputs, targets = batch_of(self.step, 0, self.batch)
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        self.schedule.step(
            *([inputs] if self.has_first else []),
            target=targets if self.has_last else None,
            losses=losses,
            return_outputs=False,
        )
        self.optimizer.step()
        self.step += 1
        # Every rank reads the loss, as ours do.
        loss = torch.stack(losses).mean().detach() if self.has_last else torch.zeros([])
        dist.broadcast(loss, self.last_rank)
        return loss.item()


def make_answer(rank, _, sizes, rows, microbatches):
    trainings = {}

    def answer(request):
        mode = request["mode"]
        if mode not in trainings:
            trainings[mode] = Training(rank, mode, sizes, rows, microbatches)
        return timed_steps(request["steps"], trainings[mode].train)

    return answer


if __name__ == "__main__":
    layers, width, heads, rows, microbatches = map(int, sys.argv[1:6])
    sizes = {"layers": layers, "width": width, "heads": heads}
    answer_lines(make_answer, WORLD_SIZE, (sizes, rows, microbatches))
