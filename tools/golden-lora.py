"""Records what peft computes of small models with adapters, and the files that it saves.

Weights and tokens follow from the formulas of golden-models.py, which packages/models/test/golden/formulas.ts repeats.

Run from the repository root, with PyTorch 2.15, transformers 5.24 and peft 0.21:

    python tools/golden-lora.py && npx oxfmt packages/models/test/golden/lora.json
"""

import base64
import importlib.util
import json
import pathlib
import tempfile

import peft
import torch
import transformers

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

ROWS, LENGTH, STEPS = 2, 12, 5


def file_name(name):
    """The name of an adapter's parameter in adapter_model.safetensors, without the prefix."""
    own = name.removeprefix("base_model.model.").replace(".default", "").replace("modules_to_save.", "")
    return own.removesuffix(".weight") if own.endswith("lora_magnitude_vector.weight") else own


def fill_adapters(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" not in name:
                continue
            values = torch.from_numpy(models.uniform(file_name(name), parameter.numel())).reshape(parameter.shape)
            parameter.copy_(values * 0.4 if parameter.dim() > 1 else parameter + values * 0.2)


def run(case):
    torch.manual_seed(0)
    base = case["class"](case["config"])
    base.config._attn_implementation = "eager"
    models.fill(base)
    model = peft.get_peft_model(base, peft.LoraConfig(**case["lora"]))
    fill_adapters(model)
    model.eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = pathlib.Path(folder)
        adapter_config = json.loads((files / "adapter_config.json").read_text())
        tensors = base64.b64encode((files / "adapter_model.safetensors").read_bytes()).decode()
    ids = models.tokens("ids", (ROWS, LENGTH))
    output = model(input_ids=ids, labels=ids, use_cache=False)
    output.loss.backward()
    trained = {file_name(name): p for name, p in model.named_parameters() if p.requires_grad}
    gradients = {name: models.short(models.summary(name, p.grad)) for name, p in trained.items()}
    model.zero_grad()
    model.merge_adapter()
    merged = model(input_ids=ids, use_cache=False).logits.detach()
    model.unmerge_adapter()
    optimizer = torch.optim.AdamW(trained.values(), lr=1e-2, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        batch = models.tokens(f"step {step}", (ROWS, LENGTH))
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return {
        "name": case["name"],
        "architecture": type(base).__name__,
        "config": json.loads(case["config"].to_json_string()),
        "lastLogits": models.short(output.logits.detach()[:, -1].flatten()),
        "merged": models.short(models.summary("logits", merged)),
        "logits": models.short(models.summary("logits", output.logits)),
        "loss": float(f"{output.loss.item():.7g}"),
        "gradients": gradients,
        "losses": models.short(losses),
        "adapterConfig": adapter_config,
        "adapterModel": tensors,
    }


def cases():
    t = transformers
    gpt2 = {
        "class": t.GPT2LMHeadModel,
        "config": t.GPT2Config(
            vocab_size=48, n_positions=32, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1
        ),
    }
    tied = {
        "class": t.LlamaForCausalLM,
        "config": t.LlamaConfig(**{**models.small, "tie_word_embeddings": True, "attention_bias": True}),
    }
    untied = {"class": t.LlamaForCausalLM, "config": t.LlamaConfig(**models.small)}
    common = {"task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 6}
    yield {**gpt2, "name": "LoRA of GPT-2", "lora": {**common, "target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True}}
    yield {**gpt2, "name": "DoRA of GPT-2", "lora": {**common, "target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True}}
    yield {**tied, "name": "LoRA of Llama", "lora": {**common, "target_modules": ["q_proj", "v_proj"]}}
    yield {**tied, "name": "rank-stabilised LoRA of all layers of Llama", "lora": {**common, "target_modules": "all-linear", "use_rslora": True}}
    yield {**tied, "name": "DoRA of Llama", "lora": {**common, "target_modules": ["q_proj", "down_proj"], "use_dora": True}}
    yield {**untied, "name": "LoRA of Llama with a head that trains", "lora": {**common, "target_modules": ["up_proj"], "modules_to_save": ["lm_head"]}}


if __name__ == "__main__":
    results = []
    for case in cases():
        results.append(run(case))
        print(case["name"], results[-1]["loss"], flush=True)
    target = pathlib.Path("packages/models/test/golden/lora.json")
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes")
