"""Records what PyTorch computes in small programs, and their gradients.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-programs.py && npx oxfmt test/golden

It rewrites test/golden/sized-programs.json (a sample of random programs, each at several sizes),
test/golden/kinks.json (every operation at kinks, ties, zeros, infinities and NaN), test/golden/operations.json
(operations with each kind of their parameters) and
test/golden/programs.json (a sample of random programs). For many more, drawn from another seed:

    python tools/golden-programs.py --count 10000 --seed 1 --output /tmp/programs.json
    PROGRAMS=/tmp/programs.json npx vitest run test/golden-programs.test.ts
    python tools/golden-programs.py --sized --count 10000 --seed 1 --output /tmp/sized.json
    SIZED_PROGRAMS=/tmp/sized.json npx vitest run --mode full test/golden-programs-any-size.full.test.ts

A program is text. `in` declares the values 0, 1, ...: dtype, shape (dims joined by x, `.` for none), `g`
where a gradient is wanted, then the elements. Each line of `do` makes the next value: an operation, its
operands (value numbers, or numbers after #), and parameters. `roots` are values whose sums are
differentiated, one after the other in this order, `reads` others that are compared. `out` has the
elements of roots and reads, `grad` those of each gradient, `-` for none.

Left out are programs whose results depend on rounding (what float64 computes must be close by), and
the few places where we differ on purpose, which raise Differs in programs/operations.py and say how.
"""

import argparse
import json
import pathlib
import warnings

import torch

from programs.draw import sample
from programs.cases import cases
from programs.kinks import kinks
from programs.sizes import sized_sample

GOLDEN = pathlib.Path(__file__).parents[1] / "test/golden"


def write(path, programs):
    path.write_text(json.dumps({"torch": torch.__version__, "programs": programs}) + "\n")


parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=300)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--longest", type=int, default=1100, help="characters of a program")
parser.add_argument("--sized", action="store_true", help="programs at several sizes")
parser.add_argument("--output", type=pathlib.Path)
options = parser.parse_args()
warnings.filterwarnings("ignore")
torch.set_num_threads(1)
if options.output is None:
    write(GOLDEN / "kinks.json", kinks())
    write(GOLDEN / "operations.json", cases())
    write(GOLDEN / "sized-programs.json", sized_sample(options.count // 4, options.seed, 2 * options.longest))
draw = sized_sample if options.sized else sample
write(options.output or GOLDEN / "programs.json", draw(options.count, options.seed, options.longest * (1 + options.sized)))
