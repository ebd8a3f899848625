"""Programs that take any sizes, each with the results of several choices of them."""

import json

import torch

from programs.draw import BINARY, COMPARISONS, SMOOTH, UNARY, Draw, shape_text
from programs.operations import Differs
from programs.program import declare, record

# Different ones, so that only dims of one size meet.
FIRST = {"a": 4, "b": 6, "c": 5}
REDUCTIONS = "sum mean max min std_correction=0 prod logSumExp norm_p=2 norm_p=1 variance_correction=0".split()
ALONG = "softmax logSoftmax cumsum cumProd sortValues argSort argMin maxValues minValues unsqueeze".split()


class SizedDraw(Draw):
    """Operations without numbers that follow from sizes."""

    def __init__(self, seed):
        super().__init__(seed)
        self.edges = False
        random = self.random
        roles = [random.choice("abc") for _ in range(random.choice([1, 2, 2, 3]))]
        self.shapes = [roles[:2], roles[random.choice([0, 1]) :] or roles]
        if random.random() < 0.6:
            self.shapes.append([random.choice("abc"), roles[-1]])
        self.program["in"] = self.inputs(FIRST)
        self.values = [declare(line, False) for line in self.program["in"]]

    def inputs(self, sizes):
        return [self.input("f32", [sizes[role] for role in roles], True) for roles in self.shapes]

    def step(self):
        random = self.random
        i = self.pick("f32")
        if i is None:
            return
        x = self.values[i]
        dim = random.randrange(x.dim()) if x.dim() else None
        j = self.pick("f32")
        lines = [f"{random.choice(UNARY)} {i}", f"{random.choice(BINARY)} {i} {j}", f"{random.choice(BINARY)} {i} {j}"]
        name, *params = random.choice(SMOOTH).split("_")
        lines.append(" ".join([name, str(i), *params]))
        name, *params = random.choice(REDUCTIONS).split("_")
        lines.append(" ".join([name, str(i) + self.dims(x) + random.choice(["", " keep=1"]), *params]))
        lines += [f"flatten {i}", f"matmul {i} {j}"]
        if dim is not None:
            name = random.choice(ALONG)
            down = random.choice(["", " down=1"])
            order = shape_text(random.sample(range(x.dim()), x.dim()))
            around = [random.choice([0, 0, 1]) for _ in range(2 * x.dim())]
            lines += [
                f"{name} {i} dim={dim}{down if name in ('sortValues', 'argSort') else ''}",
                f"permute {i} order={order}",
                f"flip {i} dims={dim}",
                f"roll {i} shifts={random.randint(-2, 2)} dims={dim}",
                f"at {i} items={random.choice(['1:', ':-1', '...;0::2', '...;1:', 'null;...'])}",
                f"pad {i} before={shape_text(around[: x.dim()])} after={shape_text(around[x.dim() :])} value=-0.5",
                f"{random.choice(['concat', 'stack'])} {i} {j} dim={dim}",
                f"repeat {i} times={shape_text([random.randint(1, 2) for _ in range(x.dim())])}",
                f"cdist {i} {j} p=2",
                f"outer {i} {j}",
            ]
        if x.dim() >= 2:
            lines += [f"mT {i}", f"{random.choice(['tril', 'triu'])} {i} diagonal={random.randint(-1, 1)}"]
        kind = random.random()
        if kind < 0.1:
            before = len(self.values)
            self.add(f"{random.choice(COMPARISONS)} {i} {j}")
            if len(self.values) > before:
                self.add(f"where {before} {i} #0.5")
        elif kind < 0.2 and dim is not None:
            before = len(self.values)
            self.add(f"argSort {i} dim={dim}")
            self.add(f"takeAlongDim {i} {before} dim={dim}")
        else:
            self.add(random.choice(lines))


def draw(seed):
    torch.set_default_dtype(torch.float32)
    drawn = SizedDraw(seed)
    for _ in range(drawn.random.randint(2, 6)):
        drawn.step()
    program = drawn.finish()
    if program is None:
        return None
    choose = drawn.random.choice
    others = [{role: choose(sizes) for role in "abc"} for sizes in ([2, 3, 4, 5], [4, 6], [0, 1, 2, 3])]
    runs = []
    for sizes in [FIRST, *others]:
        try:
            run = record({**program, "in": drawn.inputs(sizes)})
        except (Differs, RuntimeError, IndexError, ValueError):
            run = None
        if run is not None:
            runs.append({key: run[key] for key in ("in", "out", "grad")})
        elif sizes is FIRST:
            return None
    if len(runs) < 3:
        return None
    joined = {key: " ".join(map(str, program[key])) for key in ("roots", "reads")}
    return {"do": program["do"], **joined, "runs": runs}


def sized_sample(count, seed, longest):
    programs = []
    while len(programs) < count:
        program = draw(seed)
        seed += 1
        if program is not None and len(json.dumps(program)) <= longest:
            programs.append(program)
    return programs
