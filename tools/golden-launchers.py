"""Records the options of torchrun, `accelerate launch` and `deepspeed`.

Run from the repository root, with PyTorch 2.15 and accelerate 1.15:

    python tools/golden-launchers.py

It rewrites packages/shardwise/test/golden/launchers.json. The options of `deepspeed` are those of DeepSpeed 0.18; they
are written down here, because its launcher cannot be imported without a compiler.
"""

import json
import pathlib

import accelerate
import torch
from accelerate.commands.launch import launch_command_parser
from torch.distributed.run import get_args_parser

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/shardwise/test/golden/launchers.json"

DEEPSPEED = """-H --hostfile -i --include -e --exclude --num_nodes --min_elastic_nodes --max_elastic_nodes --num_gpus
--num_accelerators --master_port --master_addr --node_rank --launcher --launcher_args --module --no_python
--no_local_rank --no_ssh --no_ssh_check --force_multi --save_pid --enable_each_rank_log --autotuning --comment --account
--elastic_training --bind_cores_to_rank --bind_core_list --ssh_port""".split()


def options(parser):
    return sorted({name for action in parser._actions for name in action.option_strings})


golden = {
    "versions": {"torch": torch.__version__, "accelerate": accelerate.__version__},
    "torchrun": options(get_args_parser()),
    "accelerate": options(launch_command_parser()),
    "deepspeed": sorted(DEEPSPEED),
}
OUTPUT.parent.mkdir(exist_ok=True)
OUTPUT.write_text(json.dumps(golden, indent=2) + "\n")
