"""Records the tables of memory that DeepSpeed's estimators and `accelerate estimate-memory` print.

Run from the repository root, with accelerate and the unpacked sources of DeepSpeed 0.19, of which it runs single functions:

    python tools/golden-estimates.py path/to/deepspeed-0.19.8

It rewrites packages/planner/test/golden/estimates.json, which packages/planner/test/estimates.test.ts compares with:

    deepspeed    for each model and cluster, the texts of stages 2 and 3
    accelerate   for each model, the text of the table
"""

import ast
import contextlib
import io
import json
import pathlib
import sys

from accelerate.commands.estimate import create_ascii_table, estimate_training_usage
from accelerate.utils import convert_bytes

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/planner/test/golden/estimates.json"

# Parameters and those of the largest layer: t5-3b of DeepSpeed's documents, a small model and GPT-3.
DEEPSPEED = [
    (2_851_598_336, 32_899_072, 1, 8),
    (2_851_598_336, 32_899_072, 1, 1),
    (110_000_000, 23_440_896, 2, 4),
    (174_604_382_208, 617_558_016, 64, 8),
]
# Bytes in f32 of all of the model and of its largest layer: bert-base-cased and a part of idefics-80b of accelerate's
# tests, and names that are longer than the table.
ACCELERATE = [
    ("bert-base-cased", 433_249_280, 90_669_056),
    ("HuggingFaceM4/idefics-80b-instruct-with-a-long-name-for-a-table", 320_000_000_000, 3_240_165_632),
    ("an-even-longer-name-of-a-repository/with-a-model-that-has-a-name-of-many-words", 1024, 512),
    ("tiny", 1536, 1024),
]


class Cpu:
    def __str__(self):
        return "cpu"

    def __format__(self, spec):
        return format("cpu", spec)


def functions_of(path, names):
    """Runs the functions of a file that have these names, and nothing else of it."""
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    device = type("OffloadDeviceEnum", (), {"cpu": Cpu()})
    scope = {"OffloadDeviceEnum": device}
    exec(compile(tree, str(path), "exec"), scope)
    return scope


def printed(run):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run()
    return text.getvalue().rstrip("\n")


def deepspeed_tables(root):
    zero = root / "deepspeed/runtime/zero"
    stage2 = functions_of(
        zero / "stage_1_and_2.py",
        {"estimate_zero2_model_states_mem_needs", "estimate_zero2_model_states_mem_needs_all_cold"},
    )
    stage3 = functions_of(
        zero / "stage3.py",
        {"estimate_zero3_model_states_mem_needs", "estimate_zero3_model_states_mem_needs_all_cold"},
    )
    for elements, largest, nodes, ranks in DEEPSPEED:
        yield {
            "elements": elements,
            "largestLayerElements": largest,
            "nodes": nodes,
            "ranksPerNode": ranks,
            "zero2": printed(
                lambda: stage2["estimate_zero2_model_states_mem_needs_all_cold"](elements, ranks, nodes)
            ),
            "zero3": printed(
                lambda: stage3["estimate_zero3_model_states_mem_needs_all_cold"](elements, largest, ranks, nodes)
            ),
        }


def accelerate_table(name, total, largest):
    """The rows as gather_data and estimate_command make them."""
    rows = []
    for dtype, divisor in (("float32", 1), ("float16", 2), ("int8", 4), ("int4", 8)):
        training = max(estimate_training_usage(total, dtype).values())
        rows.append(
            [
                dtype,
                convert_bytes(largest if divisor == 1 else largest / divisor),
                convert_bytes(total if divisor == 1 else total / divisor),
                "N/A" if training == -1 else convert_bytes(training),
            ]
        )
    headers = ["dtype", "Largest Layer", "Total Size", "Training using Adam"]
    return create_ascii_table(headers, rows, f"Memory Usage for loading `{name}`")


def main():
    OUTPUT.parent.mkdir(exist_ok=True)
    golden = {
        "deepspeed": list(deepspeed_tables(pathlib.Path(sys.argv[1]))),
        "accelerate": [
            {"name": name, "totalBytes": total, "largestLayerBytes": largest, "text": accelerate_table(name, total, largest)}
            for name, total, largest in ACCELERATE
        ],
    }
    OUTPUT.write_text(json.dumps(golden, indent=2, ensure_ascii=False) + "\n")


main()
