"""Records weights in 4 bits as bitsandbytes keeps them: NF4 with double quantization, by its published formulas.

Weights follow from the formulas of golden-models.py, which packages/models/test/golden/formulas.ts repeats.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-quantization.py && npx oxfmt packages/models/test/golden/quantization.json
"""

import importlib.util
import json
import math
import pathlib

import torch

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

BLOCK, GROUP = 64, 256


def nf4():
    """bitsandbytes' create_normal_map: quantiles of the normal distribution, on both sides of an exact zero."""
    offset = 0.9677083
    quantile = torch.distributions.Normal(0, 1).icdf
    positive = quantile(torch.linspace(offset, 0.5, 9)[:-1])
    negative = -quantile(torch.linspace(offset, 0.5, 8)[:-1])
    values = torch.cat([positive, torch.zeros(1), negative]).sort().values
    return values / values.abs().max()


def dynamic_map():
    """bitsandbytes' create_dynamic_map(signed=True)."""
    values = []
    for exponent in range(7):
        bounds = torch.linspace(0.1, 1, 2**exponent + 1, dtype=torch.float64)
        means = (bounds[:-1] + bounds[1:]) / 2 * 10.0 ** (exponent - 6)
        values += [*means.tolist(), *(-means).tolist()]
    return torch.tensor(sorted([*values, 0.0, 1.0]), dtype=torch.float32)


def nearest(values, table):
    return (values[..., None] - table).abs().argmin(-1)


def in_rows(values, size):
    flat = values.flatten()
    rows = math.ceil(flat.numel() / size)
    return torch.cat([flat, torch.zeros(rows * size - flat.numel())]).reshape(rows, size)


def run(name, shape):
    weight = torch.from_numpy(models.uniform(name, math.prod(shape))).reshape(shape)
    blocks = in_rows(weight, BLOCK)
    absmax = blocks.abs().amax(1)
    codes = nearest(blocks / absmax[:, None], nf4())
    packed = codes[:, 0::2] * 16 + codes[:, 1::2]
    mean = absmax.mean()
    groups = in_rows(absmax - mean, GROUP)
    scales = groups.abs().amax(1)
    nested = nearest(groups / scales[:, None], dynamic_map())
    restored = dynamic_map()[nested] * scales[:, None]
    absmax_again = restored.flatten()[: absmax.numel()] + mean
    values = (nf4()[codes] * absmax_again[:, None]).flatten()[: weight.numel()].reshape(shape)
    x = torch.from_numpy(models.uniform("x", 2 * shape[1])).reshape(2, shape[1])
    return {
        "name": name,
        "shape": shape,
        "bytes": models.short(models.summary("bytes", packed)),
        "scales": models.short(scales),
        "mean": float(mean),
        "weight": models.short(models.summary("weight", values)),
        "product": models.short(models.summary("product", x @ values.T)),
    }


if __name__ == "__main__":
    results = {
        "nf4": models.short(nf4()),
        "cases": [run("whole blocks", [16, 64]), run("a part of a block", [9, 23]), run("two groups of scales", [150, 128])],
    }
    target = pathlib.Path("packages/models/test/golden/quantization.json")
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes")
