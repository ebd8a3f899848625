"""Trains a small model with DeepSpeed and saves checkpoints in ZeRO stages 1 to 3, which packages/compat/test continues.

Run from the repository root, with PyTorch 2 and DeepSpeed 0.19 installed; it computes on the CPU:

    DS_ACCELERATOR=cpu python tools/golden-zero-checkpoints.py

Writes packages/compat/test/golden/zero-checkpoints.json: for each checkpoint its files (deflated, in base64), the f32 weights that
zero_to_fp32.py finds in it, the states of the optimizer, and the losses of all ranks in the four steps after it.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

import torch

OUT = pathlib.Path(__file__).parents[1] / "packages/compat/test/golden/zero-checkpoints.json"
CASES = [(1, 2, "fp32"), (1, 3, "bf16"), (2, 2, "fp16"), (2, 3, "fp32"), (3, 2, "bf16"), (3, 4, "fp32")]
STEPS = 4
ROWS = 4
STATES = ("exp_avg", "exp_avg_sq")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Network(torch.nn.Module):
    """Has a frozen layer, a buffer, and a parameter with two names."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.first = torch.nn.Linear(5, 3)
        self.frozen = torch.nn.Linear(3, 3).requires_grad_(False)
        self.last = torch.nn.Linear(3, 1, bias=False)
        self.tied = torch.nn.Linear(3, 1, bias=False)
        self.tied.weight = self.last.weight

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(torch.tanh(self.first(x))))) * self.scale


def batch(step, rank):
    """The same numbers on any machine, in [-1, 1]."""
    rows = [[((7 * row + 3 * column + 11 * step + 5 * rank) % 13) / 6 - 1 for column in range(5)] for row in range(ROWS)]
    x = torch.tensor(rows)
    return x, x.sum(1, keepdim=True) / 5


def rank_main(folder, stage, dtype):
    """One rank. Rank 0 prints the states at the checkpoint and the mean losses after it."""
    import deepspeed
    from deepspeed.accelerator import get_accelerator
    from deepspeed.utils import safe_get_full_optimizer_state

    # PyTorch computes in f16 on every CPU. DeepSpeed asks for instructions of it.
    type(get_accelerator()).is_fp16_supported = lambda self: True
    rank = int(os.environ["RANK"])
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)
    torch.manual_seed(1)
    model = Network()
    groups = [
        {"params": [model.first.weight, model.last.weight], "weight_decay": 0.1},
        {"params": [model.first.bias], "weight_decay": 0.0},
    ]
    warmup = {"warmup_max_lr": 0.05, "warmup_num_steps": 2, "total_num_steps": 20, "warmup_type": "linear"}
    config = {
        "train_micro_batch_size_per_gpu": ROWS,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}},
        "scheduler": {"type": "WarmupDecayLR", "params": warmup},
        "zero_optimization": {"stage": stage},
        **({} if dtype == "fp32" else {dtype: {"enabled": True}}),
        **({"fp16": {"enabled": True, "initial_scale_power": 6}} if dtype == "fp16" else {}),
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
    losses = []
    states = {}
    for step in range(2 * STEPS):
        if step == STEPS:
            for key in STATES if stage == 3 else ():
                found = {name: safe_get_full_optimizer_state(each, key) for name, each in model.named_parameters() if each.requires_grad}
                states[key] = {name: value.flatten().tolist() for name, value in found.items()}
            scale = engine.cur_scale if hasattr(engine, "cur_scale") else engine.optimizer.loss_scale
            engine.save_checkpoint(folder, client_state={"epoch": 3, "note": {"best": [0.5, "loss"]}})
        x, target = batch(step, rank)
        loss = torch.nn.functional.mse_loss(engine(x.to(DTYPES[dtype])).float(), target)
        engine.backward(loss)
        engine.step()
        total = loss.detach().clone()
        torch.distributed.all_reduce(total)
        losses.append(total.item() / torch.distributed.get_world_size())
    if rank == 0:
        print("RESULT" + json.dumps({**states, "lossScale": scale, "losses": losses[STEPS:]}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def fragments(folder):
    """The states in stages 1 and 2, by what each rank says of the places of its fragments."""
    states = {key: {} for key in STATES}
    for path in sorted(folder.glob("*/*_optim_states.pt")):
        saved = torch.load(path, weights_only=False)["optimizer_state_dict"]
        for group, places in enumerate(saved["param_slice_mappings"]):
            own = saved["base_optimizer_state"]["state"][group]
            for name, place in places.items():
                for key in STATES:
                    states[key].setdefault(name, []).extend(own[key].narrow(0, place.start, place.numel).tolist())
    return states


def write(folder, stage, ranks, dtype):
    """Runs the ranks, and returns what they have saved."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    command = [sys.executable, __file__, str(folder), str(stage), dtype]
    world = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, env={**os.environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    outputs = [each.communicate()[0] for each in started]
    assert all(each.returncode == 0 for each in started)
    (result,) = [line for line in outputs[0].splitlines() if line.startswith("RESULT")]
    found = get_fp32_state_dict_from_zero_checkpoint(str(folder), f"global_step{STEPS}")
    # The scripts that DeepSpeed copies beside the checkpoint are not part of it.
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".py"]
    return {
        "stage": stage,
        "ranks": ranks,
        "dtype": dtype,
        "files": {str(path.relative_to(folder)): base64.b64encode(zlib.compress(path.read_bytes(), 9)).decode() for path in paths},
        "weights": {key: tensor.float().flatten().tolist() for key, tensor in found.items()},
        **({} if stage == 3 else fragments(folder)),
        **json.loads(result.removeprefix("RESULT")),
    }


if len(sys.argv) > 1:
    rank_main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
else:
    cases = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as root:
            cases.append(write(pathlib.Path(root), *case))
    OUT.write_text(json.dumps(cases, indent=1) + "\n")
