"""Losses of torch.nn.functional on small inputs, with their gradients."""

import torch
from torch.nn import functional as F

from .record import differentiate, numbers, record, waves

INF = float("inf")


def focal(logits, targets, alpha=0.25, gamma=2.0, reduction="mean"):
    """Lin et al. 2017, as torchvision.ops.sigmoid_focal_loss computes it."""
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    loss = ce * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[reduction]


def ctc(logits, targets, inputs, lengths, blank=0, zero_infinity=False, reduction="mean"):
    """Its gradient is right only below a log_softmax, which the test has, too."""
    return F.ctc_loss(logits.log_softmax(-1), targets, inputs, lengths, blank, reduction, zero_infinity)


def cross_entropy(logits, targets, **options):
    """Classes are last with us, where no dim is given."""
    if options.pop("dim", -1) == 1:
        return F.cross_entropy(logits, targets, **options)
    soft = targets.dtype == torch.float32
    if logits.dim() > 2:
        logits, targets = logits.movedim(-1, 1), targets.movedim(-1, 1) if soft else targets
    return F.cross_entropy(logits, targets, **options)


def nll(logits, targets, dim=1, **options):
    return F.nll_loss(logits, targets, **options)


# Ours, PyTorch's, and PyTorch's names of options.
FUNCTIONS = {
    "smoothL1Loss": F.smooth_l1_loss,
    "huberLoss": F.huber_loss,
    "klDiv": F.kl_div,
    "binaryCrossEntropy": F.binary_cross_entropy,
    "binaryCrossEntropyWithLogits": F.binary_cross_entropy_with_logits,
    "sigmoidFocalLoss": focal,
    "cosineEmbeddingLoss": F.cosine_embedding_loss,
    "tripletMarginLoss": F.triplet_margin_loss,
    "crossEntropy": cross_entropy,
    "nllLoss": nll,
    "ctcLoss": ctc,
}
NAMES = {
    "posWeight": "pos_weight",
    "ignoreIndex": "ignore_index",
    "labelSmoothing": "label_smoothing",
    "logTarget": "log_target",
    "zeroInfinity": "zero_infinity",
}


def i32(*values):
    return torch.tensor(values)


def cases():
    a, b, c = waves(4, 3), waves(4, 3, offset=50), waves(4, 3, offset=90)
    probabilities = (waves(4, 3) + 1.01) / 2.02
    targets = (waves(4, 3, offset=20) + 1) / 2
    for reduction in ["mean", "sum", "none"]:
        yield "smoothL1Loss", [a, b], {"reduction": reduction}
        yield "klDiv", [a, targets], {"reduction": reduction}
    yield "smoothL1Loss", [a, b], {"beta": 0.3}
    yield "smoothL1Loss", [a, b], {"beta": 0}
    yield "huberLoss", [a, b], {"delta": 0.4}
    yield "huberLoss", [a, b], {"delta": 2, "reduction": "none"}
    yield "klDiv", [a, b], {"logTarget": True, "reduction": "sum"}
    yield "klDiv", [a, targets], {"reduction": "batchMean"}
    yield "klDiv", [a, targets.gt(0.5).float()], {"reduction": "none"}
    yield "binaryCrossEntropy", [probabilities, targets], {}
    yield "binaryCrossEntropy", [probabilities, targets], {"weight": targets[0], "reduction": "none"}
    yield "binaryCrossEntropy", [torch.tensor([0.0, 0.0, 1.0, 1.0, 1e-13]), torch.tensor([0.0, 1.0, 0.25, 1.0, 1.0])], {}
    yield "binaryCrossEntropyWithLogits", [a * 30, targets], {"posWeight": probabilities[1] * 3}
    yield "binaryCrossEntropyWithLogits", [a, targets], {"weight": targets[:, :1], "posWeight": targets[2], "reduction": "sum"}
    yield "sigmoidFocalLoss", [a * 4, targets.gt(0.5).float()], {}
    yield "sigmoidFocalLoss", [a * 4, targets.gt(0.5).float()], {"alpha": -1, "gamma": 1.5, "reduction": "none"}
    for reduction in ["mean", "none"]:
        yield "cosineEmbeddingLoss", [a, b, i32(1, -1, -1, 1)], {"margin": -0.2, "reduction": reduction}
    yield "cosineEmbeddingLoss", [a[0], b[0], torch.tensor(-1.0)], {"margin": -0.9}
    for p in [2, 1, 3, INF]:
        yield "tripletMarginLoss", [a, b, c], {"p": p, "swap": p == 1, "reduction": "none" if p == 2 else "mean"}
    yield "tripletMarginLoss", [a, b, c], {"margin": 0.1, "swap": True, "reduction": "sum"}
    yield "tripletMarginLoss", [a, a.clone(), c], {"eps": 0}
    weight = probabilities[2]
    labels = i32(0, 2, -100, 1)
    for options in [{}, {"labelSmoothing": 0.2}]:
        for reduction in ["mean", "sum", "none"]:
            yield "crossEntropy", [a, labels], {"weight": weight, "reduction": reduction, **options}
    yield "crossEntropy", [a, i32(0, 2, 2, 1)], {"ignoreIndex": 2, "weight": weight}
    soft = targets / targets.sum(1, keepdim=True)
    for reduction in ["mean", "sum", "none"]:
        yield "crossEntropy", [a, soft], {"reduction": reduction}
    yield "crossEntropy", [a, soft], {"weight": weight, "labelSmoothing": 0.1}
    yield "crossEntropy", [a.view(2, 2, 3), soft.view(2, 2, 3)], {"weight": weight, "dim": -1}
    images, shares = waves(2, 3, 2, 2), waves(2, 3, 2, 2, offset=70).softmax(1)
    pixels = i32(0, 2, -100, 1, 1, 0, 2, 2).view(2, 2, 2)
    for reduction in ["mean", "none"]:
        yield "crossEntropy", [images, shares], {"weight": weight, "dim": 1, "labelSmoothing": 0.1, "reduction": reduction}
        yield "crossEntropy", [images, pixels], {"weight": weight, "dim": 1, "reduction": reduction}
    yield "nllLoss", [images, pixels], {"weight": weight, "dim": 1}
    yield "crossEntropy", [a.view(2, 2, 3), labels.view(2, 2)], {"weight": weight, "labelSmoothing": 0.3}
    yield "nllLoss", [a, labels], {"weight": weight}
    logits, words = waves(7, 3, 5) * 3, torch.tensor([[1, 2, 2], [3, 1, 0], [4, 4, 4]])
    for reduction in ["mean", "sum", "none"]:
        yield "ctcLoss", [logits, words, [7, 5, 6], [3, 2, 3]], {"reduction": reduction}
    yield "ctcLoss", [logits, words, [7, 1, 4], [0, 1, 3]], {"zeroInfinity": True, "reduction": "none"}
    yield "ctcLoss", [logits, words % 4, [6, 7, 7], [1, 2, 0]], {"blank": 4}


def described(value):
    if not isinstance(value, torch.Tensor):
        return value
    dtype = "f32" if value.dtype == torch.float32 else "i32"
    return {"dtype": dtype, "shape": list(value.shape), "values": numbers(value.reshape(-1).tolist())}


def losses():
    for name, inputs, options in cases():
        leaves = [
            value.clone().requires_grad_(index == 0 or name in ("smoothL1Loss", "huberLoss", "cosineEmbeddingLoss", "tripletMarginLoss"))
            if isinstance(value, torch.Tensor) and value.dtype == torch.float32
            else value
            for index, value in enumerate(inputs)
        ]
        torch_options = {NAMES.get(key, key): value for key, value in options.items()}
        if torch_options.get("reduction") == "batchMean":
            torch_options["reduction"] = "batchmean"
        loss = FUNCTIONS[name](*leaves, **torch_options)
        differentiate([loss])
        gradients = [record(x.grad) if isinstance(x, torch.Tensor) and x.grad is not None else None for x in leaves]
        yield {
            "loss": name,
            "inputs": [described(value) for value in inputs],
            "options": {key: "Infinity" if value is INF else described(value) for key, value in options.items()},
            "value": record(loss),
            "gradients": gradients,
        }
