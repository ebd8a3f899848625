"""PyTorch DistributedDataParallel over gloo with the benchmark GPT: two processes of one thread each.

Reads one JSON object per line from stdin: {"steps": n, "optimizer": "default" | "fused", "mode": "ddp" | "fsdp" | "alone",
"precision": "f32" | "bf16"}, where bf16 is torch.autocast,
"fsdp" is fully_shard of each block and of the whole, and "alone" trains the same two ranks without any communication.
The arguments LAYERS WIDTH HEADS BATCH are those of another model than the benchmarks' usual one, and of each rank's batch. Answers each with one line: {"ms": [milliseconds of each step
of rank 0, between two barriers of all ranks], "losses": [rank 0's]}. The first line it writes describes itself.
"""

import json
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from gpt_model import BATCH, GPT, blas_name, make_optimizer, train_step

WORLD_SIZE = 2


class Training:
    def __init__(self, rank, mode, fused, sizes, batch):
        torch.manual_seed(0)
        model = GPT(**sizes)
        self.rank = rank
        self.batch = batch
        self.model = DistributedDataParallel(model) if mode == "ddp" else model
        if mode == "fsdp":
            mesh = init_device_mesh("cpu", (WORLD_SIZE,))
            for block in model.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.optimizer = make_optimizer(model, fused)
        self.step = 0

    def run(self, steps, precision):
        ms, losses = [], []
        dist.barrier()
        for _ in range(steps):
            start = time.perf_counter()
            losses.append(train_step(self.model, self.optimizer, self.step, self.rank, self.batch, precision))
            ms.append((time.perf_counter() - start) * 1000)
            self.step += 1
        start = time.perf_counter()
        dist.barrier()
        ms[-1] += (time.perf_counter() - start) * 1000
        return {"ms": ms, "losses": losses}


def serve(rank, port, requests, answers, sizes, batch):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    store = dist.TCPStore("127.0.0.1", port, WORLD_SIZE, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD_SIZE)
    trainings = {}
    while (request := requests.get()) is not None:
        key = (request["mode"], request["optimizer"])
        if key not in trainings:
            trainings[key] = Training(rank, key[0], True if key[1] == "fused" else None, sizes, batch)
        answer = trainings[key].run(request["steps"], request["precision"])
        if rank == 0:
            answers.put(answer)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    context = multiprocessing.get_context("spawn")
    port = free_port()
    requests = [context.Queue() for _ in range(WORLD_SIZE)]
    answers = context.Queue()
    sizes = dict(zip(("layers", "width", "heads"), map(int, sys.argv[1:4])))
    batch = int(sys.argv[4]) if len(sys.argv) > 4 else BATCH
    ranks = [
        context.Process(target=serve, args=(r, port, requests[r], answers, sizes, batch), daemon=True) for r in range(WORLD_SIZE)
    ]
    for rank in ranks:
        rank.start()
    about = {"torch": torch.__version__, "threads": 1, "ranks": WORLD_SIZE, "backend": "gloo", "blas": blas_name()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        for queue in requests:
            queue.put(json.loads(line))
        print(json.dumps(answers.get()), flush=True)
    for queue in requests:
        queue.put(None)
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
