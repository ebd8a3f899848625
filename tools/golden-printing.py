"""Records how PyTorch prints tensors: nested lists, columns, digits, and what is left out of long ones.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-printing.py

It rewrites packages/core/test/golden/printing.json. Elements are their bytes in base64; a tensor whose
elements are made by a rule has that rule's name instead.
"""

import base64
import json
import pathlib

import torch
from torch._tensor_str import _tensor_str

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/core/test/golden/printing.json"
NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int64: "i64", torch.int32: "i32", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


def record(tensor):
    raw = tensor.contiguous()
    if raw.dtype == torch.bfloat16:
        raw = raw.view(torch.int16)
    return {
        "dtype": NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "bytes": base64.b64encode(raw.numpy().tobytes()).decode(),
        "prints": _tensor_str(tensor, 0),
    }


def tensors():
    inf, nan = float("inf"), float("nan")
    for values in [
        1.5, 0.0, -0.0, 3.0, 1e-5, 123456.0, 1e20, inf, nan,
        [], [1.0], [0.0, 0.0], [-0.0, 1.5], [1.0, 2.0, 3.0], [-1.0, 10.0, 100.0], [0.1, 0.22, 0.333],
        [1.0, nan, inf, -inf], [1.25, nan, inf, -inf], [nan, inf], [1e-5, 1.0], [1e-5, 2e-5], [1e9, 2e9],
        [1.0, 2000.0], [1.5, 2000.0], [1.5, 1501.0], [99999999.0, 100000001.0], [1e-3, 1e-7],
        [[1.0, 2.0], [3.0, 4.0]], [[1.5, -2.5], [300.0, 4.25]], [[[1.0], [2.0]], [[3.0], [4.0]]],
        [[[[0.5, 0.25]]]],
    ]:  # fmt: skip
        yield torch.tensor(values)
    yield torch.zeros(0, 3)
    yield torch.zeros(2, 0)
    yield torch.tensor([1, -20, 300], dtype=torch.int32)
    yield torch.tensor([[2**40, -1], [0, 5]])
    yield torch.tensor([0, 255], dtype=torch.uint8)
    yield torch.tensor([[True, False], [False, False]])
    yield torch.tensor([1.5, -0.25, 65504], dtype=torch.float16)
    yield torch.tensor([1.5, -0.25, 1e30], dtype=torch.bfloat16)
    yield torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)
    yield torch.arange(40)
    yield torch.arange(40.0) / 7
    generator = torch.Generator().manual_seed(0)
    for shape in [(7,), (30,), (3, 4), (2, 3, 4), (1, 2, 1, 3), (12, 12), (2, 30)]:
        yield torch.randn(shape, generator=generator)
        # Of two numbers that are equally near we print the upper one, PyTorch the even one: doubles are never so.
        yield torch.randn(shape, generator=generator, dtype=torch.float64) * 1e5
        yield torch.randint(-1000, 1000, shape, generator=generator, dtype=torch.int32)
    # More than 1000 elements, whose bytes would be most of the file: whole numbers that count up.
    for shape in [(1001,), (40, 40), (7, 200), (200, 7), (6, 6, 100), (8, 8, 8, 8), (1, 1, 2000)]:
        count = torch.Size(shape).numel()
        for tensor in [torch.arange(count, dtype=torch.int32), torch.arange(count) / 7]:
            entry = record(tensor.reshape(shape))
            entry["bytes"] = "i" if tensor.dtype == torch.int32 else "i / 7"
            yield entry


golden = [each if isinstance(each, dict) else record(each) for each in tensors()]
OUTPUT.write_text(json.dumps({"torch": torch.__version__, "tensors": golden}, indent=1) + "\n")
