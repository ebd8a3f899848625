"""Records what PyTorch computes in small programs, and their gradients.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-programs.py

It rewrites test/golden/kinks.json (every operation at kinks, ties, zeros, infinities and NaN) and
test/golden/programs.json (a sample of random programs). For many more, drawn from another seed:

    python tools/golden-programs.py --count 10000 --seed 1 --output /tmp/programs.json
    PROGRAMS=/tmp/programs.json npx vitest run test/golden-programs.test.ts

A program is text. `in` declares the values 0, 1, ...: dtype, shape (dims joined by x, `.` for none), `g`
where a gradient is wanted, then the elements. Each line of `do` makes the next value: an operation, its
operands (value numbers, or numbers after #), and parameters. `roots` are values whose sums are
differentiated, one after the other in this order, `reads` others that are compared. `out` has the
elements of roots and reads, `grad` those of each gradient, `-` for none.

Left out are programs whose results depend on rounding (what float64 computes must be close by), and
the few places where we differ on purpose, which raise Differs and say how.
"""

import argparse
import json
import math
import pathlib
import random
import warnings

import torch
import torch.nn.functional as F

GOLDEN = pathlib.Path(__file__).parents[1] / "test/golden"
CLOSE = 3e-6
DTYPES = {"f32": torch.float32, "i32": torch.int32, "bool": torch.bool}


def ints(text):
    return [] if text == "." else [int(part) for part in text.split("x")]


def dims_of(params):
    return [int(dim) for dim in params["dims"].split(",")] if "dims" in params else None


def reduce_with(function, empty_means_all=True):
    def apply(x, p):
        dims = dims_of(p)
        keep = "keep" in p
        if dims is None:
            dims = list(range(x.dim()))
        return function(x, dims, keep) if dims else function(x, [], keep)

    return apply


class Differs(ValueError):
    """Operands for which PyTorch gives something else than we do."""


def finite_only(gradient):
    if not torch.isfinite(gradient).all():
        raise Differs("gradients of several parts, which infinities make NaN of, and one part in PyTorch")


def same_zeros(*tensors):
    """Of 0 and -0 the larger one is 0 in IEEE 754, and either in PyTorch."""
    zeros = torch.cat([x.flatten()[x.flatten() == 0] for x in tensors])
    if torch.signbit(zeros).any() and not torch.signbit(zeros).all():
        raise Differs("the sign of zero")


def extreme(function, x, dims, keep):
    same_zeros(x)
    if x.dim() == 0 and torch.isnan(x):
        raise Differs("a scalar is its own maximum, and has its gradient")
    return function(x, dims, keep)


def relu(x, p):
    if torch.signbit(x[x == 0]).any():
        raise Differs("relu(-0) is 0 here, and -0 in PyTorch")
    return torch.relu(x)


def gelu(x, p):
    if torch.isinf(x).any() or torch.signbit(x[x == 0]).any() or (x < -3).any():
        raise Differs("kernels give limits where PyTorch has 0 * infinity, and have other digits of small results")
    return F.gelu(x, approximate=p["approximate"])


def power(a, b, p):
    if not isinstance(b, torch.Tensor) and b % 1 != 0 and (torch.isneginf(a).any() or torch.signbit(a[a == 0]).any()):
        raise Differs("PyTorch takes square roots where IEEE 754 has another power")
    return a**b


def variance(x, dims, keep, correction):
    if torch.isinf(x).any() or x.dim() == 0:
        raise Differs("PyTorch's gradient takes the mean, which is infinite, for a constant")
    return torch.var(x, dim=dims or None, correction=correction, keepdim=keep)


def clamp(x, p):
    """With the gradient 1 at the bounds, as PyTorch had it before 2.15."""
    low, high = float(p["low"]), float(p["high"])
    inside = (x >= low) & (x <= high)
    return torch.where(inside, x, x.detach().clamp(low, high))


def max_pool(x, p):
    if torch.isnan(x).any():
        raise Differs("the first of several NaN has the gradient here, and the last one in PyTorch")
    return F.max_pool2d(
        x, int(p["kernel"]), stride=int(p["stride"]), padding=int(p["padding"]), dilation=int(p["dilation"])
    )


def converted(x, dtype):
    if dtype == torch.int32 and not torch.isfinite(x).all():
        raise Differs("no integer is near")
    return x.to(dtype)


def promoted(a, b):
    """Operands of what takes no numbers."""
    dtype = torch.result_type(a, b)
    same_zeros(a, *([b] if isinstance(b, torch.Tensor) else []))
    return a.to(dtype), b if isinstance(b, torch.Tensor) else torch.tensor(b).to(dtype)


def rounded_quotient(a, b, mode):
    """Without a gradient, where PyTorch has zeros."""
    return torch.div(a.detach(), b.detach() if isinstance(b, torch.Tensor) else b, rounding_mode=mode)


def masked_attention(q, k, v, mask):
    if not mask.any(-1).all():
        raise Differs("a row that sees nothing is NaN here, and 0 in PyTorch")
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def long(index):
    return index.to(torch.int64)


def number(text):
    return float(text) if any(c in text for c in ".enaf") else int(text)


OPERATIONS = {
    **{
        name: (lambda function: lambda x, p: function(x))(getattr(torch, name))
        for name in "neg abs sign exp log sqrt rsqrt sin cos tanh erf floor ceil square sigmoid".split()
    },
    "relu": relu,
    "softplus": lambda x, p: F.softplus(x),
    "silu": lambda x, p: F.silu(x),
    "gelu": gelu,
    "logicalNot": lambda x, p: torch.logical_not(x),
    "clamp": clamp,
    "to": lambda x, p: converted(x, p["as"][p["dtype"]]),
    "detach": lambda x, p: x.detach(),
    "add": lambda a, b, p: a + b,
    "sub": lambda a, b, p: a - b,
    "mul": lambda a, b, p: a * b,
    "div": lambda a, b, p: a / b,
    "divTrunc": lambda a, b, p: rounded_quotient(a, b, "trunc"),
    "divFloor": lambda a, b, p: rounded_quotient(a, b, "floor"),
    "pow": power,
    "maximum": lambda a, b, p: torch.maximum(*promoted(a, b)),
    "minimum": lambda a, b, p: torch.minimum(*promoted(a, b)),
    "eq": lambda a, b, p: a == b,
    "ne": lambda a, b, p: a != b,
    "lt": lambda a, b, p: a < b,
    "le": lambda a, b, p: a <= b,
    "gt": lambda a, b, p: a > b,
    "ge": lambda a, b, p: a >= b,
    "logicalAnd": lambda a, b, p: torch.logical_and(a, b),
    "logicalOr": lambda a, b, p: torch.logical_or(a, b),
    "where": lambda c, a, b, p: torch.where(c, a, b),
    "sum": reduce_with(lambda x, d, k: total(torch.sum, x, d, k)),
    "mean": reduce_with(lambda x, d, k: total(torch.mean, x, d, k)),
    "max": reduce_with(lambda x, d, k: extreme(torch.amax, x, d, k)),
    "min": reduce_with(lambda x, d, k: extreme(torch.amin, x, d, k)),
    "variance": lambda x, p: reduce_with(lambda y, d, k: variance(y, d, k, int(p["correction"])))(x, p),
    "argMax": lambda x, p: x.argmax(int(p["dim"]), keepdim="keep" in p),
    "cumsum": lambda x, p: x.cumsum(int(p["dim"])),
    "softmax": lambda x, p: x.softmax(int(p["dim"])),
    "logSoftmax": lambda x, p: x.log_softmax(int(p["dim"])),
    "layerNorm": lambda x, w, b, p: F.layer_norm(x, w.shape, w, b, 1e-5),
    "rmsNorm": lambda x, w, p: F.rms_norm(x, w.shape, w, 1e-5),
    "reshape": lambda x, p: x.reshape(ints(p["shape"])),
    "flatten": lambda x, p: x.flatten(),
    "permute": lambda x, p: x.permute(ints(p["order"])),
    "transpose": lambda x, p: x.transpose(int(p["a"]), int(p["b"])),
    "expand": lambda x, p: x.expand(ints(p["shape"])),
    "unsqueeze": lambda x, p: x.unsqueeze(int(p["dim"])),
    "squeeze": lambda x, p: x.squeeze(int(p["dim"])),
    "slice": lambda x, p: x[
        (slice(None),) * int(p["dim"]) + (slice(int(p["start"]), int(p["stop"]), int(p["step"])),)
    ],
    "select": lambda x, p: x.select(int(p["dim"]), int(p["index"])),
    "splitAt": lambda x, p: x.split(int(p["size"]), int(p["dim"]))[int(p["part"])],
    "pad": lambda x, p: F.pad(
        x, [n for pair in reversed(list(zip(ints(p["before"]), ints(p["after"])))) for n in pair], value=float(p["value"])
    ),
    "concat": lambda *a: torch.cat(a[:-1], int(a[-1]["dim"])),
    "stack": lambda *a: torch.stack(a[:-1], int(a[-1]["dim"])),
    "matmul": lambda a, b, p: a @ b,
    "conv2d": lambda x, w, p: F.conv2d(x, w, stride=int(p["stride"]), padding=int(p["padding"])),
    "maxPool2d": max_pool,
    "avgPool2d": lambda x, p: F.avg_pool2d(x, int(p["kernel"]), stride=int(p["stride"]), padding=int(p["padding"])),
    "gather": lambda x, i, p: x.gather(int(p["dim"]), long(i)),
    "scatterAdd": lambda x, i, s, p: x.scatter_add(int(p["dim"]), long(i), s),
    "indexSelect": lambda x, i, p: x.index_select(int(p["dim"]), long(i)),
    "indexAdd": lambda x, i, s, p: x.index_add(int(p["dim"]), long(i), s),
    "embedding": lambda i, w, p: F.embedding(long(i), w, padding_idx=int(p["padding"]) if "padding" in p else None),
    "oneHot": lambda i, p: F.one_hot(long(i), int(p["classes"])).to(torch.bool),
    "mseLoss": lambda a, b, p: F.mse_loss(a, b, reduction=p["reduction"]),
    "l1Loss": lambda a, b, p: F.l1_loss(a, b, reduction=p["reduction"]),
    "bceLoss": lambda a, b, p: F.binary_cross_entropy_with_logits(a, b, reduction=p["reduction"]),
    "crossEntropy": lambda x, t, p: F.cross_entropy(
        x, long(t), ignore_index=int(p["ignore"]), label_smoothing=float(p["smoothing"]), reduction=p["reduction"]
    ),
    "nllLoss": lambda x, t, p: F.nll_loss(x, long(t), ignore_index=int(p["ignore"]), reduction=p["reduction"]),
    "attention": lambda q, k, v, p: F.scaled_dot_product_attention(q, k, v, is_causal="causal" in p),
    "maskedAttention": lambda q, k, v, m, p: masked_attention(q, k, v, m),
}


def element(text):
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(text) if text[-1] in "fn" else float(text)


def total(function, x, dims, keep):
    if x.dim() > 0:
        return function(x, dims, keep)
    if torch.signbit(x) and x == 0:
        raise Differs("the sum of -0 alone is -0 here, and 0 in PyTorch")
    return function(x, None, False)


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
        if y.requires_grad and line.split()[0] in ("variance", "bceLoss", "attention", "maskedAttention", "conv2d"):
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


# Random programs.

GRID = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
EDGES = ["0", "-0", "inf", "-inf", "nan", "0", "-0"]
UNARY = (
    "neg abs sign exp sin cos tanh erf floor ceil square sigmoid relu softplus silu sqrt log rsqrt detach"
).split()
BINARY = "add sub mul add sub mul div maximum minimum".split()
COMPARISONS = "eq ne lt le gt ge".split()


class Draw:
    """Adds inputs and operations at random; values that run into an error are left out."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.program = {"in": [], "do": [], "roots": [], "reads": []}
        self.edges = self.random.random() < 0.25
        self.is_complete = False
        base = [self.random.choice([1, 2, 3, 4]) for _ in range(self.random.choice([0, 1, 2, 2, 2, 3]))]
        shapes = [base]
        for _ in range(self.random.choice([1, 2, 2])):
            shapes.append([size if self.random.random() < 0.7 else 1 for size in base][self.random.choice([0, 0, 1]) :])
        lines = [self.input("f32", shape, True) for shape in shapes]
        if self.random.random() < 0.5:
            lines.append(self.input(self.random.choice(["i32", "bool", "f32"]), base, False))
        self.program["in"] = lines
        self.values = [declare(line, False) for line in lines]

    def input(self, dtype, shape, wants_gradient, low=-3, high=3):
        count = math.prod(shape)
        if dtype == "bool":
            values = [self.random.choice(["0", "1"]) for _ in range(count)]
        elif dtype == "i32":
            values = [str(self.random.randint(low, high)) for _ in range(count)]
        else:
            grid = self.random.random() < 0.5
            values = [
                self.random.choice(EDGES)
                if self.edges and self.random.random() < 0.12
                else str(self.random.choice(GRID) if grid else round(self.random.gauss(0, 1.2), 3))
                for _ in range(count)
            ]
        flags = " g" if wants_gradient else ""
        return f"{dtype} {shape_text(shape)}{flags}: {' '.join(values)}"

    def pick(self, dtype=None, dims=None, least=0):
        found = [
            i
            for i, x in enumerate(self.values)
            if (dtype is None or x.dtype == DTYPES[dtype])
            and (dims is None or x.dim() == dims)
            and x.dim() >= least
            and x.numel() <= 64
        ]
        # The newest ones, mostly, so that programs are deep.
        return None if not found else self.random.choice(found[-4:] if self.random.random() < 0.7 else found)

    def like(self, shape, dtype="f32", low=0, high=0):
        """A new input; declared before everything that is computed, so only at the start."""
        if self.program["do"]:
            return None
        self.program["in"].append(self.input(dtype, shape, dtype == "f32", low, high))
        self.values.append(declare(self.program["in"][-1], False))
        return len(self.values) - 1

    def add(self, line):
        try:
            y = compute(line, self.values, False)
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            return
        if y.numel() == 0 or y.numel() > 96:
            return
        self.values.append(y)
        self.program["do"].append(line)

    def dims(self, x):
        if x.dim() == 0 or self.random.random() < 0.3:
            return ""
        count = self.random.randint(1, x.dim())
        return " dims=" + ",".join(str(d) for d in sorted(self.random.sample(range(x.dim()), count)))

    def step(self):
        random = self.random
        kind = random.choice(
            "unary unary binary binary binary number compare where reduce reduce scan movement movement "
            "movement join contract index pow clamp cast activation logic integers variance".split()
        )
        i = self.pick("f32")
        if i is None:
            return
        x = self.values[i]
        dim = random.randrange(x.dim()) if x.dim() else 0
        keep = random.choice(["", " keep=1"])
        if kind == "unary":
            self.add(f"{random.choice(UNARY)} {i}")
        elif kind == "activation":
            self.add(f"gelu {i} approximate={random.choice(['none', 'tanh'])}")
        elif kind == "binary":
            self.add(f"{random.choice(BINARY)} {i} {self.pick()}")
        elif kind == "number":
            self.add(f"{random.choice(BINARY)} {i} #{random.choice([2, 0.5, -1, 0, 3, 1.25])}")
        elif kind == "integers":
            j = self.pick("i32")
            if j is not None:
                name = random.choice("add sub mul div divFloor divTrunc maximum minimum pow".split())
                self.add(f"{name} {j} {self.pick()}" if random.random() < 0.4 else f"{name} {j} #{random.choice([2, 3, 0.5])}")
        elif kind == "compare":
            other = self.pick() if random.random() < 0.6 else f"#{random.choice([0, 0.5, 1])}"
            self.add(f"{random.choice(COMPARISONS)} {i} {other}")
        elif kind == "logic":
            j = self.pick("bool")
            if j is not None:
                self.add(random.choice([f"logicalNot {j}", f"logicalAnd {j} {self.pick()}", f"logicalOr {j} {self.pick()}"]))
        elif kind == "where":
            j = self.pick("bool")
            if j is not None:
                other = self.pick() if random.random() < 0.6 else f"#{random.choice([0, 0.5, 1])}"
                self.add(f"where {j} {i} {other}")
        elif kind == "reduce":
            j = i if random.random() < 0.8 else self.pick()
            self.add(f"{random.choice(['sum', 'mean', 'max', 'min'])} {j}{self.dims(self.values[j])}{keep}")
        elif kind == "variance":
            self.add(f"variance {i}{self.dims(x)} correction={random.choice([0, 1])}{keep}")
        elif kind == "scan":
            name = random.choice(["cumsum", "cumsum", "softmax", "logSoftmax", "argMax"])
            self.add(f"{name} {i} dim={dim}{keep if name == 'argMax' else ''}")
        elif kind == "pow":
            exponent = random.choice(["#2", "#3", "#-1", "#1.5", "#0", str(self.pick("f32"))])
            self.add(f"pow {i} {exponent}")
        elif kind == "clamp":
            low, high = sorted(random.sample(GRID, 2))
            self.add(f"clamp {i} low={low} high={high}")
        elif kind == "cast":
            j = self.pick()
            self.add(f"to {j} dtype={random.choice(['f32', 'i32', 'bool', 'f32'])}")
        elif kind == "movement":
            self.movement(i, x, dim)
        elif kind == "join":
            j = self.pick("f32", x.dim())
            self.add(f"{random.choice(['concat', 'stack'])} {i} {j} dim={dim}")
        elif kind == "contract":
            self.add(f"matmul {i} {self.pick('f32', least=1)}")
        elif kind == "index":
            self.index(i, x, dim)

    def movement(self, i, x, dim):
        random = self.random
        shape = list(x.shape)
        order = random.sample(range(x.dim()), x.dim())
        size = shape[dim] if shape else 1
        start = random.randrange(size)
        around = [random.choice([0, 0, 1]) for _ in range(2 * x.dim())]
        lines = [
            f"flatten {i}",
            f"reshape {i} shape={shape_text(random.choice(factors(x.numel())))}",
            f"unsqueeze {i} dim={random.randint(0, x.dim())}",
            f"expand {i} shape={shape_text([random.choice([1, 2])] + [3 if n == 1 else n for n in shape])}",
        ]
        if shape:
            lines += [
                f"permute {i} order={shape_text(order)}",
                f"transpose {i} a={dim} b={random.randrange(x.dim())}",
                f"squeeze {i} dim={dim}",
                f"slice {i} dim={dim} start={start} stop={random.randint(start + 1, size)} step={random.choice([1, 1, 2])}",
                f"select {i} dim={dim} index={start}",
                f"splitAt {i} size={random.randint(1, size)} dim={dim} part=0",
                f"pad {i} before={shape_text(around[: x.dim()])} after={shape_text(around[x.dim() :])}"
                f" value={random.choice([0, 1, -0.5])}",
            ]
        self.add(random.choice(lines))

    def index(self, i, x, dim):
        """By what argMax gives, which is in range of the dim that it was taken of."""
        if x.dim() == 0:
            return
        self.add(f"argMax {i} dim={dim} keep=1")
        if not self.program["do"] or not self.program["do"][-1].startswith(f"argMax {i} dim={dim} keep"):
            return
        j = len(self.values) - 1
        if self.random.random() < 0.5:
            self.add(f"gather {i} {j} dim={dim}")
            return
        self.add(f"gather {i} {j} dim={dim}")
        self.add(f"scatterAdd {i} {j} {len(self.values) - 1} dim={dim}")

    def block(self):
        """A program around one larger operation, with inputs of its own."""
        random = self.random
        n, c, d = random.randint(1, 3), random.randint(1, 4), random.randint(1, 4)
        lead = [random.randint(1, 3) for _ in range(random.choice([0, 1, 1, 2]))]
        reduction = random.choice(["mean", "mean", "sum", "none"])
        kind = random.choice(
            "norm rms conv pool average loss l1 bce cross nll embedding select add attention masked hot".split()
        )
        if kind in ("norm", "rms"):
            self.edges = False
            x, w, b = self.like([*lead, d]), self.like([d]), self.like([d])
            self.add(f"layerNorm {x} {w} {b}" if kind == "norm" else f"rmsNorm {x} {w}")
        elif kind == "conv":
            self.edges = False
            x, w = self.like([n, c, 4, 3]), self.like([2, c, 2, 2])
            self.add(f"conv2d {x} {w} stride={random.choice([1, 2])} padding={random.choice([0, 1])}")
        elif kind == "pool":
            x = self.like([n, c, 4, 5])
            stride, dilation = random.choice([1, 2]), random.choice([1, 1, 2])
            self.add(f"maxPool2d {x} kernel=2 stride={stride} padding={random.choice([0, 1])} dilation={dilation}")
        elif kind == "average":
            x = self.like([n, c, 4, 3])
            self.add(f"avgPool2d {x} kernel=2 stride={random.choice([1, 2])} padding={random.choice([0, 1])}")
        elif kind in ("loss", "l1", "bce"):
            a, b = self.like([n, c]), self.like([n, c])
            self.add(f"{ {'loss': 'mse', 'l1': 'l1', 'bce': 'bce'}[kind] }Loss {a} {b} reduction={reduction}")
        elif kind in ("cross", "nll"):
            x, t = self.like([n + 1, c]), self.like([n + 1], "i32", 0, c - 1)
            ignore = random.choice([-100, 0])
            if kind == "cross":
                smoothing = random.choice([0, 0, 0.1])
                self.add(f"crossEntropy {x} {t} ignore={ignore} smoothing={smoothing} reduction={reduction}")
            else:
                self.add(f"nllLoss {x} {t} ignore={ignore} reduction={reduction}")
        elif kind == "embedding":
            t, w = self.like([n, c], "i32", 0, 2), self.like([3, d])
            self.add(f"embedding {t} {w}{random.choice(['', ' padding=1'])}")
        elif kind == "select":
            t, x = self.like([4], "i32", 0, c - 1), self.like([n, c, d])
            self.add(f"indexSelect {x} {t} dim=1")
        elif kind == "add":
            t, x, s = self.like([4], "i32", 0, c - 1), self.like([n, c, d]), self.like([n, 4, d])
            self.add(f"indexAdd {x} {t} {s} dim=1")
        elif kind in ("attention", "masked"):
            # Infinities meet other zeros in PyTorch, which computes in blocks: none come here, nor back here.
            self.edges = False
            self.is_complete = True
            q, k, v = [self.like([1, 2, 3, d]) for _ in range(3)]
            if kind == "attention":
                self.add(f"attention {q} {k} {v}{random.choice(['', ' causal=1'])}")
            else:
                m = self.like([3, 3], "bool")
                self.add(f"maskedAttention {q} {k} {v} {m}")
        elif kind == "hot":
            t = self.like([n, 2], "i32", 0, c - 1)
            self.add(f"oneHot {t} classes={c}")

    def finish(self):
        """Roots among what was computed; None where there are none."""
        random = self.random
        inputs = len(self.program["in"])
        made = range(inputs, len(self.values))
        differentiable = [i for i in made if self.values[i].requires_grad]
        if not differentiable:
            return None
        roots = [differentiable[-1]]
        roots += random.sample(differentiable, min(random.choice([0, 0, 1, 2]), len(differentiable)))
        roots = list(dict.fromkeys(roots))
        random.shuffle(roots)
        self.program["roots"] = roots
        others = [i for i in made if i not in roots]
        self.program["reads"] = random.sample(others, min(2, len(others)))
        return self.program


def shape_text(shape):
    return "x".join(map(str, shape)) if shape else "."


def factors(count):
    return [[count], *([a, count // a] for a in range(1, count + 1) if count % a == 0)]


def draw(seed):
    torch.set_default_dtype(torch.float32)
    drawn = Draw(seed)
    if drawn.random.random() < 0.4:
        drawn.block()
    for _ in range(0 if drawn.is_complete else drawn.random.randint(2, 9)):
        drawn.step()
    program = drawn.finish()
    try:
        return None if program is None else record(program)
    except Differs:
        return None


def sample(count, seed, longest):
    programs = []
    while len(programs) < count:
        program = draw(seed)
        seed += 1
        if program is not None and len(json.dumps(program)) <= longest:
            programs.append(program)
    return programs


# Kinks: one operation each, where its derivative jumps or is none.

LINE = "nan -inf inf 0 -0 1 -1 2 0.5 -0.5"
PAIRS = [(a, b) for a in "nan inf -inf 0 -0 1 -1 2".split() for b in "nan inf -inf 0 -0 1 -1 2".split()]


def line_of(values, flags=" g"):
    return f"f32 {len(values)}{flags}: {' '.join(values)}"


def kinks():
    programs = []

    def add(inputs, do, roots=None):
        roots = [len(inputs) + len(do) - 1] if roots is None else roots
        programs.append(record({"in": inputs, "do": do, "roots": roots, "reads": []}, check=False))

    line = line_of(LINE.split())
    for name in "neg abs sign exp log sqrt rsqrt sin cos tanh erf floor ceil square sigmoid softplus silu".split():
        add([line], [f"{name} 0"])
    add([line_of("nan -inf inf 0 1 -1".split())], ["relu 0"])
    for approximate in ("none", "tanh"):
        add([line_of("nan 0 1 -1 -2 10".split())], [f"gelu 0 approximate={approximate}"])
    add([line], ["clamp 0 low=-1 high=1"])
    add([line], ["clamp 0 low=0 high=0"])
    for exponent in ("2", "3", "1", "0", "-1", "-2"):
        add([line], [f"pow 0 #{exponent}"])
    for exponent in ("0.5", "1.5", "-0.5"):
        add([line_of("nan inf 0 1 4 2.25".split())], [f"pow 0 #{exponent}"])
    left, right = line_of([a for a, _ in PAIRS]), line_of([b for _, b in PAIRS])
    for name in "add sub mul div pow".split():
        add([left, right], [f"{name} 0 1"])
    plain = [(a, b) for a, b in PAIRS if "-0" not in (a, b)]
    for name in ("maximum", "minimum"):
        add([line_of([a for a, _ in plain]), line_of([b for _, b in plain])], [f"{name} 0 1"])
    add([left, right], ["lt 0 1", "where 2 0 1"])
    add([left, right], ["eq 0 1", "where 2 0 #0"])
    rows = "f32 6x3 g: 1 1 0 nan 1 nan inf inf 1 -inf -inf -inf 0 0 0 2 2 2"
    for name in ("max", "min", "sum", "mean"):
        add([rows], [f"{name} 0 dims=1"])
        add([rows], [f"{name} 0 dims=0"])
    add(["f32 3x2 g: 1 1 0 nan 2 -2"], ["variance 0 dims=1 correction=1"])
    add(["f32 2x1 g: 3 0"], ["variance 0 dims=1 correction=1"])
    add(["f32 2x1 g: 3 0"], ["variance 0 dims=1 correction=0"])
    for dim in (0, 1):
        add([rows, "f32 6x3 g: " + " ".join(["1"] * 18)], [f"argMax 0 dim={dim} keep=1", f"gather 1 2 dim={dim}"])
        add(["f32 2x4 g: 1 2 3 4 0.001 1000000 0.001 2"], [f"cumsum 0 dim={dim}"])
    add(["f32 4 g: 1 2 3 4", "f32 4: 1 inf 1 0"], ["cumsum 0 dim=0", "mul 2 1"])
    for name in ("softmax", "logSoftmax"):
        add(["f32 4x3 g: 1 1 1 -inf 0 0 100 -100 0 -inf -inf -inf"], [f"{name} 0 dim=1"])
        add(["f32 . g: 3"], [f"{name} 0 dim=0"])
    add(["f32 6 g: 0 0 0 100 -100 -20", "f32 6 g: 0 1 0.5 1 0 1"], ["bceLoss 0 1 reduction=none"])
    add(["f32 3 g: 0 0 0", "f32 3: 0 1 0.5"], ["bceLoss 0 1 reduction=mean"])
    add(["f32 3 g: 1 2 0", "f32 3 g: 1 0 -0"], ["l1Loss 0 1 reduction=none"])
    add(["f32 3 g: 1 2 0", "f32 3 g: 1 0 -0"], ["mseLoss 0 1 reduction=none"])
    add(["f32 3x2 g: 0 0 1 -1 -inf 0", "i32 3: 0 1 1"], ["crossEntropy 0 1 ignore=-100 smoothing=0 reduction=none"])
    add(["f32 2x2 g: 0 0 1 -1", "i32 2: -1 1"], ["crossEntropy 0 1 ignore=-1 smoothing=0 reduction=mean"])
    add(["f32 2x2 g: 0 0 1 -1", "i32 2: 0 0"], ["crossEntropy 0 1 ignore=0 smoothing=0 reduction=mean"])
    add(["f32 1x1x3x3 g: 1 1 0 1 1 0 2 2 2"], ["maxPool2d 0 kernel=2 stride=1 padding=0 dilation=1"])
    add(["f32 1x1x2x2 g: 0 -1 -1 -2"], ["maxPool2d 0 kernel=2 stride=1 padding=1 dilation=1"])
    qkv = [f"f32 1x1x3x2 g: {values}" for values in ("0 0 1 1 2 0", "1 1 1 1 0 0", "0 1 1 0 2 2")]
    add(qkv, ["attention 0 1 2 causal=1"])
    add([*qkv, "bool 3x3: 1 0 1 0 1 0 1 1 1"], ["maskedAttention 0 1 2 3"])
    add(["f32 2x3 g: 0 0 0 2 2 2", "f32 3 g: 1 1 1", "f32 3 g: 0 0 0"], ["layerNorm 0 1 2"])
    add(["f32 2x3 g: 0 0 0 2 2 2", "f32 3 g: 1 1 1"], ["rmsNorm 0 1"])
    # Two roots that share what is below them, in both orders.
    add(["f32 3 g: 0 1 -1"], ["relu 0", "mul 1 #2", "square 1"], roots=[3, 2])
    add(["f32 3 g: 0 1 -1"], ["abs 0", "sqrt 1", "maximum 1 0"], roots=[2, 3, 1])
    return programs


def write(path, programs):
    text = json.dumps({"torch": torch.__version__, "programs": programs}, separators=(",", ":"))
    path.write_text(text.replace('{"in"', '\n{"in"') + "\n")


parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=300)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--longest", type=int, default=1100, help="characters of a program")
parser.add_argument("--output", type=pathlib.Path)
options = parser.parse_args()
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
if options.output is None:
    write(GOLDEN / "kinks.json", kinks())
write(options.output or GOLDEN / "programs.json", sample(options.count, options.seed, options.longest))
