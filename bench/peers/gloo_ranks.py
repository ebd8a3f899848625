"""Ranks over gloo on processes of this host, which answer the lines of stdin together."""

import json
import queue
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import multiprocessing

from gpt_model import blas_name


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def timed_steps(steps, train):
    """The milliseconds of each of this rank's steps, between two barriers of all ranks, and the losses that `train` returns."""
    ms, losses = [], []
    dist.barrier()
    for _ in range(steps):
        start = time.perf_counter()
        losses.append(train())
        ms.append((time.perf_counter() - start) * 1000)
    start = time.perf_counter()
    dist.barrier()
    ms[-1] += (time.perf_counter() - start) * 1000
    return {"ms": ms, "losses": losses}


def serve(make_answer, rank, size, port, requests, answers, arguments, threads):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    store = dist.TCPStore("127.0.0.1", port, size, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    answer = make_answer(rank, size, *arguments)
    while (request := requests.get()) is not None:
        answers.put((rank, answer(request)))
    dist.destroy_process_group()


def next_answer(answers, ranks):
    while True:
        try:
            return answers.get(timeout=1)
        except queue.Empty:
            if any(rank.exitcode for rank in ranks):
                sys.exit("a rank ended before it answered")


def answer_lines(make_answer, size, arguments=(), combine=lambda answers: answers[0], threads=1):
    """Writes a line about the ranks, and then one for each line of stdin: what `combine` makes of the answers of all ranks.

    `make_answer(rank, size, *arguments)`, a function of a module, returns on each rank the function that answers a request.
    """
    context = multiprocessing.get_context("spawn")
    port = free_port()
    requests = [context.Queue() for _ in range(size)]
    answers = context.Queue()
    ranks = [
        context.Process(target=serve, args=(make_answer, r, size, port, requests[r], answers, arguments, threads), daemon=True)
        for r in range(size)
    ]
    for rank in ranks:
        rank.start()
    about = {"torch": torch.__version__, "threads": threads, "ranks": size, "backend": "gloo", "blas": blas_name()}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        for each in requests:
            each.put(json.loads(line))
        of_ranks = dict(next_answer(answers, ranks) for _ in ranks)
        print(json.dumps(combine([of_ranks[rank] for rank in range(size)])), flush=True)
    for each in requests:
        each.put(None)
    for rank in ranks:
        rank.join()
