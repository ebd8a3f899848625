"""Records what transformers computes of small decoders: logits, losses, gradients, training steps and greedy text.

Weights and tokens follow from formulas that packages/models/test/golden/formulas.ts repeats, so only results are kept.

Run from the repository root, with PyTorch 2.15 and transformers 5.24:

    python tools/golden-models.py && npx oxfmt packages/models/test/golden/decoders.json
"""

import json
import math
import pathlib

import numpy
import torch
import transformers

ROWS, LENGTH, VOCABULARY, STEPS, GENERATED = 2, 12, 48, 5, 8


def hash_of(text):
    """FNV-1a."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def uniform(name, count):
    """Numbers in [-0.5, 0.5) that depend on the name and the place: lowbias32 of both."""
    with numpy.errstate(over="ignore"):
        x = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9) + numpy.uint32(hash_of(name))
        x = (x ^ (x >> numpy.uint32(16))) * numpy.uint32(0x7FEB352D)
        x = (x ^ (x >> numpy.uint32(15))) * numpy.uint32(0x846CA68B)
        x = x ^ (x >> numpy.uint32(16))
    return (x.astype(numpy.float64) / 2**32 - 0.5).astype(numpy.float32)


def tokens(name, shape):
    count = math.prod(shape)
    return torch.tensor(((uniform(name, count) + 0.5) * VOCABULARY).astype(numpy.int64) % VOCABULARY).reshape(shape)


def own(name, parameter, read):
    """A parameter by its names in packages/models: those of files, but with the experts of a layer in one tensor.

    There, experts are [E, in, out]. `read` is given each name and shape, and returns or takes a tensor of them.
    """
    if not name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
        return {rename(name): read(rename(name), parameter)}
    prefix = rename(name).rsplit(".", 1)[0]
    turned = parameter.transpose(1, 2)
    if name.endswith("down_proj"):
        return {f"{prefix}.down": read(f"{prefix}.down", turned)}
    gate, up = turned.chunk(2, -1)
    return {f"{prefix}.gate": read(f"{prefix}.gate", gate), f"{prefix}.up": read(f"{prefix}.up", up)}


def rename(name):
    return name.replace(".mlp.gate.weight", ".block_sparse_moe.gate.weight").replace(".mlp.experts", ".block_sparse_moe.experts")


def fill(model):
    """Weights are drawn by their name. Those of norms, which have one dim, stay near 1 (Gemma's near 0)."""
    def draw(name, tensor):
        values = torch.from_numpy(uniform(name, tensor.numel())).reshape(tensor.shape)
        tensor.copy_(values * 0.4 if tensor.dim() > 1 else tensor + values * 0.2)

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            own(name, parameter, draw)


def short(values):
    return " ".join(f"{float(value.detach()):.7g}" for value in values)


def summary(name, values):
    """The norm of a tensor, and its product with numbers that depend on the place."""
    flat = values.detach().double().flatten()
    weights = torch.from_numpy(uniform(f"sum {name}", flat.numel())).double()
    return [flat.norm(), flat @ weights]


def run(case):
    torch.manual_seed(0)
    config = case["config"]
    model = case["class"](config)
    model.config._attn_implementation = "eager"
    fill(model)
    model.eval()
    ids = tokens("ids", (ROWS, case.get("length", LENGTH)))
    labels = ids.clone()
    labels[0, :3] = -100
    output = model(input_ids=ids, labels=labels, use_cache=False)
    logits = output.logits.detach()
    output.loss.backward()
    gradients = {}
    for name, parameter in model.named_parameters():
        gradients |= own(name, parameter.grad, summary)
    padded = padded_loss(model, ids) if case.get("padded") else {}
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    losses = []
    text = greedy(model, ids[:1, :5])
    for step in range(STEPS):
        batch = tokens(f"step {step}", (ROWS, LENGTH))
        optimizer.zero_grad()
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return {
        "name": case["name"],
        "architecture": type(model).__name__,
        "config": json.loads(config.to_json_string()),
        "length": ids.shape[1],
        "lastLogits": short(logits[:, -1].flatten()),
        "logits": short(summary("logits", logits)),
        "loss": float(f"{output.loss.item():.7g}"),
        "gradients": {name: short(values) for name, values in gradients.items()},
        "losses": short(losses),
        "text": text,
        **padded,
    }


@torch.no_grad()
def padded_loss(model, ids):
    """The loss of rows of which the last one ends with padding."""
    mask = torch.ones_like(ids)
    mask[-1, 9:] = 0
    labels = torch.where(mask == 1, ids, -100)
    return {"paddedLoss": float(f"{model(input_ids=ids, attention_mask=mask, labels=labels, use_cache=False).loss.item():.7g}")}


@torch.no_grad()
def greedy(model, ids):
    for _ in range(GENERATED):
        logits = model(input_ids=ids, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
    return ids[0].tolist()


small = dict(
    vocab_size=VOCABULARY,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=None,
    bos_token_id=0,
    eos_token_id=1,
)


def case(name, kind, config):
    return {"name": name, "class": kind, "config": config}


def llama(name, length=LENGTH, **options):
    config = transformers.LlamaConfig(**{**small, **options})
    return {"name": name, "class": transformers.LlamaForCausalLM, "config": config, "length": length}


def rope(kind, **options):
    return {"rope_type": kind, "rope_theta": 100.0, **options}


def cases():
    t = transformers
    yield {
        "name": "GPT-2",
        "class": t.GPT2LMHeadModel,
        "config": t.GPT2Config(
            vocab_size=VOCABULARY, n_positions=32, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1
        ),
    }
    windows = {**small, "sliding_window": 4}
    heads = {**small, "head_dim": 8}
    yield case("Qwen 2", t.Qwen2ForCausalLM, t.Qwen2Config(**small, tie_word_embeddings=True))
    yield case(
        "Qwen 2 with windows",
        t.Qwen2ForCausalLM,
        t.Qwen2Config(**windows, use_sliding_window=True, max_window_layers=1),
    )
    yield case("Qwen 3", t.Qwen3ForCausalLM, t.Qwen3Config(**heads))
    yield case("Mistral", t.MistralForCausalLM, t.MistralConfig(**windows))
    yield case("Mixtral", t.MixtralForCausalLM, t.MixtralConfig(**small, num_local_experts=4))
    balanced = t.MixtralConfig(**small, num_local_experts=4, output_router_logits=True, router_aux_loss_coef=0.5)
    yield {**case("Mixtral with a balance loss", t.MixtralForCausalLM, balanced), "padded": True}
    gemma = {**heads, "query_pre_attn_scalar": 12, "sliding_window": 4, "pad_token_id": 0}
    yield case(
        "Gemma 2",
        t.Gemma2ForCausalLM,
        t.Gemma2Config(**gemma, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    )
    gemma["num_hidden_layers"] = 3
    yield case(
        "Gemma 3",
        t.Gemma3ForCausalLM,
        t.Gemma3TextConfig(
            **gemma,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
            },
        ),
    )
    yield llama("Llama")
    yield llama("Llama with a padding token", pad_token_id=3)
    yield llama("Llama with tied embeddings, biases and wide heads", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=8)
    yield llama("Llama with linear scaling", rope_parameters=rope("linear", factor=2.0))
    yield llama("Llama with dynamic scaling, beyond its length", 20, max_position_embeddings=14, rope_parameters=rope("dynamic", factor=2.0))
    yield llama("Llama with llama3 scaling", head_dim=16, rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))
    yield llama("Llama with yarn scaling", head_dim=16, rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=32))
    yield llama("Llama with yarn scaling and its settings", head_dim=16, rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=16.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=0.3, truncate=False))


if __name__ == "__main__":
    results = []
    for each in cases():
        results.append(run(each))
        print(each["name"], results[-1]["loss"], flush=True)
    target = pathlib.Path("packages/models/test/golden/decoders.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes")
