"""Records what residual networks with torchvision's names and layout compute, in PyTorch.

torchvision itself is not needed: its `resnet18` and `resnet50` are written here, with fewer channels. Weights follow from
their names by the formulas of golden-models.py, so only names, shapes and results are kept.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-torchvision.py && npx oxfmt packages/models/test/golden/torchvision.json
"""

import importlib.util
import json
import math
import pathlib

import torch
from torch import nn

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

IMAGE, CLASSES = 32, 5


def shortcut(inputs, outputs, stride):
    if inputs == outputs and stride == 1:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()
        return (self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    def __init__(self, block, width, depths):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = width
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                own = width * 2**stage
                blocks.append(block(inputs, own, 2 if stage > 0 and index == 0 else 1))
                inputs = own * block.expansion
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inputs, CLASSES)
        self.depths = depths

    def forward(self, x):
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for stage in range(len(self.depths)):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def main():
    results = []
    images = torch.from_numpy(models.uniform("images", 2 * 3 * IMAGE**2)).reshape(2, 3, IMAGE, IMAGE)
    for kind, block, depths in [("basic", BasicBlock, [2, 2, 2, 2]), ("bottleneck", Bottleneck, [3, 4, 6, 3])]:
        model = ResNet(block, 4, depths).eval()
        state = model.state_dict()
        for name, tensor in state.items():
            if tensor.dtype != torch.float32:
                continue
            values = torch.from_numpy(models.uniform(name, tensor.numel())).reshape(tensor.shape)
            # Weights keep the variance. What norms keep lies near 0 and 1.
            scale = 2 / math.sqrt(tensor[0].numel()) if tensor.dim() > 1 else 0.2
            tensor.copy_(values * scale + (tensor if tensor.dim() == 1 and not name.startswith("fc") else 0))
        with torch.no_grad():
            logits = model(images)
        tensors = {name: list(tensor.shape) for name, tensor in state.items()}
        results.append({"layerType": kind, "depths": depths, "tensors": tensors, "logits": models.short(logits.flatten())})
    target = pathlib.Path("packages/models/test/golden/torchvision.json")
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes", [result["logits"] for result in results])


main()
