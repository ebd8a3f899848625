"""Programs at random."""

import json
import math
import random

import torch

from programs.operations import Differs
from programs.program import DTYPES, compute, declare, record

GRID = [-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
EDGES = ["0", "-0", "inf", "-inf", "nan", "0", "-0"]
SMOOTH = (
    "log1p expm1 log2 exp2 reciprocal tan asin acos atan sinh cosh trunc mish "
    "round_decimals=0 round_decimals=1 leakyRelu_slope=0.1 elu_alpha=1 hardtanh_low=-1_high=1.2 "
    "clampLow_low=-0.7 clampHigh_high=0.7"
).split()
TESTS = "isNaN isFinite isInf".split()
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
            "movement join contract index pow clamp cast activation logic integers variance "
            "smooth smooth smooth rest blend reduction reduction order order arrange arrange arrange place place "
            "product product".split()
        )
        i = self.pick("f32")
        if i is None:
            return
        x = self.values[i]
        dim = random.randrange(x.dim()) if x.dim() else 0
        keep = random.choice(["", " keep=1"])
        if kind == "unary":
            self.add(f"{random.choice(UNARY)} {i}")
        elif kind == "smooth":
            name, *params = random.choice(SMOOTH + TESTS).split("_")
            self.add(" ".join([name, str(i), *params]))
        elif kind == "rest":
            other = self.pick("f32") if random.random() < 0.6 else f"#{random.choice([2, 0.75, -1.5])}"
            self.add(f"{random.choice(['remainder', 'fmod', 'atan2'])} {i} {other}")
        elif kind == "blend":
            j, k = self.pick("f32"), self.pick("f32")
            lines = [f"addcmul {i} {j} {k} value=0.5", f"addcdiv {i} {j} {k} value=1", f"lerp {i} {j} #0.3", f"lerp {i} {j} {k}"]
            self.add(random.choice(lines))
        elif kind == "reduction":
            lines = [
                f"std {i}{self.dims(x)} correction={random.choice([0, 1])}{keep}",
                f"prod {i}{self.dims(x)}{keep}",
                f"logSumExp {i}{self.dims(x)}{keep}",
                f"norm {i}{self.dims(x)} p={random.choice(['1', '2', '2', '3', 'inf', '-inf'])}{keep}",
                f"any {self.pick()}{keep}",
                f"all {self.pick()}{keep}",
            ]
            self.add(random.choice(lines))
        elif kind == "order":
            self.order(i, x, dim, keep)
        elif kind == "arrange":
            self.arrange(i, x, dim)
        elif kind == "place":
            self.place(i, x, dim)
        elif kind == "product":
            self.product(i, x)
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

    def order(self, i, x, dim, keep):
        random = self.random
        if x.dim() == 0:
            return
        down = random.choice(["", " down=1"])
        lines = [
            f"sortValues {i} dim={dim}{down}",
            f"argSort {i} dim={dim}{down}",
            f"topKValues {i} k={random.randint(1, x.shape[dim])} dim={dim}{down}",
            f"cumProd {i} dim={dim}",
            f"medianValues {i} dim={dim}",
            f"{random.choice(['maxValues', 'minValues', 'maxIndices', 'minIndices', 'argMin'])} {i} dim={dim}{keep}",
            f"{random.choice(['argMaxAll', 'argMinAll'])} {i}",
            f"histogram {i} bins={random.randint(1, 5)} low=-2 high=1.5",
        ]
        self.add(random.choice(lines))

    def arrange(self, i, x, dim):
        random = self.random
        count = x.dim()
        lines = [f"repeatInterleave {i} repeats=2", f"tile {i} times={random.choice(['2', '1x2', '2x1x1'])}"]
        if count:
            chosen = sorted(random.sample(range(count), random.randint(1, count)))
            dims = ",".join(map(str, chosen))
            chunks = random.randint(1, 3)
            items = [self.item(size) for size in x.shape[: random.randint(1, count)]]
            if random.random() < 0.3:
                items.insert(random.randrange(len(items) + 1), "null")
            if len(items) < count and random.random() < 0.3:
                items.insert(0, "...")
            lines += [
                f"flip {i} dims={dims}",
                f"roll {i} shifts={','.join(str(random.randint(-4, 4)) for _ in chosen)} dims={dims}",
                f"roll {i} shifts={random.randint(-4, 4)}",
                f"repeat {i} times={shape_text([random.randint(1, 2) for _ in range(count)])}",
                f"repeatInterleave {i} repeats={random.randint(1, 3)} dim={dim}",
                f"movedim {i} from={dim} to={random.randrange(count)}",
                f"chunkAt {i} chunks={chunks} dim={dim} part=0",
                f"unbindAt {i} dim={dim} part={random.randrange(x.shape[dim])}",
                f"at {i} items={';'.join(items)}",
            ]
        if count >= 2:
            lines += [f"mT {i}", f"{random.choice(['tril', 'triu'])} {i} diagonal={random.randint(-2, 2)}"]
        self.add(random.choice(lines))

    def item(self, size):
        random = self.random
        start = random.randrange(size)
        return random.choice(
            [":", str(random.randrange(-size, size)), f"{start}:", f":{start + 1}", f"{start - size}:{size}:2", "0::2"]
        )

    def place(self, i, x, dim):
        """By what argSort gives, which is each place once."""
        random = self.random
        j = self.pick("bool")
        if j is not None and random.random() < 0.4:
            self.add(f"maskedFill {i} {j} #{random.choice([0, -1.5, 2])}")
            return
        if x.dim() == 0:
            return
        before = len(self.values)
        self.add(f"argSort {i} dim={dim}")
        if len(self.values) == before:
            return
        k = random.randint(1, x.shape[dim])
        self.add(f"slice {before} dim={dim} start=0 stop={k} step=1")
        if len(self.values) < before + 2:
            return
        places = before + 1
        lines = [f"takeAlongDim {i} {places} dim={dim}"]
        self.add(f"gather {i} {places} dim={dim}")
        source = self.pick("f32") if random.random() < 0.3 else len(self.values) - 1
        lines += [f"scatter {i} {places} {source} dim={dim}", f"scatter {i} {places} #0.5 dim={dim}"]
        if x.dim() == 1:
            lines += [f"at {i} {places} items=t1", f"indexPut {i} {places} {source}", f"indexPut {i} {places} {source} add=1"]
        self.add(random.choice(lines))

    def product(self, i, x):
        random = self.random
        j = self.pick("f32", least=1)
        if j is None or x.dim() == 0:
            return
        y = self.values[j]
        letters = "abcd"
        one = [random.choice(letters) for _ in range(x.dim())]
        two = [random.choice(letters) for _ in range(y.dim())]
        out = random.sample(sorted(set(one + two)), random.randint(0, len(set(one + two))))
        lines = [
            f"einsum {i} {j} eq={''.join(one)},{''.join(two)}->{''.join(out)}",
            f"einsum {i} {j} eq=...a,...a->...",
            f"cdist {i} {j} p={random.choice(['1', '2', '3'])}",
            f"{random.choice(['outer', 'dot'])} {i} {j}",
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
