"""Records how PyTorch trains the models that every strategy trains, on one process.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-strategy-table.py

It rewrites packages/strategies/test/golden/strategy-table.json: the version of PyTorch and, of each model, the mean loss
of every step with AdamW. packages/strategies/test/strategy-table.full.test.ts compares with them.

The models and their batches are those of packages/strategies/test/ranks/models.ts, with the same names and the same order
of construction after torch.manual_seed(SEED). One thread and deterministic algorithms.
"""

import json
import math
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional as F

SEED, STEPS, BATCH, LEARNING_RATE = 0, 20, 36, 0.01
OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/strategy-table.json"


class OddMlp(nn.Module):
    INPUT, CLASSES = (7,), 5

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(7, 13), nn.Linear(13, 13), nn.Linear(13, 5)])
        self.scale = nn.Parameter(torch.ones(1))
        self.temperature = nn.Parameter(torch.tensor(1.0))
        self.unused = nn.Linear(3, 2)
        self.layers[1].bias.requires_grad_(False)

    def forward(self, x):
        first, second, third = self.layers
        deeper = second(torch.tanh(second(F.gelu(first(x))))) * self.scale
        return third(deeper) / torch.exp(self.temperature)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(12)
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        self.norm2 = nn.LayerNorm(12)
        self.up = nn.Linear(12, 20)
        self.down = nn.Linear(20, 12)

    def forward(self, x):
        h = self.norm1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = x + self.attention(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return y + self.down(F.gelu(self.up(self.norm2(y))))


class TinyGpt(nn.Module):
    VOCABULARY, CONTEXT = 11, 6

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, 12)
        positions = [math.sin(index) / 10 for index in range(self.CONTEXT * 12)]
        self.positions = nn.Parameter(torch.tensor(positions).view(self.CONTEXT, 12))
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, self.VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        h = self.tokens(ids) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).flatten(0, 1)

    @classmethod
    def batch(cls, step):
        text = integers(BATCH * (cls.CONTEXT + 1), cls.VOCABULARY, step + 1)
        text = text.view(BATCH, cls.CONTEXT + 1)
        return text[:, :-1], text[:, 1:]


class ConvNet(nn.Module):
    INPUT, CLASSES = (2, 6, 6), 3

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 7, 3, stride=2)]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(7 * 4, self.CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(torch.flatten(x, 1))


MODELS = {"an odd MLP": OddMlp, "a GPT": TinyGpt, "a convolutional net": ConvNet}


def values(count, seed):
    """Values in [-1, 1) of a linear congruential generator."""
    state = (seed * 2654435761 + 12345) % 2**32
    found = []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        found.append((state - 2**32 if state >= 2**31 else state) / 2**31)
    return torch.from_numpy(numpy.array(found, dtype=numpy.float32))


def integers(count, below, seed):
    return ((values(count, seed).double() + 1) / 2 * below).floor().long()


def classify(model_class, step):
    x = values(BATCH * math.prod(model_class.INPUT), step + 1).view(BATCH, *model_class.INPUT)
    return x, integers(BATCH, model_class.CLASSES, step + 100)


def train(model_class):
    torch.manual_seed(SEED)
    model = model_class()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in range(STEPS):
        x, y = model_class.batch(step) if hasattr(model_class, "batch") else classify(model_class, step)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "torch": torch.__version__.split("+")[0],
        "losses": {name: train(model_class) for name, model_class in MODELS.items()},
    }
    OUTPUT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
