"""Records what byzfl computes: aggregators that tolerate faulty vectors, and attacks on them.

Run from the repository root, with PyTorch 2.15 and byzfl 0.0.11:

    python tools/golden-aggregation.py

It rewrites packages/strategies/test/golden/aggregation.json. The vectors are sines of their place, and one in each set
is far from the others.
"""

import json
import pathlib

import torch
from byzfl import ALittleIsEnough, Average, InnerProductManipulation, Krum, Median, MultiKrum, NNM, SignFlipping, TrMean

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/aggregation.json"
ELEMENTS = 7


def vectors(count):
    places = torch.arange(count * ELEMENTS, dtype=torch.float64).reshape(count, ELEMENTS)
    made = torch.sin(1.7 * places) + 0.1 * places / ELEMENTS
    made[count // 2] *= 50
    return made.float()


def main():
    aggregated = []
    for count, faulty in [(3, 1), (4, 1), (5, 1), (5, 2), (8, 1), (8, 3)]:
        given = vectors(count)
        aggregated.append(
            {
                "count": count,
                "faulty": faulty,
                "mean": Average()(given).tolist(),
                "trimmedMean": TrMean(faulty)(given).tolist(),
                "median": Median()(given).tolist(),
                "krum": Krum(faulty)(given).tolist(),
                "multiKrum": MultiKrum(faulty)(given).tolist(),
                "nearestNeighborMixing": TrMean(faulty)(NNM(faulty)(given)).tolist(),
            }
        )
    honest = vectors(4)
    attacks = {
        "signFlipping": SignFlipping()(honest).tolist(),
        "innerProductManipulation": InnerProductManipulation(2.0)(honest).tolist(),
        "aLittleIsEnough": ALittleIsEnough(10.0)(honest).tolist(),
    }
    OUTPUT.write_text(json.dumps({"elements": ELEMENTS, "aggregated": aggregated, "attacks": attacks}) + "\n")


main()
