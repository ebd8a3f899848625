"""One layer of experts in PyTorch over gloo: two processes of one thread each, which share out the experts.

Tokens go to experts in turn, two for each token. Rows are sorted by expert, travel by all_to_all_single and back, and each
expert makes one product; forward, backward and SGD, as `layer` of bench/moe-rank.ts. The arguments are WIDTH HIDDEN EXPERTS K TOKENS.
Reads and answers one JSON object per line, as gpt_ddp.py does.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn import functional as F

from gloo_ranks import answer_lines, timed_steps

WORLD_SIZE = 2


class Exchange(torch.autograd.Function):
    """Rows to ranks, with the gradient that goes the other way."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.splits = (sent, received)
        output = x.new_empty((sum(received), *x.shape[1:]))
        dist.all_to_all_single(output, x.contiguous(), received, sent)
        return output

    @staticmethod
    def backward(ctx, gradient):
        sent, received = ctx.splits
        output = gradient.new_empty((sum(sent), *gradient.shape[1:]))
        dist.all_to_all_single(output, gradient.contiguous(), sent, received)
        return output, None, None


class Layer:
    def __init__(self, rank, width, hidden, experts, k, tokens):
        generator = torch.Generator().manual_seed(rank)
        self.k, self.experts, self.own = k, experts, experts // WORLD_SIZE
        matrices = lambda *shape: (torch.rand(shape, generator=generator) * 2 - 1).div(shape[1] ** 0.5).requires_grad_()
        self.router = matrices(experts, width)
        self.up, self.down = matrices(self.own, width, hidden), matrices(self.own, hidden, width)
        self.optimizer = torch.optim.SGD([self.router, self.up, self.down], lr=0.01)
        self.x = torch.sin(torch.arange(tokens * width) * 1.7 + rank).reshape(tokens, width)

    def forward(self, x):
        tokens = x.shape[0]
        shares = (x @ self.router.T).softmax(1)
        chosen = torch.arange(tokens * self.k).reshape(tokens, self.k) % self.experts
        weights = shares.gather(1, chosen)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self.experts)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        theirs = theirs.reshape(WORLD_SIZE, self.own)
        sent = counts.reshape(WORLD_SIZE, self.own).sum(1).tolist()
        received = theirs.sum(1).tolist()
        arrived = Exchange.apply(x[order // self.k], sent, received)
        expert = torch.arange(self.own).repeat(WORLD_SIZE).repeat_interleave(theirs.flatten())
        by_expert = expert.argsort(stable=True)
        rows = arrived[by_expert].split(theirs.sum(0).tolist())
        made = torch.cat([F.gelu(part @ self.up[i]) @ self.down[i] for i, part in enumerate(rows)])
        back = torch.empty_like(made).index_copy(0, by_expert, made)
        results = Exchange.apply(back, received, sent)
        placed = torch.empty_like(results).index_copy(0, order, results)
        return (placed.reshape(tokens, self.k, -1) * weights.unsqueeze(2)).sum(1)

    def step(self):
        leaves = [self.router, self.up, self.down]
        for leaf in leaves:
            leaf.grad = None
        x = self.x.clone().requires_grad_()
        loss = self.forward(x).square().mean()
        loss.backward()
        # What all ranks have is averaged, and experts are divided.
        dist.all_reduce(self.router.grad)
        for leaf in leaves:
            leaf.grad.div_(WORLD_SIZE)
        self.optimizer.step()
        return loss.item()


def make_answer(rank, _, *sizes):
    layer = Layer(rank, *sizes)
    return lambda request: timed_steps(request["steps"], layer.step)


if __name__ == "__main__":
    answer_lines(make_answer, WORLD_SIZE, tuple(map(int, sys.argv[1:6])))
