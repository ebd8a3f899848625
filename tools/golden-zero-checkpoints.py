"""Writes folders with the layout of DeepSpeed's checkpoints in ZeRO stages 2 and 3, which packages/compat/test reads.

Run from the repository root, with PyTorch 2 and the unpacked sources of DeepSpeed 0.19, whose zero_to_fp32.py says what is in them:

    python tools/golden-zero-checkpoints.py path/to/deepspeed-0.19.8

Writes packages/compat/test/golden/zero-checkpoints.json: the files, and for each folder the f32 weights and the states.
"""

import base64
import importlib.util
import json
import math
import pathlib
import sys
import tempfile
import types
from collections import OrderedDict

import torch

ROOT = pathlib.Path(sys.argv[1])
OUT = pathlib.Path(__file__).parents[1] / "packages/compat/test/golden/zero-checkpoints.json"
SHAPES = OrderedDict([("first.weight", torch.Size([3, 5])), ("first.bias", torch.Size([3])), ("last.weight", torch.Size([1, 3]))])


def module(name, path=None, **attributes):
    """A module of this name, from a file of DeepSpeed or with these attributes alone."""
    if path is None:
        made = types.ModuleType(name)
        made.__dict__.update(attributes)
        sys.modules[name] = made
        return made
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


import enum
import logging

module("deepspeed")
module("deepspeed.utils", logger=logging.getLogger("deepspeed"))
module("deepspeed.checkpoint")
constants = module("deepspeed.checkpoint.constants", "deepspeed/checkpoint/constants.py")
zero_to_fp32 = module("zero_to_fp32", "deepspeed/utils/zero_to_fp32.py")


class LossScaler:
    """Stands for the scaler that DeepSpeed saves: an object with attributes."""

    def __init__(self):
        self.cur_scale = 1.0
        self.dynamic = False


class ZeroStageEnum(int, enum.Enum):
    gradients = 2
    weights = 3


LossScaler.__module__ = "deepspeed.runtime.fp16.loss_scaler"
ZeroStageEnum.__module__ = "deepspeed.runtime.zero.config"
module("deepspeed.runtime")
module("deepspeed.runtime.fp16")
module("deepspeed.runtime.fp16.loss_scaler", LossScaler=LossScaler)
module("deepspeed.runtime.zero")
module("deepspeed.runtime.zero.config", ZeroStageEnum=ZeroStageEnum)


def whole(seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def flat_parts(tensors, stage, ranks, padded):
    """What each rank has: consecutive parts of all, or (stage 3) a part of each parameter."""
    if stage == 3:
        parts = [[] for _ in range(ranks)]
        for tensor in tensors.values():
            size = math.ceil(tensor.numel() / ranks)
            row = torch.cat([tensor.flatten(), torch.zeros(size * ranks - tensor.numel())])
            for rank in range(ranks):
                parts[rank].append(row[rank * size : (rank + 1) * size])
        return [torch.cat(each) for each in parts]
    row = torch.cat([tensor.flatten() for tensor in tensors.values()])
    size = math.ceil(row.numel() / (2 * ranks)) * 2
    row = torch.cat([row, torch.zeros(size * ranks - row.numel())])
    parts = [row[rank * size : (rank + 1) * size] for rank in range(ranks)]
    if not padded:
        missing = size * ranks - sum(tensor.numel() for tensor in tensors.values())
        parts[-1] = parts[-1][: size - missing]
    return [part.clone() for part in parts]


def write(folder, stage, ranks):
    """Writes a folder, and returns what it has."""
    weights, means, squares = whole(stage), whole(10 + stage), whole(20 + stage)
    (folder / "latest").write_text("global_step7")
    tag = folder / "global_step7"
    tag.mkdir()
    sets = [flat_parts(each, stage, ranks, padded) for each, padded in ((weights, False), (means, True), (squares, True))]
    for rank in range(ranks):
        master, mean, square = (each[rank] for each in sets)
        base = {
            "state": {0: {"step": torch.tensor(6.0), "exp_avg": mean, "exp_avg_sq": square}},
            "param_groups": [{"lr": 0.01, "params": [0]}],
        }
        common = {"loss_scaler": LossScaler(), "dynamic_loss_scale": False, "overflow": False, "zero_stage": ZeroStageEnum(stage)}
        if stage == 3:
            own = {**common, "partition_count": ranks, "optimizer_state_dict": base, "fp32_flat_groups": [master]}
        else:
            own = {**common, "partition_count": [ranks], "base_optimizer_state": base, "single_partition_of_fp32_groups": [master]}
        name = f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": own, "ds_config": {}, "ds_version": "0.19.8"}, tag / name)
        model = {
            "module": OrderedDict(
                [(key, tensor.bfloat16() if stage < 3 else torch.empty(0, dtype=torch.bfloat16)) for key, tensor in weights.items()]
                + [("tied.weight", torch.empty(0, dtype=torch.bfloat16)), ("scale", torch.ones(2))]
            ),
            "buffer_names": ["scale"],
            "optimizer": None,
            "param_shapes": [SHAPES],
            "frozen_param_shapes": None,
            "shared_params": {"tied.weight": "last.weight"},
            "frozen_param_fragments": None,
            "lr_scheduler": None,
            "sparse_tensor_module_names": set(),
            "skipped_steps": 1,
            "global_steps": 7,
            "global_samples": 56,
            "dp_world_size": ranks,
            "mp_world_size": 1,
            "ds_config": {"train_batch_size": 8},
            "ds_version": "0.19.8",
            "epoch": 3,
            "note": {"best": [0.5, "loss"]},
        }
        if stage == 3:
            torch.save(model, tag / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        elif rank == 0:
            torch.save(model, tag / "mp_rank_00_model_states.pt")
    found = zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(str(folder), "global_step7")
    for key, tensor in weights.items():
        assert torch.equal(found[key], tensor), key
    del found["scale"]
    lists = lambda tensors: {key: tensor.flatten().tolist() for key, tensor in tensors.items()}
    files = {str(path.relative_to(folder)): base64.b64encode(path.read_bytes()).decode() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {"stage": stage, "ranks": ranks, "files": files, "weights": lists(found), "exp_avg": lists(means), "exp_avg_sq": lists(squares)}


cases = []
for stage, ranks in ((2, 1), (2, 3), (3, 2), (3, 4)):
    with tempfile.TemporaryDirectory() as folder:
        cases.append(write(pathlib.Path(folder), stage, ranks))
OUT.write_text(json.dumps(cases, indent=1) + "\n")
