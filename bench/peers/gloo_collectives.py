"""Collectives of torch.distributed over gloo on processes of this host, one thread each.

Called with the number of processes. Reads one JSON object per line from stdin: {"operation": "allReduce" | ..., "bytes": n,
"iterations": n} with f32 zeros as data, and answers each with one line: {"seconds": per iteration, of the slowest rank}.
Sizes are those of nccl-tests. An operation that gloo does not have is answered with {"seconds": null}. The first line that
it writes describes itself.
"""

import sys
import time

import torch
import torch.distributed as dist

from gloo_ranks import answer_lines


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


def make_answer(rank, size):
    return lambda job: run(job, rank, size)


def slowest(seconds):
    return {"seconds": None if None in seconds else max(seconds)}


if __name__ == "__main__":
    answer_lines(make_answer, int(sys.argv[1]), combine=slowest)
