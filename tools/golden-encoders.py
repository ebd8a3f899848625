"""Records what transformers computes of small encoders and image models: outputs, losses, gradients and training steps.

Weights and inputs follow from the formulas of golden-models.py, which packages/models/test/golden/formulas.ts repeats, so
only results are kept. Names are those of the files that transformers writes.

Run from the repository root, with PyTorch 2.15 and transformers 5.24:

    python tools/golden-encoders.py && npx oxfmt packages/models/test/golden/encoders.json
"""

import json
import pathlib
import re
import runpy
import tempfile

import torch
import transformers
from safetensors import safe_open

shared = runpy.run_path("tools/golden-models.py")
uniform, tokens, short, summary = (shared[name] for name in ["uniform", "tokens", "short", "summary"])
ROWS, LENGTH, LABELS, STEPS = 4, 12, 3, 5

TEXT = dict(
    vocab_size=shared["VOCABULARY"], hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
    max_position_embeddings=LENGTH + 2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)
IMAGE = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_labels=LABELS)
RESNET = dict(num_channels=3, embedding_size=4, hidden_sizes=[8, 16], depths=[1, 2], num_labels=LABELS)


def file_name(name):
    """The name that a parameter has in a file. That of a ViT is another one in memory."""
    name = re.sub(r"(^|vit\.)layers\.(\d+)\.", r"\1encoder.layer.\2.", name)
    for memory, file in {
        "attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key",
        "attention.v_proj": "attention.attention.value", "attention.o_proj": "attention.output.dense",
        "mlp.fc1": "intermediate.dense", "mlp.fc2": "output.dense",
    }.items():
        name = name.replace(memory, file)
    return name


def text_inputs(pad):
    """Rows of which two end with padding."""
    ids = 5 + tokens("ids", (ROWS, LENGTH)) % (shared["VOCABULARY"] - 5)
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    mask[3, 5:] = 0
    ids[mask == 0] = pad
    return dict(input_ids=ids, attention_mask=mask)


def images(size):
    return dict(pixel_values=2 * torch.from_numpy(uniform("pixels", ROWS * 3 * size * size)).view(ROWS, 3, size, size))


def cases():
    t = transformers
    bert, roberta = text_inputs(0), text_inputs(1)
    both = dict(bert, token_type_ids=tokens("types", (ROWS, LENGTH)) % 2)
    rows = torch.tensor([0, 2, 1, 2])
    each = tokens("labels", (ROWS, LENGTH)) % LABELS
    each[bert["attention_mask"] == 0] = -100
    # A label for every third token that is no padding.
    is_hidden = (torch.arange(LENGTH) % 3 == 0) & (bert["attention_mask"] == 1)
    hidden = torch.where(is_hidden, bert["input_ids"], -100)
    three = t.BertConfig(**TEXT, num_labels=LABELS)
    yield "BERT", t.BertModel(t.BertConfig(**TEXT)), both, None
    yield "BERT as a masked language model", t.BertForMaskedLM(t.BertConfig(**TEXT)), both, hidden
    own = dict(TEXT, tie_word_embeddings=False)
    yield "BERT with a head of its own as a masked language model", t.BertForMaskedLM(t.BertConfig(**own)), both, hidden
    yield "BERT for rows", t.BertForSequenceClassification(three), both, rows
    yield "BERT for numbers", t.BertForSequenceClassification(t.BertConfig(**TEXT, num_labels=1)), both, rows.float()
    several = t.BertConfig(**TEXT, num_labels=LABELS, problem_type="multi_label_classification")
    yield "BERT for several labels of a row", t.BertForSequenceClassification(several), both, torch.eye(3)[rows]
    yield "BERT for tokens", t.BertForTokenClassification(three), both, each
    # The last answer begins in the row and ends beyond it.
    answers = torch.tensor([[1, 3], [0, 0], [4, 4], [2, LENGTH]])
    yield "BERT for answers", t.BertForQuestionAnswering(t.BertConfig(**TEXT)), both, answers
    settings = dict(TEXT, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=LABELS)
    yield "RoBERTa", t.RobertaModel(t.RobertaConfig(**settings)), roberta, None
    yield "RoBERTa as a masked language model", t.RobertaForMaskedLM(t.RobertaConfig(**settings)), roberta, hidden
    own = dict(settings, tie_word_embeddings=False)
    yield "RoBERTa with a head of its own as a masked language model", t.RobertaForMaskedLM(t.RobertaConfig(**own)), roberta, hidden
    yield "RoBERTa for rows", t.RobertaForSequenceClassification(t.RobertaConfig(**settings)), roberta, rows
    yield "RoBERTa for tokens", t.RobertaForTokenClassification(t.RobertaConfig(**settings)), roberta, each
    two = {key: value for key, value in settings.items() if key != "num_labels"}
    yield "RoBERTa for answers", t.RobertaForQuestionAnswering(t.RobertaConfig(**two)), roberta, answers
    small = t.ViTConfig(**IMAGE, image_size=8, patch_size=4)
    wide = t.ViTConfig(**IMAGE, image_size=[8, 8], patch_size=[4, 2], qkv_bias=False, pooler_output_size=5, pooler_act="gelu")
    yield "ViT", t.ViTModel(small), images(8), None
    yield "ViT with a pooler of its own", t.ViTModel(wide), images(8), None
    yield "ViT for images", t.ViTForImageClassification(small), images(8), rows
    basic = t.ResNetConfig(**RESNET, layer_type="basic", downsample_in_first_stage=True)
    yield "ResNet of basic layers", t.ResNetForImageClassification(basic), images(32), rows
    yield "ResNet of bottlenecks", t.ResNetForImageClassification(t.ResNetConfig(**RESNET)), images(32), rows
    first = t.ResNetConfig(**RESNET, downsample_in_bottleneck=True)
    yield "ResNet with the stride first", t.ResNetForImageClassification(first), images(32), rows


def saved(model):
    """The contents of config.json, and the names in the file of weights."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        with safe_open(f"{folder}/model.safetensors", "pt") as file:
            return config, set(file.keys())


def run(name, model, inputs, labels):
    config, names = saved(model)
    state = {file_name(key) if "ViT" in name else key: value for key, value in model.state_dict(keep_vars=True).items()}
    parameters = {key: value for key, value in state.items() if key in names and isinstance(value, torch.nn.Parameter)}
    assert set(state) >= names
    with torch.no_grad():
        if "classifier.1.bias" in parameters:
            parameters["classifier.1.bias"].zero_()
        for key, parameter in parameters.items():
            values = torch.from_numpy(uniform(key, parameter.numel())).view(parameter.shape)
            parameter.copy_(values * 0.4 if parameter.dim() > 1 else parameter + values * 0.2)
    model.eval()
    result = {"name": name, "config": config, "names": sorted(names)}
    with torch.no_grad():
        output = model(**inputs)
    if labels is None:
        return {
            **result,
            "output": short(summary("output", output.last_hidden_state)),
            "pooled": short(output.pooler_output.flatten()),
        }
    is_answers = name.endswith("for answers")
    logits = lambda output: torch.stack([output.start_logits, output.end_logits], -1) if is_answers else output.logits
    targets = dict(start_positions=labels[:, 0], end_positions=labels[:, 1]) if is_answers else dict(labels=labels)
    result["output"] = short(summary("output", logits(output)))
    model.train()
    # Adam would enlarge the rounding errors of gradients that are near 0: of weights before a batch norm, and of a bias
    # that is added to all logits of a softmax.
    has_zeros = name.startswith("ResNet") or is_answers
    settings = dict(lr=0.05, momentum=0.9) if has_zeros else dict(lr=1e-3, weight_decay=0.01)
    optimizer = (torch.optim.SGD if has_zeros else torch.optim.AdamW)(model.parameters(), **settings)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(**inputs, **targets).loss
        loss.backward()
        if step == 0:
            # A head that is not tied has a bias that nothing uses.
            used = {key: parameter for key, parameter in parameters.items() if parameter.grad is not None}
            gradients = {key: short(summary(key, parameter.grad)) for key, parameter in used.items()}
        optimizer.step()
        losses.append(loss)
    running = {key: short(summary(key, state[key])) for key in sorted(names) if "running" in key}
    model.eval()
    trained = logits(model(**inputs))
    return {**result, "gradients": gradients, "losses": short(losses), "running": running, "trained": short(summary("output", trained))}


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    results = []
    for case in cases():
        results.append(run(*case))
        print(results[-1]["name"], results[-1].get("losses"), flush=True)
    target = pathlib.Path("packages/models/test/golden/encoders.json")
    target.write_text(json.dumps(results))
    print(target.stat().st_size, "bytes")
