"""Records how many floating-point operations PyTorch's FlopCounterMode counts in modules, by module.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-flops.py

It rewrites packages/core/test/golden/flops.json. The models are those of packages/core/test/nn-summary.test.ts.
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/core/test/golden/flops.json"


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(7, 13)
        self.norm = nn.LayerNorm(13)
        self.down = nn.Linear(13, 5, bias=False)

    def forward(self, x):
        return self.down(self.norm(F.gelu(self.up(x))))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, (3, 5), padding=(1, 2))
        self.conv2 = nn.Conv2d(6, 9, 3, stride=2, dilation=2, groups=3)
        self.norm = nn.BatchNorm2d(9)
        self.head = nn.Linear(9 * 2 * 3, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 1)
        return self.head(torch.flatten(self.norm(self.conv2(x)), 1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 12)
        self.qkv = nn.Linear(12, 36)
        self.projection = nn.Linear(12, 12)
        self.head = nn.Linear(12, 11, bias=False)
        self.head.weight = self.tokens.weight

    def attend(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 2, 6).permute(2, 0, 3, 1, 4)
        y = F.softmax(q @ k.transpose(-2, -1), -1) @ v
        return self.projection(y.transpose(1, 2).reshape(batch, length, 12))

    def forward(self, indices):
        x = self.tokens(indices)
        return self.head(x + self.attend(self.attend(x)))


MODELS = {
    "Mlp": (Mlp, torch.zeros(4, 3, 7)),
    "Cnn": (Cnn, torch.zeros(2, 1, 9, 11)),
    "Attention": (Attention, torch.zeros(2, 5, dtype=torch.int64)),
}

golden = {"torch": torch.__version__}
for name, (model, inputs) in MODELS.items():
    built = model().eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        output = built(inputs)
    counts = {path: sum(ops.values()) for path, ops in counter.get_flop_counts().items()}
    golden[name] = {
        "output": list(output.shape),
        "parameters": sum(parameter.numel() for parameter in built.parameters()),
        "flops": {path.removeprefix(name).removeprefix("."): count for path, count in counts.items() if path != "Global"},
    }
OUTPUT.write_text(json.dumps(golden, indent=2) + "\n")
