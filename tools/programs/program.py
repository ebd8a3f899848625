"""Reads programs, runs them with PyTorch and writes down what it gave."""

import math

import torch

from programs.operations import OPERATIONS, finite_only, ints, number

CLOSE = 3e-6
# Their gradients are sums of parts here, in which infinities meet.
IN_PARTS = "variance std prod cumProd norm cdist atan2 bceLoss attention maskedAttention conv2d".split()
DTYPES = {"f32": torch.float32, "i32": torch.int32, "bool": torch.bool}


def element(text):
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(text) if text[-1] in "fn" else float(text)


def declare(line, exact):
    head, _, body = line.partition(": ")
    dtype, shape, *flags = head.split()
    values = [element(text) for text in body.split()]
    x = torch.tensor(values, dtype=torch.float64).reshape(ints(shape)).to(DTYPES[dtype])
    if dtype == "f32" and exact:
        x = x.to(torch.float64)
    return x.requires_grad_("g" in flags)


def compute(line, values, exact):
    name, *words = line.split()
    operands = []
    params = {"as": {**DTYPES, "f32": torch.float64 if exact else torch.float32}}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            params[key] = value
        elif key.startswith("#"):
            operands.append(number(key[1:]))
        else:
            operands.append(values[int(key)])
    y = OPERATIONS[name](*operands, params)
    return y.to(torch.int32) if y.dtype == torch.int64 else y


def run(program, exact=False):
    """Values of roots and reads, and gradients."""
    torch.set_default_dtype(torch.float64 if exact else torch.float32)
    values = [declare(line, exact) for line in program["in"]]
    inputs = list(values)
    for line in program["do"]:
        y = compute(line, values, exact)
        if y.requires_grad and line.split()[0] in IN_PARTS:
            y.register_hook(finite_only)
        values.append(y)
    out = [values[i].detach().clone() for i in [*program["roots"], *program["reads"]]]
    trained = [x for x in inputs if x.requires_grad]
    gradients = [None] * len(trained)
    for root in program["roots"]:
        # Not backward(), which adds in place to gradients that may share their memory (of stack, for one).
        parts = torch.autograd.grad(values[root].sum(), trained, retain_graph=True, allow_unused=True)
        gradients = [a if b is None else b if a is None else a + b for a, b in zip(gradients, parts)]
    return out, gradients


def text(x):
    if x is None:
        return "-"
    if not x.is_floating_point():
        return " ".join(str(int(v)) for v in x.flatten().tolist())
    return " ".join(f"{v:.8g}" for v in x.flatten().tolist())


def close(a, b):
    if (a is None) != (b is None):
        return False
    if a is None:
        return True
    a, b = a.to(torch.float64), b.to(torch.float64)
    known = torch.isfinite(b)
    if not torch.equal(known, torch.isfinite(a)) or not torch.equal(a.nan_to_num()[~known], b.nan_to_num()[~known]):
        return False
    if not torch.equal(torch.isnan(a), torch.isnan(b)):
        return False
    size = b[known].abs().max().item() if known.any() else 0
    return size < 1e6 and (not known.any() or (a - b)[known].abs().max().item() <= CLOSE * max(size, 1e-3))


def record(program, check=True):
    """The program with its results; None where they depend on rounding. Without the check, at kinks."""
    out, grad = run(program)
    if check:
        exact_out, exact_grad = run(program, exact=True)
        if not all(close(a, b) for a, b in zip([*out, *grad], [*exact_out, *exact_grad])):
            return None
    return {
        **program,
        "roots": " ".join(map(str, program["roots"])),
        "reads": " ".join(map(str, program["reads"])),
        "out": [text(x) for x in out],
        "grad": [text(x) for x in grad],
    }
