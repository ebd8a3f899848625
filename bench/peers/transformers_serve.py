"""Texts that Python's transformers makes of a GGUF file when it is told to.

Arguments: FILE THREADS. Reads one JSON object per line from stdin, {"prompts": [[...]], "generated": n, "together": true or false}, and
answers each with one line: {"ms": m, "cpuMs": those of all threads on cores, "tokens": [[...]]}. Prompts have equal lengths. `together`
is one batch with a cache, else each has its turn. The first line it writes describes itself. Ends with stdin.
"""

import json
import pathlib
import sys
import time

import torch
import transformers


def main(file, threads):
    torch.set_num_threads(threads)
    place = pathlib.Path(file)
    model = transformers.AutoModelForCausalLM.from_pretrained(place.parent, gguf_file=place.name, dtype=torch.float32).eval()
    print(json.dumps({"about": f"transformers {transformers.__version__}, PyTorch {torch.__version__}"}), flush=True)

    def texts_of(prompts, generated):
        ids = torch.tensor(prompts)
        settings = {"max_new_tokens": generated, "min_new_tokens": generated, "do_sample": False, "pad_token_id": 0}
        texts = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        return texts[:, ids.shape[1]:].tolist()

    for line in sys.stdin:
        request = json.loads(line)
        prompts = request["prompts"]
        batches = [prompts] if request["together"] else [[prompt] for prompt in prompts]
        start, cpu_start = time.perf_counter(), time.process_time()
        tokens = [text for batch in batches for text in texts_of(batch, request["generated"])]
        ms, cpu_ms = (time.perf_counter() - start) * 1000, (time.process_time() - cpu_start) * 1000
        print(json.dumps({"ms": ms, "cpuMs": cpu_ms, "tokens": tokens}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
