"""Modules of torch.nn with their initial values, and functions of torch.nn.functional: what they give, and gradients."""

import hashlib

import torch
from torch import nn
from torch.nn import functional as F

from .record import differentiate, record, waves

SEED = 7


def flat(outputs):
    """An LSTM gives (output, (h, c))."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    return [each for output in outputs for each in flat(output)]


def causal(size):
    return nn.Transformer.generate_square_subsequent_mask(size)


def seen(rows, columns):
    """What may be seen, of which PyTorch's masks are the opposite."""
    return (torch.arange(rows).view(-1, 1) * 3 + torch.arange(columns) * 2) % 5 < 3


# Ours is packages/core/test/nn-golden.test.ts, under the same names: a module, shapes of inputs, and how it is called.
MODULES = {
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3), [(2, 4, 9)], None),
    "Conv1d with groups": (lambda: nn.Conv1d(4, 6, 3, 2, 2, 3, 2, bias=False), [(2, 4, 13)], None),
    "Conv2d with groups and dilation": (lambda: nn.Conv2d(4, 6, (3, 2), 2, (1, 2), (2, 3), 2), [(2, 4, 9, 8)], None),
    "Conv3d": (lambda: nn.Conv3d(2, 3, 2), [(2, 2, 3, 4, 5)], None),
    "Conv3d with groups": (lambda: nn.Conv3d(4, 2, (2, 3, 2), (2, 1, 2), (1, 0, 1), (2, 1, 1), 2), [(1, 4, 5, 4, 5)], None),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 2, 3), [(2, 3, 4, 5)], None),
    "ConvTranspose2d with groups": (lambda: nn.ConvTranspose2d(4, 6, (3, 2), (2, 3), (1, 0), (1, 2), 2, dilation=(2, 1)), [(2, 4, 4, 3)], None),
    "ConvTranspose2d with more than its stride": (lambda: nn.ConvTranspose2d(2, 3, 2, 1, (1, 0), (1, 2), dilation=(2, 3)), [(1, 2, 3, 2)], None),
    "BatchNorm1d of rows": (lambda: nn.BatchNorm1d(3), [(5, 3)], None),
    "BatchNorm1d of sequences": (lambda: nn.BatchNorm1d(3, momentum=None), [(2, 3, 4)], lambda m, x: m(m(x))),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2, eps=0.1, momentum=0.3, affine=False), [(2, 2, 2, 2, 3)], None),
    "SyncBatchNorm on one rank": (lambda: nn.BatchNorm2d(2), [(2, 2, 3, 3)], None),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), [(2, 6, 3, 2)], None),
    "GroupNorm of rows": (lambda: nn.GroupNorm(3, 6, eps=0.2, affine=False), [(4, 6)], None),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3), [(2, 3, 5)], None),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True), [(2, 3, 3, 2)], None),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(2), [(2, 2, 2, 3, 2)], None),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1, 2), [(2, 3, 11)], None),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1), [(2, 3, 11)], None),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(4), [(2, 3, 11)], None),
    "AdaptiveAvgPool2d to one": (lambda: nn.AdaptiveAvgPool2d(1), [(2, 3, 5, 4)], None),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, None)), [(2, 3, 7, 4)], None),
    "AdaptiveAvgPool2d to more": (lambda: nn.AdaptiveAvgPool2d((5, 4)), [(2, 3, 3, 3)], None),
    "LSTM": (lambda: nn.LSTM(3, 4), [(5, 2, 3)], None),
    "LSTM with layers": (lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), [(2, 5, 3), (4, 2, 4), (4, 2, 4)], lambda m, x, h, c: m(x, (h, c))),
    "LSTM without bias": (lambda: nn.LSTM(3, 2, 3, bias=False), [(4, 1, 3)], None),
    "GRU": (lambda: nn.GRU(3, 4), [(5, 2, 3)], None),
    "GRU with layers": (lambda: nn.GRU(3, 4, 2, batch_first=True, bidirectional=True), [(2, 5, 3), (4, 2, 4)], None),
    "GRU without bias": (lambda: nn.GRU(2, 3, bias=False), [(1, 2, 2)], None),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True), [(2, 5, 8)], None),
    "TransformerEncoderLayer, norm first": (
        lambda: nn.TransformerEncoderLayer(8, 4, 12, 0.0, "gelu", 1e-3, True, True),
        [(2, 5, 8)],
        lambda m, x: m(x, causal(5), is_causal=True),
    ),
    "TransformerEncoderLayer with a mask": (
        lambda: nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True),
        [(2, 5, 8)],
        lambda m, x: m(x, src_key_padding_mask=~seen(2, 5)),
    ),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(8, 2, 12, 0.0, batch_first=True), [(2, 5, 8), (2, 3, 8)], None),
    "TransformerDecoderLayer, norm first": (
        lambda: nn.TransformerDecoderLayer(8, 2, 12, 0.0, "gelu", 1e-3, True, True),
        [(2, 5, 8), (2, 3, 8)],
        lambda m, x, y: m(x, y, tgt_mask=causal(5), memory_mask=~seen(5, 3), tgt_is_causal=True),
    ),
}

FUNCTIONS = {
    "pixelShuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 2, 3)),
    "pixelUnshuffle": (lambda x: F.pixel_unshuffle(x, 3), (2, 3, 6)),
    "unfold": (lambda x: F.unfold(x, (2, 3), (2, 1), (1, 0), (1, 2)), (2, 3, 5, 4)),
    "nearest": (lambda x: F.interpolate(x, 7), (2, 3, 5)),
    "nearest by factors": (lambda x: F.interpolate(x, scale_factor=(2.6, 0.7)), (2, 3, 5, 4)),
    "nearest by factors to twice the size": (lambda x: F.interpolate(x, scale_factor=(2.1, 1.2)), (1, 1, 8, 4)),
    "nearestExact": (lambda x: F.interpolate(x, (7, 3, 4), mode="nearest-exact"), (1, 2, 3, 5, 4)),
    "linear": (lambda x: F.interpolate(x, 8, mode="linear"), (2, 3, 5)),
    "bilinear": (lambda x: F.interpolate(x, (7, 3), mode="bilinear"), (2, 3, 5, 4)),
    "bilinear by factors": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), (2, 3, 5, 4)),
    "bilinear by factors to the same size": (lambda x: F.interpolate(x, scale_factor=(1.2, 0.7), mode="bilinear"), (1, 1, 4, 5)),
    "bilinear, aligned": (lambda x: F.interpolate(x, (1, 9), mode="bilinear", align_corners=True), (2, 3, 5, 4)),
    "trilinear": (lambda x: F.interpolate(x, (4, 2, 6), mode="trilinear"), (1, 2, 3, 3, 4)),
    "bicubic": (lambda x: F.interpolate(x, (8, 3), mode="bicubic"), (2, 2, 5, 4)),
    "bicubic, aligned": (lambda x: F.interpolate(x, (3, 7), mode="bicubic", align_corners=True), (1, 2, 5, 4)),
}


def digest(tensor):
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def inputs_of(shapes):
    return [waves(*shape, offset=100 * index).requires_grad_() for index, shape in enumerate(shapes)]


def modules():
    for name, (make, shapes, call) in MODULES.items():
        torch.manual_seed(SEED)
        module = make()
        initial = {key: f"{list(value.shape)} {digest(value)}" for key, value in module.named_parameters()}
        inputs = inputs_of(shapes)
        outputs = flat((call or (lambda m, *x: m(*x)))(module, *inputs))
        differentiate(outputs)
        buffers = {key: record(value) for key, value in module.named_buffers()}
        yield {
            "module": name,
            "shapes": shapes,
            "initial": initial,
            "outputs": [record(output) for output in outputs],
            "inputGradients": [record(x.grad) for x in inputs],
            "gradients": {key: record(value.grad) for key, value in module.named_parameters()},
            "buffers": buffers,
        }


def functions():
    for name, (call, shape) in FUNCTIONS.items():
        (x,) = inputs_of([shape])
        y = call(x)
        differentiate([y])
        yield {"function": name, "shape": shape, "output": f"{list(y.shape)}", "values": record(y), "gradient": record(x.grad)}
