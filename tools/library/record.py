"""Tensors as they stand in packages/core/test/golden/library.json, and what tests make by the same formulas."""

import torch

LISTED, FIRST = 16, 6


def waves(*shape, offset=0):
    """Values of [-1, 1) in steps of 1/64, exact in float32, that repeat after no short period."""
    index = torch.arange(torch.Size(shape).numel()) + offset
    return ((index * index * 29 + index * 53) % 4099 % 128 - 64).view(shape).float() / 64


def numbers(values):
    return " ".join(f"{value:.8g}" for value in values)


def record(tensor):
    """
    The elements, where they are few; otherwise the first ones, two sums that every element has another weight in, and
    the sum of magnitudes, which says how exact the others are.
    """
    values = tensor.detach().double().reshape(-1)
    if len(values) <= LISTED:
        return numbers(values.tolist())
    index = torch.arange(len(values))
    weights = [(index * 7 % 13 - 6).double() / 6, (index * index % 17 - 8).double() / 8]
    sums = [(values * weight).sum() for weight in weights] + [values.abs().sum()]
    return f"{numbers(values[:FIRST].tolist())} ... {numbers(sum_.item() for sum_ in sums)}"


def weights_of(tensor):
    """What outputs are multiplied by before they are summed and differentiated."""
    index = torch.arange(tensor.numel())
    return ((index * 7 % 11 - 5).float() / 4).view(tensor.shape)


def differentiate(outputs):
    sum((output * weights_of(output)).sum() for output in outputs).backward()
