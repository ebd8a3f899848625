"""Collectives of torch.distributed over gloo on processes of this host, one thread each.

Called with the number of processes. Reads one JSON object per line from stdin: {"operation": "allReduce" | ..., "bytes": n,
"iterations": n} with f32 zeros as data, and answers each with one line: {"seconds": per iteration, of the slowest rank}.
Sizes are those of nccl-tests. An operation that gloo does not have is answered with {"seconds": null}. The first line that
it writes describes itself.
"""

import json
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import multiprocessing


def make_call(operation, size_bytes, rank, size):
    whole = torch.zeros(size_bytes // 4)
    if operation == "allReduce":
        return lambda: dist.all_reduce(whole)
    if operation == "broadcast":
        return lambda: dist.broadcast(whole, 0)
    if operation == "reduce":
        return lambda: dist.reduce(whole, 0)
    if operation == "barrier":
        return dist.barrier
    other = torch.zeros(size_bytes // 4)
    part = torch.zeros(size_bytes // 4 // size)
    if operation == "allGather":
        parts = list(other.chunk(size))
        return lambda: dist.all_gather(parts, part)
    if operation == "reduceScatter":
        return lambda: dist.reduce_scatter_tensor(part, whole)
    if operation == "allToAll":
        return lambda: dist.all_to_all_single(other, whole)
    if operation == "sendRecv":

        def exchange():
            requests = [dist.isend(whole, (rank + 1) % size), dist.irecv(other, (rank - 1) % size)]
            for request in requests:
                request.wait()

        return exchange
    raise ValueError(operation)


def run(job, rank, size):
    try:
        call = make_call(job["operation"], job["bytes"], rank, size)
        call()
    except (RuntimeError, ValueError, NotImplementedError):
        return None
    dist.barrier()
    start = time.perf_counter()
    for _ in range(job["iterations"]):
        call()
    return (time.perf_counter() - start) / job["iterations"]


def serve(rank, size, port, requests, answers):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    while (job := requests.get()) is not None:
        answers.put(run(job, rank, size))
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    size = int(sys.argv[1])
    context = multiprocessing.get_context("spawn")
    port = free_port()
    requests = [context.Queue() for _ in range(size)]
    answers = context.Queue()
    ranks = [
        context.Process(target=serve, args=(rank, size, port, requests[rank], answers), daemon=True)
        for rank in range(size)
    ]
    for rank in ranks:
        rank.start()
    print(json.dumps({"torch": torch.__version__, "backend": "gloo", "ranks": size, "threads": 1}), flush=True)
    for line in sys.stdin:
        for queue in requests:
            queue.put(json.loads(line))
        seconds = [answers.get() for _ in range(size)]
        print(json.dumps({"seconds": None if None in seconds else max(seconds)}), flush=True)
    for queue in requests:
        queue.put(None)
    for rank in ranks:
        rank.join()


if __name__ == "__main__":
    main()
