"""Writes packages/models/test/golden/torch-files.json: files of torch.save, and what PyTorch says is in them.

Run it with PyTorch 2.15: python tools/golden-weights.py
"""

import base64
import io
import json
import pathlib
from collections import OrderedDict

import torch

OUT = pathlib.Path(__file__).parent.parent / "packages/models/test/golden/torch-files.json"


def tensors():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return OrderedDict(
        [
            ("weight", base),
            ("transposed", base.t()),
            ("rows", base[1:3]),
            ("columns", base[:, 2:4]),
            ("repeated", torch.tensor([7.0]).expand(3, 2)),
            ("parameter", torch.nn.Parameter(torch.tensor([1.5, -2.0]))),
            ("half", torch.tensor([1.5, 65504.0], dtype=torch.float16)),
            ("brain", torch.tensor([1.5, -3e38], dtype=torch.bfloat16)),
            ("double", torch.tensor(0.1, dtype=torch.float64)),
            ("long", torch.tensor([-1, 2**40])),
            ("int", torch.tensor([-5], dtype=torch.int32)),
            ("byte", torch.tensor([255], dtype=torch.uint8)),
            ("bool", torch.tensor([True, False])),
            ("empty", torch.zeros(0, 3)),
        ]
    )


def saved(value, legacy=False):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=not legacy)
    return base64.b64encode(file.getvalue()).decode()


def described(tensor):
    values = tensor.detach().contiguous().flatten().tolist()
    return {"shape": list(tensor.shape), "values": [str(value) if type(value) is int else value for value in values]}


def main():
    state = tensors()
    linear = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(linear.weight, 0.5)
    torch.nn.init.constant_(linear.bias, 0.25)
    training = {
        "epoch": 3,
        "best": 0.5,
        "note": "naïve",
        "model": linear.state_dict(),
        "losses": [1.0, 0.5],
    }
    result = {
        "tensors": {name: described(tensor) for name, tensor in state.items()},
        "archive": saved(state),
        "legacy": saved(state, legacy=True),
        "training": saved(training),
        "module": saved(linear),
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n")


main()
