"""Records how transformers prepares questions and contexts, which packages/data/test/question-answering.test.ts compares with.

Run from the repository root, with transformers 5.24:

    python tools/golden-question-answering.py && npx oxfmt packages/data/test/golden/question-answering.json

It rewrites packages/data/test/golden/question-answering.json: the samples that the preprocessing of Hugging Face's course
makes with a tokenizer of packages/data/test/golden/tokenizers, with their tokens, types, places and positions.
"""

import json
import pathlib

from transformers import PreTrainedTokenizerFast

GOLDEN = pathlib.Path(__file__).parents[1] / "packages/data/test/golden"
CONTEXT = (
    "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience, and "
    "should act towards one another in a spirit of brotherhood. Alle Menschen sind frei und gleich an Würde geboren."
)
QUESTIONS = [
    ("What are all human beings?", "born free and equal"),
    ("What are they endowed with?", "reason and conscience"),
    ("Wer ist frei?", "Alle Menschen"),
    ("In what?", "dignity"),
    ("What comes last?", "geboren."),
    ("What comes first?", "All"),
    ("What is the price?", None),
]
LENGTHS = [(48, 12), (40, 16), (384, 128)]


def samples(tokenizer, question, answer, max_length, stride):
    """The preprocessing of the course, chapter 7."""
    inputs = tokenizer(
        question, CONTEXT, max_length=max_length, truncation="only_second", stride=stride,
        return_overflowing_tokens=True, return_offsets_mapping=True, return_token_type_ids=True,
    )
    for i, offset in enumerate(inputs["offset_mapping"]):
        sequence_ids = inputs.sequence_ids(i)
        start, end = 0, 0
        if answer is not None:
            start_char = CONTEXT.index(answer)
            end_char = start_char + len(answer)
            first = sequence_ids.index(1)
            last = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
            if offset[first][0] <= start_char and offset[last][1] >= end_char:
                index = first
                while index <= last and offset[index][0] <= start_char:
                    index += 1
                start = index - 1
                index = last
                while index >= first and offset[index][1] >= end_char:
                    index -= 1
                end = index + 1
        yield {
            "inputIds": inputs["input_ids"][i],
            "tokenTypeIds": inputs["token_type_ids"][i],
            "offsets": [list(each) if of == 1 else None for each, of in zip(offset, sequence_ids)],
            "positions": [start, end],
        }


def cases():
    for name in ["word-piece", "split-bytes"]:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(GOLDEN / f"tokenizers/{name}.json"))
        for index, (question, answer) in enumerate(QUESTIONS):
            max_length, stride = LENGTHS[index % len(LENGTHS)]
            start = None if answer is None else CONTEXT.index(answer)
            yield {
                "tokenizer": name, "question": question, "answer": answer, "start": start, "maxLength": max_length, "stride": stride,
                "samples": list(samples(tokenizer, question, answer, max_length, stride)),
            }


(GOLDEN / "question-answering.json").write_text(json.dumps({"context": CONTEXT, "cases": list(cases())}))
