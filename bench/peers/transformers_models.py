"""Models of Python's transformers, which train and generate when they are told to, on RANKS processes of THREADS threads.

Arguments: FOLDER RANKS THREADS ROWS LENGTH, where the folder has the config and the weights, and each rank has its share of the rows
of a batch. Reads one JSON object per line from stdin, and answers each with one line:

- {"steps": n, "precision": "f32" | "bf16"} trains with the fused AdamW, and several ranks by DistributedDataParallel over gloo. bf16 is
  torch.autocast. Answer: {"ms": [milliseconds of each step], "cpuMs": [those of all threads of rank 0 on cores], "losses": [...]}.
- {"rows": n, "tokens": n} continues prompts greedily with a cache. Answer: {"ms": [...], "cpuMs": [...], "tokens": [[...]]}.

The first line it writes describes itself. Ends with stdin.
"""

import sys
import time

import torch
import transformers
from torch.nn.parallel import DistributedDataParallel

from gloo_ranks import answer_lines, timed_steps

MASK_TOKEN = 103


def batch_of(config, step, rank, rows, length):
    """The share of a rank in the batch of a step, by the rule of bench/models/batches.ts."""
    row = torch.arange(rows).unsqueeze(1) + rows * rank
    column = torch.arange(length).unsqueeze(0)
    ids = (row * 3109 + step * 1709 + column * (311 + 7 * (row % 5))) % config.vocab_size
    if config.model_type == "gpt2":
        return ids, ids
    hidden = (column + row) % 7 == 3
    return torch.where(hidden, MASK_TOKEN, ids), torch.where(hidden, ids, -100)


class Models:
    def __init__(self, rank, size, folder, rows, length):
        architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
        self.model = getattr(transformers, architecture).from_pretrained(folder, dtype=torch.float32)
        self.rank, self.rows, self.length = rank, rows // size, length
        self.parallel = DistributedDataParallel(self.model) if size > 1 else self.model
        self.optimizer = None
        self.step = 0

    def answer(self, request):
        if "steps" in request:
            precision = torch.autocast("cpu", dtype=torch.bfloat16, enabled=request["precision"] == "bf16")
            self.model.train()
            self.optimizer = self.optimizer or torch.optim.AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
            start = time.process_time()
            times = timed_steps(request["steps"], lambda: self.train(precision))
            return {**times, "cpuMs": [(time.process_time() - start) * 1000 / request["steps"]]}
        self.model.eval()
        return self.generate(request["rows"], request["tokens"])

    def train(self, precision):
        ids, labels = batch_of(self.model.config, self.step, self.rank, self.rows, self.length)
        self.step += 1
        self.optimizer.zero_grad(set_to_none=True)
        with precision:
            loss = self.parallel(input_ids=ids, labels=labels).loss
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def generate(self, rows, tokens):
        prompts, _ = batch_of(self.model.config, 0, 0, rows, self.length)
        settings = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0, "use_cache": True}
        start, cpu_start = time.perf_counter(), time.process_time()
        texts = self.model.generate(prompts, attention_mask=torch.ones_like(prompts), **settings)
        ms, cpu_ms = time.perf_counter() - start, time.process_time() - cpu_start
        return {"ms": [ms * 1000], "cpuMs": [cpu_ms * 1000], "tokens": texts.tolist()}


def make_answer(rank, size, folder, rows, length):
    return Models(rank, size, folder, rows, length).answer


if __name__ == "__main__":
    folder, ranks, threads, rows, length = sys.argv[1], *map(int, sys.argv[2:6])
    answer_lines(make_answer, ranks, (folder, rows, length), threads=threads)
