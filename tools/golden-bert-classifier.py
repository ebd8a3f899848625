"""Records the losses of bert-classifier.py for a small BERT and a few texts, and the files that it and the example read.

Run from the repository root, with what bert-classifier.py needs:

    python tools/golden-bert-classifier.py && npx oxfmt packages/models/test/golden/bert-classifier

Weights follow from the formulas of golden-models.py, so they are not kept.
"""

import json
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile

import transformers

TARGET = pathlib.Path("packages/models/test/golden/bert-classifier")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SUBJECTS, VERBS, OBJECTS = ["we", "you", "they", "all ranks"], ["train", "win", "buy", "share"], ["models", "money", "batches", "pills", "layers"]
PIECES = ["we", "you", "they", "all", "rank", "train", "win", "buy", "share", "model", "money", "batch", "pill", "layer", "##s", "##es", "now", "!"]
OPTIONS = ["--max-length", "12", "--batch-size", "4", "--max-steps", "6", "--epochs", "2", "--warmup-steps", "2", "--learning-rate", "1e-2"]


def texts():
    for i in range(40):
        thing = OBJECTS[i * 3 % 5]
        text = f"{SUBJECTS[i % 4]} {VERBS[i * i % 4]} {thing}{' now!' if i % 3 == 0 else ''}"
        yield {"text": text, "label": "spam" if thing in ("money", "pills") else "ham"}


def tokenizer():
    vocabulary = {piece: i for i, piece in enumerate(SPECIAL + PIECES)}
    special = [dict(id=i, content=c, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, c in enumerate(SPECIAL)]
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, {"Sequence": {"id": "A", "type_id": 0}}, last],
            "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, last, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [vocabulary[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary},
    }


def main():
    TARGET.mkdir(parents=True, exist_ok=True)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL + PIECES), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        id2label={0: "ham", 1: "spam"}, label2id={"ham": 0, "spam": 1}, architectures=["BertForSequenceClassification"],
    )
    model = transformers.BertForSequenceClassification(config)
    runpy.run_path("tools/golden-models.py")["fill"](model)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = {"tokenizer.json": tokenizer(), "tokenizer_config.json": {"tokenizer_class": "BertTokenizerFast", **names}}
        for name, content in files.items():
            (pathlib.Path(folder) / name).write_text(json.dumps(content))
            shutil.copy(f"{folder}/{name}", TARGET / name)
        shutil.copy(f"{folder}/config.json", TARGET / "config.json")
        (TARGET / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts()))
        command = [sys.executable, "tools/bert-classifier.py", folder, "--data", TARGET / "texts.jsonl", "--losses", *OPTIONS]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    losses = json.loads(printed.strip().split("\n")[-1])
    (TARGET / "losses.json").write_text(json.dumps({"options": OPTIONS, "losses": losses}))
    print(losses)


main()
