"""Records which dtypes PyTorch gives binary operations, and what some of them compute.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-promotion.py && npx oxfmt test/golden

It rewrites test/golden/promotion.json. In `dtypes` each operation has one line per left operand, with
the result's dtype for each right operand in the order of `operands`; `-` is what PyTorch refuses. An
operand is a dtype (a tensor of one dim), a dtype and 0 (a tensor without dims), or a number. In `values`
a line is `left right result...`.
"""

import json
import pathlib
import warnings

import torch

OUTPUT = pathlib.Path(__file__).parents[1] / "test/golden/promotion.json"
NAMES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "bool",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}
NUMBERS = ("2", "0.5")
CONDITION = torch.tensor([True, False, True, False])

LEFT = {
    "f32": [1.5, -2, 0.25, 100],
    "f16": [1.5, -2, 0.25, 100],
    "bf16": [1.5, -2, 0.25, 100],
    "i32": [7, -7, 3, 30000],
    "u8": [250, 3, 7, 1],
    "bool": [1, 0, 1, 0],
}
RIGHT = {
    "f32": [2, -0.5, 3, 0.1],
    "f16": [2, -0.5, 3, 0.1],
    "bf16": [2, -0.5, 3, 0.1],
    "i32": [2, -3, 5, 7],
    "u8": [2, 3, 200, 5],
    "bool": [1, 1, 1, 1],
}


def extreme(name):
    """torch.maximum and torch.minimum take tensors only; a number promotes as torch.result_type says."""

    def apply(a, b):
        if isinstance(b, torch.Tensor):
            return getattr(torch, name)(a, b)
        dtype = torch.result_type(a, b)
        return getattr(torch, name)(a.to(dtype), torch.tensor(b).to(dtype))

    return apply


OPERATIONS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "divTrunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "divFloor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "pow": torch.pow,
    "maximum": extreme("maximum"),
    "minimum": extreme("minimum"),
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "where": lambda a, b: torch.where(CONDITION[: max(a.numel(), 1)], a, b),
    "logicalAnd": torch.logical_and,
    "logicalOr": torch.logical_or,
}


def operand(name):
    if name in NUMBERS:
        return float(name) if "." in name else int(name)
    dims = [] if name.endswith("0") else [1]
    return torch.ones(dims, dtype=DTYPES[name.removesuffix("0")])


def result(operation, a, b):
    try:
        return OPERATIONS[operation](a, b)
    except (RuntimeError, TypeError, NotImplementedError):
        return None


def dtype_of(operation, left, right):
    if operation.startswith("logical") and right in NUMBERS:
        return "-"
    y = result(operation, operand(left), operand(right))
    return "-" if y is None else NAMES[y.dtype]


warnings.filterwarnings("ignore")
tensors = [*DTYPES, *(f"{name}0" for name in DTYPES)]
operands = [*tensors, *NUMBERS]
dtypes = {}
values = {}
for operation in OPERATIONS:
    dtypes[operation] = [" ".join(dtype_of(operation, left, right) for right in operands) for left in tensors]
    lines = []
    for left in LEFT:
        for right in RIGHT if operation.startswith("logical") else [*RIGHT, *NUMBERS]:
            a = torch.tensor(LEFT[left]).to(DTYPES[left])
            b = operand(right) if right in NUMBERS else torch.tensor(RIGHT[right]).to(DTYPES[right])
            y = result(operation, a, b)
            if y is not None:
                numbers = " ".join(f"{x:.9g}" if y.is_floating_point() else str(int(x)) for x in y.tolist())
                lines.append(f"{left} {right} {numbers}")
    values[operation] = lines
dtypes["resultType"] = [
    " ".join(NAMES[torch.result_type(operand(left), operand(right))] for right in operands) for left in tensors
]
golden = {
    "torch": torch.__version__,
    "operands": operands,
    "left": LEFT,
    "right": RIGHT,
    "dtypes": dtypes,
    "values": values,
}
OUTPUT.write_text(json.dumps(golden) + "\n")
