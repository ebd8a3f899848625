"""Products of matrices in PyTorch on one thread, as a process that is told when to run.

Reads one JSON object per line from stdin: {"a": shape, "b": shape, "transposeA": bool, "transposeB": bool, "dtype": "f32" | "bf16",
"runs": n}. Answers each with one line: {"ms": the best of the runs}. The first line it writes describes itself. Ends with stdin.
"""

import json
import sys
import time

import torch

from gpt_model import blas_name

torch.set_num_threads(1)
torch.set_num_interop_threads(1)

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def measure(request):
    dtype = DTYPES[request["dtype"]]
    a, b = (torch.rand(request[name]).sub(0.5).to(dtype) for name in ("a", "b"))
    left = a.transpose(-1, -2) if request["transposeA"] else a
    right = b.transpose(-1, -2) if request["transposeB"] else b
    best = float("inf")
    with torch.inference_mode():
        for _ in range(request["runs"]):
            start = time.perf_counter()
            torch.matmul(left, right)
            best = min(best, time.perf_counter() - start)
    return {"ms": best * 1000}


def main():
    about = {"torch": torch.__version__, "threads": torch.get_num_threads(), "blas": blas_name()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
