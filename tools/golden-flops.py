"""Records how many floating-point operations PyTorch's FlopCounterMode counts in modules, by module.

Run from the repository root, with PyTorch 2.15 and transformers 5:

    python tools/golden-flops.py

It rewrites packages/core/test/golden/flops.json, whose models are those of packages/core/test/nn-summary.test.ts,
packages/core/test/golden/training-flops.json, whose models are those of packages/core/test/flops-of-training.test.ts, and
packages/models/test/golden/resnet18-flops.json.
"""

import json
import pathlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetConfig, ResNetForImageClassification

PACKAGES = pathlib.Path(__file__).parents[1] / "packages"
OUTPUT = PACKAGES / "core/test/golden/flops.json"
TRAINING = PACKAGES / "core/test/golden/training-flops.json"
RESNET = PACKAGES / "models/test/golden/resnet18-flops.json"


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
        "flops": {path.removeprefix(name).removeprefix("."): count for path, count in sorted(counts.items()) if path != "Global"},
    }
OUTPUT.write_text(json.dumps(golden, indent=2) + "\n")


def trained(model, shape):
    """Counts a forward pass, and a backward pass that also has the gradient of the input, by module."""
    x = torch.zeros(shape, requires_grad=True)

    def count(run):
        with FlopCounterMode(display=False) as counter:
            result = run()
        name = type(model).__name__
        counts = {path: sum(ops.values()) for path, ops in counter.get_flop_counts().items() if path != "Global"}
        by_path = {path.removeprefix(name).removeprefix("."): flops for path, flops in sorted(counts.items())}
        return result, by_path, counter

    output, forward, _ = count(lambda: model(x))
    loss = (output.logits if hasattr(output, "logits") else output).sum()
    _, _, backward = count(loss.backward)
    return {
        "input": list(shape),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "forward": forward,
        "backward": backward.get_total_flops(),
    }


TRAINED = {
    "convolutions along a line": (
        nn.Sequential(
            nn.Conv1d(3, 6, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv1d(6, 8, 3, dilation=2, groups=2, bias=False),
        ),
        (2, 3, 24),
    ),
    "pools along a line": (
        nn.Sequential(
            nn.Conv1d(3, 6, 3, padding=1),
            nn.MaxPool1d(3, 2, 1),
            nn.Conv1d(6, 4, 1),
            nn.AvgPool1d(2),
            nn.Conv1d(4, 4, 2),
            nn.AdaptiveAvgPool1d(2),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        (2, 3, 24),
    ),
    "pools": (
        nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(8, 4, 3, groups=4),
            nn.AvgPool2d(2),
            nn.Conv2d(4, 4, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 5),
        ),
        (2, 3, 14, 12),
    ),
}
golden = {name: trained(model, shape) for name, (model, shape) in TRAINED.items()}
TRAINING.write_text(json.dumps({"torch": torch.__version__, "models": golden}, indent=2) + "\n")

config = ResNetConfig(
    embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic", num_labels=1000
)
golden = {"torch": torch.__version__, **trained(ResNetForImageClassification(config), (1, 3, 224, 224))}
RESNET.write_text(json.dumps(golden, indent=2) + "\n")
