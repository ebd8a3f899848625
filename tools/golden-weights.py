"""Writes files of torch.save and of llama.cpp's gguf, and what PyTorch and gguf say is in them.

Also opens folders that savePretrained has written, if they are named, with transformers, which must find every tensor.
Prints the sum of the logits of the tokens 1 to 5, to compare with that of the model.

Run from the repository root, with PyTorch 2.15, transformers 5.24 and gguf 0.19:

    python tools/golden-weights.py [FOLDER...] && npx oxfmt packages/models/test/golden
"""

import base64
import io
import json
import pathlib
import sys
import tempfile
from collections import OrderedDict

import gguf
import numpy
import torch
import transformers

GOLDEN = pathlib.Path(__file__).parent.parent / "packages/models/test/golden"


def tensors():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return OrderedDict(
        [
            ("weight", base),
            ("transposed", base.t()),
            ("rows", base[1:3]),
            ("columns", base[:, 2:4]),
            ("repeated", torch.tensor([7.0]).expand(3, 2)),
            ("parameter", torch.nn.Parameter(torch.tensor([1.5, -2.0]))),
            ("half", torch.tensor([1.5, 65504.0], dtype=torch.float16)),
            ("brain", torch.tensor([1.5, -3e38], dtype=torch.bfloat16)),
            ("double", torch.tensor(0.1, dtype=torch.float64)),
            ("long", torch.tensor([-1, 2**40])),
            ("int", torch.tensor([-5], dtype=torch.int32)),
            ("byte", torch.tensor([255], dtype=torch.uint8)),
            ("bool", torch.tensor([True, False])),
            ("empty", torch.zeros(0, 3)),
        ]
    )


def saved(value, legacy=False):
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=not legacy)
    return base64.b64encode(file.getvalue()).decode()


def described(tensor):
    values = tensor.detach().contiguous().flatten().tolist()
    return {"shape": list(tensor.shape), "values": [str(value) if type(value) is int else value for value in values]}


def torch_files():
    state = tensors()
    linear = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(linear.weight, 0.5)
    torch.nn.init.constant_(linear.bias, 0.25)
    training = {
        "epoch": 3,
        "best": 0.5,
        "note": "naïve",
        "model": linear.state_dict(),
        "losses": [1.0, 0.5],
    }
    return {
        "tensors": {name: described(tensor) for name, tensor in state.items()},
        "archive": saved(state),
        "legacy": saved(state, legacy=True),
        "training": saved(training),
        "module": saved(linear),
    }


HIDDEN, HEADS, KEY_HEADS, WORDS = 32, 4, 2, 8


def interleaved(weight, heads):
    """The order of rows that llama.cpp's converter gives queries and keys of Llama."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def gguf_file():
    random = numpy.random.default_rng(0)
    types = gguf.GGMLQuantizationType
    kinds = {
        "token_embd": (types.Q8_0, WORDS, HIDDEN),
        "output_norm": (types.F32, HIDDEN),
        "blk.0.attn_norm": (types.F32, HIDDEN),
        "blk.0.attn_q": (types.Q4_0, HIDDEN, HIDDEN),
        "blk.0.attn_k": (types.F32, KEY_HEADS * HIDDEN // HEADS, HIDDEN),
        "blk.0.attn_v": (types.F16, KEY_HEADS * HIDDEN // HEADS, HIDDEN),
        "blk.0.attn_output": (types.BF16, HIDDEN, HIDDEN),
        "blk.0.ffn_norm": (types.F32, HIDDEN),
        "blk.0.ffn_gate": (types.Q4_1, 2 * HIDDEN, HIDDEN),
        "blk.0.ffn_up": (types.Q4_0, 2 * HIDDEN, HIDDEN),
        "blk.0.ffn_down": (types.Q8_0, HIDDEN, 2 * HIDDEN),
    }
    values = {}
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        writer = gguf.GGUFWriter(file.name, "llama")
        writer.add_block_count(1)
        writer.add_context_length(16)
        writer.add_embedding_length(HIDDEN)
        writer.add_feed_forward_length(2 * HIDDEN)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KEY_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(100000.0)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(["<|end|>", "a", "b", "Ġ", "ab", "Ġa", "c", "<tool>"])
        writer.add_token_types([3, 1, 1, 1, 1, 1, 1, 4])
        writer.add_token_merges(["a b", "Ġ a"])
        writer.add_eos_token_id(0)
        writer.add_chat_template("{{ messages[0].content }}")
        for name, (kind, *shape) in kinds.items():
            weight = random.standard_normal(shape, dtype=numpy.float32)
            stored = weight
            if name.endswith("attn_q"):
                stored = interleaved(weight, HEADS)
            if name.endswith("attn_k"):
                stored = interleaved(weight, KEY_HEADS)
            data = gguf.quants.quantize(stored, kind)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
            read = gguf.quants.dequantize(data, kind)
            if name.endswith("attn_q"):
                # The other way round: half of the rows of a head are the first channels of pairs.
                read = read.reshape(HEADS, HIDDEN // HEADS // 2, 2, HIDDEN).swapaxes(1, 2).reshape(HIDDEN, HIDDEN)
            if name.endswith("attn_k"):
                read = weight
            values[name] = base64.b64encode(numpy.ascontiguousarray(read).astype("<f4").tobytes()).decode()
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        content = pathlib.Path(file.name).read_bytes()
    return {"file": base64.b64encode(content).decode(), "values": values}


def check_folder(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()), info
    total = model.eval()(torch.tensor([[1, 2, 3, 4, 5]])).logits.double().sum().item()
    print(f"{folder}: {type(model).__name__}, logits of 1 to 5 sum to {total:.6f}")


def main():
    for name, contents in {"torch-files": torch_files(), "gguf": gguf_file()}.items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(contents, indent=1) + "\n")
    for folder in sys.argv[1:]:
        check_folder(folder)


main()
