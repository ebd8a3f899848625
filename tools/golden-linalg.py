"""Records what PyTorch's matrix factorizations give.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-linalg.py && npx oxfmt packages/core/test/golden/linalg.json

It rewrites packages/core/test/golden/linalg.json. Inputs are small integers and halves; the loss of each case is the sum of
the squares of the results' elements times 1, 2, 3, ..., which does not depend on the signs of singular vectors.
"""

import json
import pathlib

import torch

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/core/test/golden/linalg.json"


def waves(*shape):
    count = torch.Size(shape).numel()
    return torch.tensor([((i * i * 29 + i * 53) % 37 - 18) / 4 for i in range(count)]).reshape(shape)


def text(x):
    return " ".join(f"{v:.8g}" for v in x.flatten().tolist())


def loss(results):
    return sum(((torch.arange(r.numel()) + 1.0).reshape(r.shape) * r.square()).sum() for r in results)


def case(op, inputs, function, options=None):
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = function(*leaves)
    loss(results).backward()
    return {
        "op": op,
        "options": options or {},
        "inputs": [{"shape": list(x.shape), "values": text(x)} for x in leaves],
        "results": [text(r) for r in results],
        "gradients": [text(x.grad) for x in leaves],
    }


def positive(x):
    return x @ x.mT + 2 * torch.eye(x.shape[-1])


def triangular(upper, unit):
    return lambda a, b: (torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit),)


cases = [
    case("cholesky", [positive(waves(3, 3))], lambda a: (torch.linalg.cholesky(a),)),
    case("cholesky", [positive(waves(2, 2, 2))], lambda a: (torch.linalg.cholesky(a),)),
    *(
        case("qr", [waves(*shape)], lambda a: tuple(torch.linalg.qr(a)))
        for shape in [(4, 3), (3, 3), (2, 4), (2, 3, 2), (3, 1)]
    ),
    *(
        case("svd", [waves(*shape)], lambda a: tuple(torch.linalg.svd(a, full_matrices=False)))
        for shape in [(4, 3), (3, 3), (2, 4), (2, 3, 2)]
    ),
    *(
        case(
            "solveTriangular",
            [waves(2, 3, 3) + 5 * torch.eye(3), waves(2, 3, 2)],
            triangular(upper, unit),
            {"upper": upper, "unitriangular": unit},
        )
        for upper in (False, True)
        for unit in (False, True)
    ),
]
OUTPUT.write_text(json.dumps({"torch": torch.__version__.split("+")[0], "cases": cases}) + "\n")
