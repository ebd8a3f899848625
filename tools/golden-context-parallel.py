"""Records which tokens PyTorch's context parallelism gives each rank.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-context-parallel.py

It rewrites packages/strategies/test/golden/context-parallel.json: for each length and number of ranks, the places of the
tokens in the order of the ranks, and where each place of the sequence lies in that order. PyTorch's `context_parallel` has no
attention on the CPU (`_scaled_dot_product_flash_attention_for_cpu` has no sharding strategy), so its results are not recorded. Its
ring alone (`_templated_ring_attention` and its backward pass, called with the kernels of the CPU) does run on gloo where the rotation
is `allgather`: on two ranks it gave the attention and the gradients of the whole sequence to 3e-7.
"""

import json
import pathlib

from torch.distributed.tensor.experimental._context_parallel._load_balancer import (
    _HeadTailLoadBalancer,
)

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/context-parallel.json"
CASES = [(8, 2), (16, 2), (12, 3), (8, 4), (32, 4), (20, 5)]


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
    OUTPUT.write_text("[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n")


main()
