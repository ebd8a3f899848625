"""Trains small tokenizers of every kind, whose files packages/data/test compares with npm `tokenizers`.

Run from the repository root, with `tokenizers` 0.23 and `sentencepiece` 0.2:

    python tools/golden-tokenizers.py

It rewrites packages/data/test/golden/tokenizers/NAME.json, files in the form of `tokenizer.json`:

    word-piece      as BERT's, uncased: BertNormalizer, BertPreTokenizer, [CLS] and [SEP] by a template
    byte-level      as GPT-2's: ByteLevel with its own regular expression
    split-bytes     as Llama 3's: Split by a regular expression, then ByteLevel without one; merges are ignored for
                    words of the vocabulary
    byte-fallback   as Llama 2's: BPE over characters; unknown ones become <0x00> to <0xFF>
    unigram         as T5's: Unigram with a precompiled map of characters and Metaspace

The corpus is the documentation of the repository and sentences in many scripts.
"""

import json
import pathlib
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).parents[1]
OUTPUT = ROOT / "packages/data/test/golden/tokenizers"
SENTENCES = [
    "All human beings are born free and equal in dignity and rights.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "人人生而自由,在尊严和权利上一律平等。",
    "すべての人間は、生まれながらにして自由である。",
    "모든 인간은 태어날 때부터 자유로우며 평등하다.",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng.",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ❤️ 😀",
] * 20
CORPUS = SENTENCES + [
    line for name in ("README.md", "ARCHITECTURE.md", "docs/numerics.md") for line in (ROOT / name).read_text().splitlines()
]
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False))
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("shardwise", normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<|code|>"), AddedToken("  ")])
    return tokenizer


def split_bytes():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_3), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<|begin_of_text|>", "<|eot_id|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[("<|begin_of_text|>", 0)],
            ),
        ]
    )
    return tokenizer


def byte_fallback():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    letters = {letter for line in CORPUS for letter in line if letter.isascii() or letter.isalpha() and ord(letter) < 0x250}
    words = [("▁" + word) for line in CORPUS for word in line.split()]
    trainer = trainers.BpeTrainer(
        vocab_size=1300, special_tokens=special, initial_alphabet=sorted(letters), limit_alphabet=120, show_progress=False
    )
    plain, tokenizer.normalizer = tokenizer.normalizer, None
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.normalizer = plain
    content = json.loads(tokenizer.to_str())
    # As in Llama's file, bytes are tokens of the vocabulary, and not added ones.
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(content))


def unigram():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        # A part of NFKC and of what sentencepiece itself does with blanks, so that the map is small.
        rules = {0x09: " ", 0x0A: " ", 0x0D: " ", 0xA0: " ", 0x3000: " ", 0x2028: " ", 0xFEFF: "", 0x200B: " ", 0x01: "", 0x7F: ""}
        rules |= {0xFF21 + i: chr(0x41 + i) for i in range(26)} | {0xFB01: "fi", 0xFB00: "ff", 0x2460: "1", 0xBD: "1⁄2"}
        rules |= {0x0132: "IJ", 0x2026: "...", 0x338F: "kg", 0x1D400: "A"}
        lines = [f"{code:X}\t{' '.join(f'{ord(letter):X}' for letter in text)}" for code, text in rules.items()]
        lines += ["65 301\tE9", "75 308\tFC", "1100 1161 11A8\tAC01"]
        (path / "rules.tsv").write_text("\n".join(lines) + "\n")
        (path / "corpus.txt").write_text("\n".join(CORPUS) + "\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(path / "corpus.txt"),
            model_prefix=str(path / "unigram"),
            vocab_size=1200,
            normalization_rule_tsv=str(path / "rules.tsv"),
            character_coverage=0.995,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
        )
        import sentencepiece.sentencepiece_model_pb2 as model_pb2

        model = model_pb2.ModelProto()
        model.ParseFromString((path / "unigram.model").read_bytes())
    tokenizer = Tokenizer(models.Unigram([(piece.piece, piece.score) for piece in model.pieces], unk_id=2))
    tokenizer.normalizer = normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


OUTPUT.mkdir(parents=True, exist_ok=True)
for name, make in {
    "word-piece": word_piece,
    "byte-level": byte_level,
    "split-bytes": split_bytes,
    "byte-fallback": byte_fallback,
    "unigram": unigram,
}.items():
    (OUTPUT / f"{name}.json").write_text(make().to_str() + "\n")
