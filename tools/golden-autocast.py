"""Records what PyTorch's autocast computes on a CPU: dtypes and values of operations, and loss curves.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-autocast.py

It rewrites test/golden/autocast.json, which test/golden-autocast.test.ts compares with:

    operations.NAME   the dtype of the result, its values, and the gradient of the sum of (result * weights) by the
                      first input, for each dtype of autocast; weights are waves of the shape of the result
    curves.MODEL.OPTIMIZER.DTYPE   the mean loss of every step, with f32 (no autocast), bf16 and f16
    noise.MODEL.OPTIMIZER.DTYPE    the largest difference of a loss from that in f32, in trainings from the same weights
                                   and from NEIGHBOURS others, each weight of which is off by up to 2^-10 of it

Curves begin with the weights and take the batches of tools/golden-training.py. In f16 the loss is scaled as by
torch.amp.GradScaler, with the constant 1024, which is a power of 2 and never overflows here. One thread.
"""

import importlib
import json
import pathlib
import sys

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent))
training = importlib.import_module("golden-training")

OUTPUT = pathlib.Path(__file__).parents[1] / "test/golden/autocast.json"
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
SCALE, NEIGHBOURS = 1024, 6
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def waves(*shape, start=0):
    """Values of (-1, 1) with more digits than 16 bits hold, the same in float64 arithmetic of any language."""
    index = torch.arange(torch.Size(shape).numel(), dtype=torch.float64) + start
    return torch.sin(index * 1.7 + 0.3).view(shape).float()


def half(x):
    """A value of the dtype of the autocast, as a product has made it."""
    return x.to(torch.get_autocast_dtype("cpu"))


CLASSES = torch.tensor([1, 0, 3])

# In the order of the tables of test/golden-autocast.test.ts, which has the same operations.
OPERATIONS = {
    "matmul": lambda x: x @ waves(5, 3, start=50),
    "matmul of a vector": lambda x: x @ waves(5, start=50),
    "linear": lambda x: F.linear(x, waves(3, 5, start=50), waves(3, start=80)),
    "conv2d": lambda x: F.conv2d(x.view(1, 1, 4, 5), waves(2, 1, 3, 3, start=50), waves(2, start=80), padding=1),
    "conv transposed": lambda x: F.conv_transpose2d(x.view(1, 2, 2, 5), waves(2, 1, 3, 3, start=50), stride=2),
    "attention": lambda x: F.scaled_dot_product_attention(
        x.view(1, 1, 4, 5), waves(1, 1, 4, 5, start=50), waves(1, 1, 4, 5, start=90), is_causal=True
    ),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, waves(3, 5, start=50)),
    "add": lambda x: half(x) + waves(4, 5, start=50),
    "mul": lambda x: half(x) * half(waves(4, 5, start=50)),
    "gelu": lambda x: F.gelu(half(x)),
    "exp": lambda x: torch.exp(half(x)),
    "sum": lambda x: half(x).sum(1),
    "mean": lambda x: half(x).mean(1),
    "softmax": lambda x: F.softmax(half(x), -1),
    "log softmax": lambda x: F.log_softmax(half(x), -1),
    "layer norm": lambda x: F.layer_norm(half(x), [5], waves(5, start=50), waves(5, start=60)),
    "batch norm": lambda x: F.batch_norm(half(x), None, None, training=True),
    "norm": lambda x: torch.linalg.vector_norm(half(x), dim=1),
    "average pool": lambda x: F.avg_pool2d(half(x).view(1, 1, 4, 5), 2),
    "mse loss": lambda x: F.mse_loss(half(x), half(waves(4, 5, start=50))),
    "l1 loss": lambda x: F.l1_loss(half(x), half(waves(4, 5, start=50))),
    "smooth l1 loss": lambda x: F.smooth_l1_loss(half(x), half(waves(4, 5, start=50))),
    "huber loss": lambda x: F.huber_loss(half(x), half(waves(4, 5, start=50))),
    "cross entropy": lambda x: F.cross_entropy(half(x)[:3], CLASSES),
    "nll loss": lambda x: F.nll_loss(half(x)[:3], CLASSES),
    "binary cross entropy with logits": lambda x: F.binary_cross_entropy_with_logits(
        half(x), half(waves(4, 5, start=50).abs())
    ),
    "kl div": lambda x: F.kl_div(half(x), half(waves(4, 5, start=50).abs()), reduction="mean"),
    "cosine embedding loss": lambda x: F.cosine_embedding_loss(
        half(x), half(waves(4, 5, start=50)), torch.tensor([1, -1, 1, 1])
    ),
    "triplet margin loss": lambda x: F.triplet_margin_loss(
        half(x), half(waves(4, 5, start=50)), half(waves(4, 5, start=90))
    ),
    "cdist": lambda x: torch.cdist(half(x), half(waves(3, 5, start=50))),
}


def recorded(operation, dtype):
    x = waves(4, 5).requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        result = operation(x)
    (result * waves(*result.shape, start=7)).sum().backward()
    numbers = lambda t: [float(f"{value:.7g}") for value in t.detach().float().flatten().tolist()]
    return {"dtype": NAMES[result.dtype], "values": numbers(result), "gradient": numbers(x.grad)}


def neighbour(model_class, number):
    """The model with its initial weights, or, from 1 on, others near by."""
    model = training.built(model_class)
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in model.parameters() if number > 0 else []:
            parameter *= 1 + (torch.rand(parameter.shape, generator=generator) - 0.5) * 2**-9
    return model


def noise(model_class, make_optimizer):
    largest = dict.fromkeys(DTYPES, 0.0)
    for number in range(NEIGHBOURS + 1):
        exact = curve(neighbour(model_class, number), model_class, make_optimizer, None)
        for key, dtype in DTYPES.items():
            losses = curve(neighbour(model_class, number), model_class, make_optimizer, dtype)
            own = max(abs(a - b) for a, b in zip(losses, exact))
            largest[key] = max(largest[key], float(f"{own:.3g}"))
    return largest


def curve(model, model_class, make_optimizer, dtype):
    optimizer = make_optimizer(model.parameters())
    inputs, targets = model_class.data()
    scale = SCALE if dtype == torch.float16 else 1
    losses = []
    for step in range(training.STEPS):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = training.loss_of(model, inputs[step], targets[step])
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
        losses.append(float(f"{loss.item():.7g}"))
    return losses


def main():
    torch.set_num_threads(1)
    operations = {
        name: {key: recorded(operation, dtype) for key, dtype in DTYPES.items()} for name, operation in OPERATIONS.items()
    }
    curves = {
        name: {
            optimizer: {
                key: curve(training.built(model), model, make, dtype) for key, dtype in {"f32": None, **DTYPES}.items()
            }
            for optimizer, make in training.OPTIMIZERS.items()
        }
        for name, model in training.MODELS.items()
    }
    noises = {
        name: {optimizer: noise(model, make) for optimizer, make in training.OPTIMIZERS.items()}
        for name, model in training.MODELS.items()
    }
    version = torch.__version__.split("+")[0]
    contents = {"torch": version, "operations": operations, "curves": curves, "noise": noises}
    OUTPUT.write_text(json.dumps(contents) + "\n")


if __name__ == "__main__":
    main()
