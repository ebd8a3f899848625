"""Records which tokens PyTorch's context parallelism gives each rank.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-context-parallel.py

It rewrites packages/strategies/test/golden/context-parallel.json: for each length and number of ranks, the places of the
tokens in the order of the ranks, and where each place of the sequence lies in that order. PyTorch's `context_parallel` has no
attention on the CPU (`_scaled_dot_product_flash_attention_for_cpu` has no sharding strategy). Its ring alone, with balanced ranks,
runs on gloo with the kernels of the CPU where keys and values are gathered, so this also rewrites ring-attention.json there: the
attention that two and four ranks compute, and its gradients, in the order of the sequence.
"""

import json
import math
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.distributed.tensor.experimental._context_parallel._load_balancer import (
    _HeadTailLoadBalancer,
)

GOLDEN = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden"
OUTPUT = GOLDEN / "context-parallel.json"
HEADS, WIDTH = 2, 4
CASES = [(8, 2), (16, 2), (12, 3), (8, 4), (32, 4), (20, 5)]


def tokens(length: int, part: int) -> torch.Tensor:
    """Numbers that the test makes in the same way. Shape: [1, heads, T, width]."""
    count = length * HEADS * WIDTH
    numbers = [math.sin(0.7 * (part * count + i)) for i in range(count)]
    return torch.tensor(numbers).view(1, length, HEADS, WIDTH).transpose(1, 2).contiguous()


def attend(rank: int, ranks: int, folder: str) -> None:
    """Writes what a rank computes of the attention and of its gradients."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29641")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    ring.set_rotate_method("allgather")
    length = 4 * ranks
    places = _HeadTailLoadBalancer(length, ranks, "cpu")._generate_indices()[0]
    own = places.view(ranks, -1)[rank]
    q, k, v, dy = (tokens(length, part)[:, :, own].contiguous() for part in range(4))
    group, aten = dist.group.WORLD, torch.ops.aten
    forward = aten._scaled_dot_product_flash_attention_for_cpu
    y, sums = ring._templated_ring_attention(group, 2, forward, q, k, v, is_causal=True)[:2]
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    options = {"dropout_p": 0.0, "attn_mask": None, "scale": None}
    gradients = ring._templated_ring_attention_backward(
        group, 2, backward, dy, "grad_out", q, k, v, y, sums, True, **options
    )
    torch.save({"own": own, "values": [y, *gradients[:3]]}, f"{folder}/{rank}")
    dist.destroy_process_group()


def attention_of(ranks: int) -> dict[str, object]:
    """The attention of all ranks and its gradients. Shape of each: [T, heads, width]."""
    whole = [torch.zeros(1, HEADS, 4 * ranks, WIDTH) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(attend, args=(ranks, folder), nprocs=ranks, join=True)
        for rank in range(ranks):
            part = torch.load(f"{folder}/{rank}")
            for all_tokens, value in zip(whole, part["values"]):
                all_tokens[:, :, part["own"]] = value
    names = ["y", "dq", "dk", "dv"]
    flat = [[round(x, 6) for x in value[0].transpose(0, 1).flatten().tolist()] for value in whole]
    return {"ranks": ranks, **dict(zip(names, flat))}


def write(path: pathlib.Path, rows: list[dict[str, object]]) -> None:
    path.write_text("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n")


def main() -> None:
    rows = []
    for length, ranks in CASES:
        balancer = _HeadTailLoadBalancer(length, ranks, "cpu")
        rows.append(
            {
                "length": length,
                "ranks": ranks,
                "places": balancer._generate_indices()[0].tolist(),
                "restored": balancer._generate_indices(restore=True)[0].tolist(),
            }
        )
    write(OUTPUT, rows)
    write(GOLDEN / "ring-attention.json", [attention_of(ranks) for ranks in (2, 4)])


if __name__ == "__main__":
    main()
