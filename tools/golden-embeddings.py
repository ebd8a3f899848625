"""Records the folder of a small BERT with random weights, as transformers writes it, and the vectors of texts by it:
the means of their tokens with length 1, as sentence-transformers makes them without a folder of its own, and the first
token's.

Run from the repository root, with PyTorch 2.15 and transformers 5.24:

    python tools/golden-embeddings.py && npx oxfmt packages/shardwise/test/golden/embeddings.json
"""

import base64
import json
import pathlib
import string
import tempfile

import torch
import transformers

TEXTS = ["a", "cab", "a bad cab", "Bad ads add a dab of gag.", "q z j q z j q z j q z j"]

letters = string.ascii_lowercase
vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{each}" for each in letters[:17])]
torch.manual_seed(3)
config = transformers.BertConfig(
    vocab_size=len(vocabulary), hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=24, initializer_range=0.5,
)
model = transformers.BertModel(config).eval()

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder)
    tokenizer = transformers.BertTokenizerFast(vocab={each: number for number, each in enumerate(vocabulary)})
    tokenizer.save_pretrained(path)
    model.save_pretrained(path)
    files = {each.name: each.read_bytes() for each in sorted(path.iterdir())}

rows = []
for text in TEXTS:
    encoded = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**encoded).last_hidden_state[0]
    mean = torch.nn.functional.normalize(hidden.mean(0), dim=0)
    rows.append(dict(
        text=text, tokens=encoded["input_ids"][0].tolist(),
        mean=[round(float(value), 7) for value in mean], first=[round(float(value), 7) for value in hidden[0]],
    ))

golden = dict(
    files={
        name: base64.b64encode(content).decode() if name.endswith(".safetensors") else json.loads(content)
        for name, content in files.items()
    },
    rows=rows,
)
pathlib.Path("packages/shardwise/test/golden/embeddings.json").write_text(json.dumps(golden) + "\n")
