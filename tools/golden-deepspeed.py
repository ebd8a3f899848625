"""Records DeepSpeed's schedules and the keys of its configuration, which packages/compat/test compares with.

Run from the repository root, with PyTorch 2 and the unpacked sources of DeepSpeed 0.19, of which it runs one file:

    python tools/golden-deepspeed.py path/to/deepspeed-0.19.8

It rewrites packages/compat/test/golden/schedules.json: for each schedule its type and parameters, the settings of the
optimizer, and the learning rate and momentum before the first step and after each of 30, or of 300 for long schedules;
and packages/compat/test/golden/deepspeed-keys.txt: the paths of the keys of the sections that DeepSpeed declares as classes.
"""

import ast
import importlib.util
import json
import logging
import pathlib
import sys
import types

import torch

GOLDEN = pathlib.Path(__file__).parents[1] / "packages/compat/test/golden"
SECTIONS = [
    ("zero_optimization", "runtime/zero/config.py", "DeepSpeedZeroConfig"),
    ("zero_optimization.offload_param", "runtime/zero/offload_config.py", "DeepSpeedZeroOffloadParamConfig"),
    ("zero_optimization.offload_optimizer", "runtime/zero/offload_config.py", "DeepSpeedZeroOffloadOptimizerConfig"),
    ("fp16", "runtime/precision_config.py", "DeepSpeedFP16Config"),
    ("bf16", "runtime/precision_config.py", "DeepSpeedBF16Config"),
]


def keys(root, section, path, name):
    """The keys of a class of settings, by their aliases if they have some."""
    tree = ast.parse((pathlib.Path(root) / "deepspeed" / path).read_text())
    (declared,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    for line in declared.body:
        if not isinstance(line, ast.AnnAssign):
            continue
        given = line.value.keywords if isinstance(line.value, ast.Call) else []
        aliases = [keyword.value.value for keyword in given if keyword.arg == "alias"]
        yield f"{section}.{aliases[0] if aliases else line.target.id}"


def schedules(root):
    """The module of the schedules, without the rest of DeepSpeed."""
    utils = types.ModuleType("deepspeed.utils")
    utils.logger = logging.getLogger("deepspeed")
    utils.logger.setLevel(logging.ERROR)
    sys.modules["deepspeed"] = types.ModuleType("deepspeed")
    sys.modules["deepspeed.utils"] = utils
    path = pathlib.Path(root) / "deepspeed/runtime/lr_schedules.py"
    spec = importlib.util.spec_from_file_location("lr_schedules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = [
    ("WarmupLR", {}),
    ("WarmupLR", {"warmup_min_lr": 1e-5, "warmup_max_lr": 3e-4, "warmup_num_steps": 10}),
    ("WarmupLR", {"warmup_max_lr": 3e-4, "warmup_num_steps": 7, "warmup_type": "linear"}),
    ("WarmupLR", {"warmup_num_steps": 1}),
    ("WarmupDecayLR", {"total_num_steps": 25, "warmup_num_steps": 9}),
    (
        "WarmupDecayLR",
        {"total_num_steps": 20, "warmup_min_lr": 1e-4, "warmup_max_lr": 2e-3, "warmup_num_steps": 5, "warmup_type": "linear"},
    ),
    ("WarmupDecayLR", {"total_num_steps": 3, "warmup_num_steps": 12}),
    ("WarmupCosineLR", {"total_num_steps": 26, "warmup_num_steps": 6}),
    (
        "WarmupCosineLR",
        {"total_num_steps": 24, "warmup_min_ratio": 0.1, "warmup_num_steps": 8, "cos_min_ratio": 0.05, "warmup_type": "linear"},
    ),
    ("WarmupCosineLR", {"total_num_steps": 4, "warmup_num_steps": 10}),
    ("WarmupCosineLR", {"total_num_steps": 300, "warmup_num_steps": 150}),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 10}),
    (
        "OneCycle",
        {
            "cycle_min_lr": 1e-4,
            "cycle_max_lr": 1e-3,
            "cycle_first_step_size": 6,
            "cycle_second_step_size": 11,
            "decay_step_size": 3,
            "decay_lr_rate": 0.5,
            "decay_mom_rate": 0.01,
            "cycle_min_mom": 0.75,
            "cycle_max_mom": 0.95,
        },
    ),
    (
        "OneCycle",
        {
            "cycle_min_lr": 0.01,
            "cycle_max_lr": 0.1,
            "cycle_first_step_size": 9,
            "cycle_second_step_size": 7,
            "cycle_first_stair_count": 3,
            "cycle_second_stair_count": 4,
            "cycle_momentum": False,
        },
    ),
    ("LRRangeTest", {"lr_range_test_step_size": 5}),
    (
        "LRRangeTest",
        {
            "lr_range_test_min_lr": 1e-4,
            "lr_range_test_step_size": 4,
            "lr_range_test_step_rate": 3.0,
            "lr_range_test_staircase": True,
        },
    ),
]


def record(module, kind, params):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.Adam([parameter], lr=2e-3, betas=(0.9, 0.99))
    scheduler = getattr(module, kind)(optimizer, **params)
    rates, momenta = [], []
    steps = 300 if params.get("warmup_num_steps", 0) > 30 else 30
    for step in range(steps + 1):
        if step > 0:
            scheduler.step()
        (group,) = optimizer.param_groups
        rates.append(group["lr"])
        momenta.append(group["betas"][0])
    return {"type": kind, "params": params, "rates": rates, "momenta": momenta}


def main():
    module = schedules(sys.argv[1])
    result = [record(module, kind, params) for kind, params in CASES]
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / "schedules.json").write_text(json.dumps(result) + "\n")
    paths = sorted(path for section in SECTIONS for path in keys(sys.argv[1], *section))
    (GOLDEN / "deepspeed-keys.txt").write_text("\n".join(paths) + "\n")


main()
