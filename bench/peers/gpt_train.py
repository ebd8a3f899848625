"""PyTorch eager training of the benchmark GPT on one thread, as a process that is told when to run.

Reads one JSON object per line from stdin: {"steps": n, "optimizer": "default" | "fused" | "compiled", "precision": "f32" | "bf16"},
where bf16 is torch.autocast, and "compiled" is torch.compile of the model, with the fused optimizer. Answers each with one line:
{"ms": [milliseconds of each step], "cpuMs": [the process's time on a core in each step], "losses": [...]}. The first line it writes describes itself. Ends with stdin.
"""

import json
import sys
import time

import torch

from gpt_model import GPT, blas_name, make_optimizer, train_step

torch.set_num_threads(1)
torch.set_num_interop_threads(1)


class Training:
    def __init__(self, optimizer):
        torch.manual_seed(0)
        model = GPT()
        self.optimizer = make_optimizer(model, None if optimizer == "default" else True)
        self.parameters = sum(p.numel() for p in model.parameters())
        # Compiled at the first call.
        self.model = torch.compile(model) if optimizer == "compiled" else model
        self.step = 0

    def run(self, steps, precision):
        ms, cpu_ms, losses = [], [], []
        for _ in range(steps):
            start, cpu_start = time.perf_counter(), time.process_time()
            losses.append(train_step(self.model, self.optimizer, self.step, precision=precision))
            ms.append((time.perf_counter() - start) * 1000)
            cpu_ms.append((time.process_time() - cpu_start) * 1000)
            self.step += 1
        return {"ms": ms, "cpuMs": cpu_ms, "losses": losses}


def main():
    trainings = {optimizer: Training(optimizer) for optimizer in ["default", "fused", "compiled"]}
    about = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "blas": blas_name(),
        "parameters": trainings["default"].parameters,
    }
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(trainings[request["optimizer"]].run(request["steps"], request["precision"])), flush=True)


if __name__ == "__main__":
    main()
