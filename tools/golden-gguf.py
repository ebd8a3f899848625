"""Records what Python makes of GGUF files: numbers of blocks, logits of small models, and tokens of sentencepiece.

Run from the repository root, with PyTorch 2.15, transformers 5.24, gguf 0.19 and sentencepiece 0.2.3:

    python tools/golden-gguf.py && npx oxfmt packages/models/test/golden/gguf-*.json

It rewrites gguf-blocks.json, gguf-models.json and gguf-spm.json of packages/models/test/golden.
"""

import base64
import importlib.util
import io
import json
import math
import pathlib
import tempfile

import gguf
import numpy
import sentencepiece
import torch
import transformers

spec = importlib.util.spec_from_file_location("golden_models", "tools/golden-models.py")
models = importlib.util.module_from_spec(spec)
spec.loader.exec_module(models)

GOLDEN = pathlib.Path("packages/models/test/golden")
types = gguf.GGMLQuantizationType


def encoded(data):
    return base64.b64encode(data).decode()


def floats(values):
    return encoded(numpy.ascontiguousarray(values).astype("<f4").tobytes())


# The places of numbers of f16 in the bytes of a block.
BLOCKS = {
    types.Q4_0: [0],
    types.Q4_1: [0, 2],
    types.Q5_0: [0],
    types.Q5_1: [0, 2],
    types.Q8_0: [0],
    types.Q4_K: [0, 2],
    types.Q5_K: [0, 2],
    types.Q6_K: [208],
}
# Among them a negative one, one below the normal numbers, and 0.
HALVES = numpy.array([0.037, -1.5, 3e-6, 0, 211.5, -0.0009], dtype="<f2")


def blocks():
    """Random bytes, of which every number of a format is possible."""
    random = numpy.random.default_rng(1)
    results = {}
    for kind, places in BLOCKS.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 3 if elements == 256 else 6
        data = random.integers(0, 256, (count, size), dtype=numpy.uint8)
        for block in range(count):
            for index, place in enumerate(places):
                data[block, place : place + 2] = HALVES[(block + 2 * index) % 6 : (block + 2 * index) % 6 + 1].view(numpy.uint8)
        results[kind.name] = {"bytes": encoded(data.tobytes()), "values": floats(gguf.quants.dequantize(data, kind))}
    return results


WORDS, HIDDEN, LENGTH = 16, 32, 12
COMMON = {
    "vocab_size": WORDS,
    "hidden_size": HIDDEN,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "pad_token_id": None,
}
# llama.cpp's names of the tensors of a block.
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA_NAMES = NAMES | {
    "pre_feedforward_layernorm": "ffn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
KINDS = [types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0]


def llama3_factors(config):
    """As convert_hf_to_gguf.py computes them of rope_scaling."""
    rope = config.rope_parameters
    factors = []
    for index in range(config.head_dim // 2):
        frequency = 1 / rope["rope_theta"] ** (2 * index / config.head_dim)
        length = 2 * math.pi / frequency
        low, high = (rope["original_max_position_embeddings"] / rope[key] for key in ("low_freq_factor", "high_freq_factor"))
        if length < high:
            factors.append(1)
        elif length > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"]
            )
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return numpy.array(factors, dtype=numpy.float32)


def gguf_model(name, model):
    """Writes the weights of a model in blocks, gives it the numbers of these blocks, and records what it computes."""
    config = model.config
    is_gemma = name.startswith("gemma")
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    models.fill(model)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        writer = gguf.GGUFWriter(file.name, name)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        if name == "llama":
            writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
            writer.add_rope_dimension_count(config.head_dim)
            writer.add_tensor("rope_freqs.weight", llama3_factors(config))
        if name == "gemma2":
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        if name == "gemma3":
            rope = config.rope_parameters["full_attention"]
            writer.add_rope_freq_base(rope["rope_theta"])
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        if is_gemma:
            writer.add_sliding_window(config.sliding_window)
        for number, (own, parameter) in enumerate(model.named_parameters()):
            weight = parameter.detach().numpy()
            if own.endswith("norm.weight"):
                kind, stored = types.F32, weight + (1 if is_gemma else 0)
            else:
                kind, stored = KINDS[number % len(KINDS)], weight
                projection = own.split(".")[-2]
                if name == "llama" and projection in heads:
                    pairs = stored.reshape(heads[projection], 2, -1, HIDDEN)
                    stored = pairs.swapaxes(1, 2).reshape(weight.shape)
            data = gguf.quants.quantize(stored, kind) if kind != types.F32 else stored.astype(numpy.float32)
            if kind != types.F32:
                read = gguf.quants.dequantize(data, kind)
                if name == "llama" and own.split(".")[-2] in heads:
                    read = read.reshape(heads[own.split(".")[-2]], -1, 2, HIDDEN).swapaxes(1, 2).reshape(weight.shape)
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(numpy.ascontiguousarray(read)))
            writer.add_tensor(stored_name(own, GEMMA_NAMES if is_gemma else NAMES), data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        content = pathlib.Path(file.name).read_bytes()
    ids = models.tokens("ids", [2, LENGTH]) % WORDS
    with torch.no_grad():
        logits = model(ids).logits
    return {"file": encoded(content), "ids": ids.flatten().tolist(), "logits": floats(logits.numpy())}


def stored_name(own, names):
    outer = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if own in outer:
        return outer[own]
    _, _, layer, *part, _ = own.split(".")
    return f"blk.{layer}.{names['.'.join(part)]}.weight"


def gguf_models():
    llama3 = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    configs = {
        "llama": transformers.LlamaConfig(**COMMON, num_hidden_layers=1, rope_parameters=llama3, tie_word_embeddings=False),
        "gemma2": transformers.Gemma2Config(
            **COMMON, num_hidden_layers=2, sliding_window=5, query_pre_attn_scalar=16, attn_logit_softcapping=20.0,
            final_logit_softcapping=10.0,
        ),
        "gemma3": transformers.Gemma3TextConfig(
            **COMMON, num_hidden_layers=6, sliding_window=5, query_pre_attn_scalar=16,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        ),
    }
    classes = {
        "llama": transformers.LlamaForCausalLM,
        "gemma2": transformers.Gemma2ForCausalLM,
        "gemma3": transformers.Gemma3ForCausalLM,
    }
    results = {}
    for name, config in configs.items():
        config._attn_implementation = "eager"
        results[name] = gguf_model(name, classes[name](config).eval())
    return results


TEXT = """The quick brown fox jumps over the lazy dog. Distributed training shares out the batch over the ranks.
A tokenizer divides a text into pieces; pieces that occur often are whole words, and others are letters.
Die Gradienten werden über alle Prozesse gemittelt. Für jeden Schritt gibt es eine Nachricht.
Le réseau apprend à prédire le mot suivant. Les poids sont répartis sur les machines.
for (let i = 0; i < 10; i++) { sum += i * i; } return sum;
0 1 2 3 4 5 6 7 8 9 10 11 12 100 1000 2024 3.14 -5
"""
HARD = [
    "", " ", "  ", "   leading", "trailing   ", "a  b   c    d", "the the the", "\n", "\n\nnew\n lines\n", "\ttabs\tand\ttabs",
    "The quick brown fox", "the quick", " the quick", "Größenwahn über Ärger", "naïve café", "日本語のテキスト", "🙂 👩‍👩‍👧 🇩🇪",
    "a\u0300e\u0301", "ﬁ ﬂ ½ ①", "\u00a0no-break\u2009thin\u3000wide", "\ufeffmark", "\u0085next", "zero\u200bwidth\u200djoin",
    "<s>", "</s>", "<unk>", "<0x41>", "hello <s> there </s>", "<|user|>hi<|user|>", "x<|user|> y", "▁lower one eighth▁block",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "trainingtrainingtraining", "1234567890", "3.14159 -2.5e10", "for(let i=0;i<10;i++){}",
    "ᚠᛇᚻ", "مرحبا بالعالم", "नमस्ते", "\U0001F9FF\U00010348", "word " * 12, "https://example.org/a?b=c&d=%20e", "\x00\x01\x7f",
]


def spm():
    """A vocabulary of sentencepiece as Llama has it, in the metadata of a file, and the tokens of its own library."""
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.split("\n") * 4), model_writer=trained, vocab_size=480, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=["<|user|>"],
        allow_whitespace_only_pieces=True, minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    count = processor.vocab_size()

    def kind(index):
        if processor.is_unknown(index):
            return gguf.TokenType.UNKNOWN
        if processor.is_control(index):
            return gguf.TokenType.CONTROL
        if processor.is_byte(index):
            return gguf.TokenType.BYTE
        return gguf.TokenType.USER_DEFINED if processor.id_to_piece(index) == "<|user|>" else gguf.TokenType.NORMAL

    def content_of(architecture, file):
        writer = gguf.GGUFWriter(file.name, architecture)
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([processor.id_to_piece(index) for index in range(count)])
        writer.add_token_scores([processor.get_score(index) for index in range(count)])
        writer.add_token_types([kind(index) for index in range(count)])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return pathlib.Path(file.name).read_bytes()

    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        # For this architecture, transformers puts a blank before each text, also before one that begins with a blank.
        content_of("phi3", file)
        path = pathlib.Path(file.name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        content = content_of("llama", file)
    cases = []
    for text in HARD:
        ids = tokenizer.encode(text, add_special_tokens=False)
        own = processor.encode(text)
        # Sentencepiece finds no control tokens in texts, and puts a blank before a text that begins with an added one.
        assert ids == own or any(token in text for token in ["<s>", "</s>", "<unk>", "<|user|>"]), text
        cases.append({"text": text, "ids": ids, "decoded": processor.decode(own)})
    return {"file": encoded(content), "cases": cases}


def main():
    for name, contents in {"blocks": blocks(), "models": gguf_models(), "spm": spm()}.items():
        path = GOLDEN / f"gguf-{name}.json"
        path.write_text(json.dumps(contents, indent=1) + "\n")
        print(path, path.stat().st_size, "bytes")


main()
