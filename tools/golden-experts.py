"""Records what PyTorch computes of layers of experts: results, balance and z-losses, and gradients.

Each expert computes all tokens here, and masks take what is its own: another way than that of nn.MixtureOfExperts.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-experts.py && npx oxfmt packages/core/test/golden/experts.json
"""

import json
import math
import pathlib

import torch

TOKENS, FEATURES, HIDDEN, EXPERTS = 12, 6, 5, 4


def wave(shape, phase, scale=1.0):
    count = math.prod(shape)
    return (scale * torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + phase)).float().reshape(shape)


def choose(logits, case):
    kind, k = case["scores"], case["k"]
    if kind == "softmaxOfChosen":
        chosen = logits.topk(k, dim=1)
        return torch.softmax(chosen.values, dim=1), chosen.indices, torch.softmax(logits, dim=1)
    scores = {
        "softmax": lambda: torch.softmax(logits, dim=1),
        "sigmoid": lambda: torch.sigmoid(logits),
        "sqrtSoftplus": lambda: torch.sqrt(torch.nn.functional.softplus(logits)),
    }[kind]()
    indices = scores.topk(k, dim=1).indices
    weights = scores.gather(1, indices)
    if case["normalize"] == "chosen":
        weights = weights / weights.sum(1, keepdim=True)
    shares = scores if kind == "softmax" else scores / scores.sum(1, keepdim=True)
    return weights, indices, shares


def run(case):
    x = wave((TOKENS, FEATURES), 0.3)
    router = wave((EXPERTS, FEATURES), 1.1)
    up = wave((EXPERTS, FEATURES, HIDDEN), 2.0, 0.5)
    down = wave((EXPERTS, HIDDEN, FEATURES), 0.7, 0.5)
    gate = wave((EXPERTS, FEATURES, HIDDEN), 0.2, 0.5)
    leaves = {"x": x, "router": router, "up": up, "down": down}
    if case["activation"] == "swiglu":
        leaves["gate"] = gate
    for leaf in leaves.values():
        leaf.requires_grad_()
    logits = x @ router.T
    weights, indices, shares = choose(logits, case)
    output = torch.zeros_like(x)
    for expert in range(EXPERTS):
        hidden = x @ up[expert]
        if case["activation"] == "swiglu":
            hidden = hidden * torch.nn.functional.silu(x @ gate[expert])
        else:
            hidden = getattr(torch.nn.functional, case["activation"])(hidden)
        own = (weights * (indices == expert)).sum(1, keepdim=True)
        output = output + own * (hidden @ down[expert])
    load = torch.nn.functional.one_hot(indices, EXPERTS).float().sum(1).mean(0)
    balance = EXPERTS / case["k"] * (shares.mean(0) * load).sum()
    z = torch.logsumexp(logits, 1).square().mean()
    loss = output.square().mean() + 0.1 * balance + 0.01 * z
    loss.backward()
    numbers = lambda t: " ".join(f"{v:.7g}" for v in t.detach().flatten().tolist())
    return {
        **case,
        "output": numbers(output),
        "balance": balance.item(),
        "z": z.item(),
        "gradients": {name: numbers(leaf.grad) for name, leaf in leaves.items()},
    }


CASES = [
    {"k": 1, "scores": "softmax", "normalize": "none", "activation": "relu"},
    {"k": 2, "scores": "softmax", "normalize": "chosen", "activation": "gelu"},
    {"k": 2, "scores": "softmaxOfChosen", "normalize": "none", "activation": "swiglu"},
    {"k": 3, "scores": "sigmoid", "normalize": "chosen", "activation": "silu"},
    {"k": 2, "scores": "sqrtSoftplus", "normalize": "none", "activation": "gelu"},
]

path = pathlib.Path("packages/core/test/golden/experts.json")
path.write_text(json.dumps([run(case) for case in CASES]) + "\n")
