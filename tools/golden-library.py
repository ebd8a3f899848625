"""Records what PyTorch's losses, modules, optimizers and schedules compute.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-library.py && npx oxfmt packages/core/test/golden/library.json

It rewrites packages/core/test/golden/library.json, which the tests of packages/core compare with. Tensors are text, see
tools/library/record.py; inputs that are not given follow from integer arithmetic, which the tests do, too.
"""

import json
import pathlib
import warnings

import torch

from library.losses import losses
from library.modules import functions, modules
from library.optimizers import averages, one_cycles, optimizers, plateaus, swa_rates

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/core/test/golden/library.json"

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
golden = {
    "torch": torch.__version__.split("+")[0],
    "losses": list(losses()),
    "modules": list(modules()),
    "functions": list(functions()),
    "optimizers": list(optimizers()),
    "averages": list(averages()),
    "plateaus": list(plateaus()),
    "oneCycles": list(one_cycles()),
    "swaRates": list(swa_rates()),
}
OUTPUT.write_text(json.dumps(golden) + "\n")
