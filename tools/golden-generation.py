"""Records what transformers generates with small models, and what its logits processors make of scores.

Weights and tokens follow from the formulas of golden-models.py, which packages/models/test/golden/formulas.ts repeats.

Run from the repository root, with PyTorch 2.15 and transformers 5.24:

    python tools/golden-generation.py && npx oxfmt packages/models/test/golden/generation.json
"""

import importlib.util
import json
import pathlib

import torch
import transformers
from transformers.generation import logits_process

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

LENGTHS = [3, 9, 5]
NEW, BEAM_NEW = 40, 12


def prompts():
    return [models.tokens(f"prompt {row}", (1, length))[0].tolist() for row, length in enumerate(LENGTHS)]


def padded(rows):
    """Rows of one length, padded on the left, and their mask."""
    most = max(map(len, rows))
    ids = torch.tensor([[0] * (most - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (most - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def build(case):
    torch.manual_seed(0)
    model = case["class"](case["config"])
    model.config._attn_implementation = "eager"
    models.fill(model)
    model.generation_config = transformers.GenerationConfig(pad_token_id=0)
    return model.eval()


def added(model, rows, **options):
    """The new tokens of each row, without those after its end."""
    ids, mask = padded(rows)
    eos = options.pop("eos", None)
    result = model.generate(ids, attention_mask=mask, eos_token_id=eos, **options)
    texts = []
    for row in result[:, ids.shape[1] :].tolist():
        end = next((at + 1 for at, token in enumerate(row) if token == eos), len(row))
        texts.append(row[:end])
    return texts


def run(case):
    model = build(case)
    rows = prompts()
    greedy = added(model, rows, max_new_tokens=NEW, do_sample=False)
    # A token that greedy text has, so that rows end at different places.
    eos = greedy[1][6]
    return {
        "name": case["name"],
        "architecture": type(model).__name__,
        "config": json.loads(case["config"].to_json_string()),
        "greedy": greedy,
        "eos": eos,
        "greedyWithEos": added(model, rows, max_new_tokens=NEW, do_sample=False, eos=eos),
        "penalized": [added(model, [row], max_new_tokens=10, do_sample=False, repetition_penalty=1.7)[0] for row in rows],
        "beams": [
            added(model, [row], max_new_tokens=BEAM_NEW, num_beams=count, do_sample=False, eos=eos, length_penalty=penalty)[0]
            for row in rows
            for count, penalty in [(2, 1.0), (4, 0.3)]
        ],
        # The two best rows of each prompt.
        "earlyBeams": [
            text
            for row in rows
            for text in added(
                model,
                [row],
                max_new_tokens=BEAM_NEW,
                num_beams=3,
                num_return_sequences=2,
                do_sample=False,
                eos=eos,
                length_penalty=2.0,
                early_stopping=True,
            )
        ],
    }


def processors():
    scores = torch.from_numpy(models.uniform("scores", 96)).reshape(2, 48) * 8
    scores[1, 5] = scores[1, 9]
    ids = torch.tensor([[3, 7, 3, 40], [9, 9, 2, 0]])
    made = {
        "repetitionPenalty": [logits_process.RepetitionPenaltyLogitsProcessor(1.3)],
        "temperature": [logits_process.TemperatureLogitsWarper(0.7)],
        "topK": [logits_process.TopKLogitsWarper(5)],
        "topP": [logits_process.TopPLogitsWarper(0.8)],
        "minP": [logits_process.MinPLogitsWarper(0.2)],
        "all": [
            logits_process.RepetitionPenaltyLogitsProcessor(1.3),
            logits_process.TemperatureLogitsWarper(1.4),
            logits_process.TopKLogitsWarper(20),
            logits_process.TopPLogitsWarper(0.9),
            logits_process.MinPLogitsWarper(0.1),
        ],
    }
    results = {}
    for name, chain in made.items():
        current = scores.clone()
        for processor in chain:
            current = processor(ids, current)
        results[name] = models.short(current.flatten())
    return {"ids": ids.tolist(), "results": results}


def cases():
    t = transformers
    gpt2 = t.GPT2Config(vocab_size=48, n_positions=64, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=None)
    small = {**models.small, "eos_token_id": None}
    yield {"name": "GPT-2", "class": t.GPT2LMHeadModel, "config": gpt2}
    yield {"name": "Llama", "class": t.LlamaForCausalLM, "config": t.LlamaConfig(**small)}
    yield {"name": "Mistral with a window", "class": t.MistralForCausalLM, "config": t.MistralConfig(**small, sliding_window=6)}


if __name__ == "__main__":
    results = {"prompts": prompts(), "models": [run(case) for case in cases()], "processors": processors()}
    target = pathlib.Path("packages/models/test/golden/generation.json")
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes")
