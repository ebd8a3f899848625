"""Records what PyTorch's random streams, initialisation, samplers and loader give.

Run from the repository root, with PyTorch 2.15 on x86-64:

    python tools/golden-random.py

It rewrites packages/core/test/golden/random.json, which the tests of packages/core compare with bit
for bit. Everything is text, so that the file stays small and readable: numbers are separated by
spaces (float32 in their shortest form), long results are the SHA-256 of their little-endian bytes.
"""

import hashlib
import json
import pathlib

import numpy
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    WeightedRandomSampler,
    random_split,
)

LONGEST_LISTED = 64
OUTPUT = pathlib.Path(__file__).parents[1] / "packages/core/test/golden/random.json"


def text(tensor):
    """Float32, float64 or integer values; integers are hashed as 32-bit words."""
    values = tensor.detach().contiguous().numpy().reshape(-1)
    if values.dtype == numpy.int64 and (values == values.astype(numpy.int32)).all():
        values = values.astype(numpy.int32)
    if values.size > LONGEST_LISTED:
        return "sha256 " + hashlib.sha256(values.tobytes()).hexdigest()
    words = [str(value) for value in values]
    assert all(values.dtype.type(word) == value for word, value in zip(words, values))
    return " ".join(words)


def randperm(generator, n):
    return torch.randperm(n, generator=generator)


def randint(generator, low, high, count):
    return torch.randint(low, high, (count,), generator=generator)


def randintLong(generator, low, high, count):
    return torch.randint(low, high, (count,), generator=generator)


def rand(generator, count):
    return torch.rand(count, generator=generator)


def rand64(generator, count):
    return torch.rand(count, generator=generator, dtype=torch.float64)


def uniform(generator, count, low, high):
    return torch.empty(count).uniform_(low, high, generator=generator)


def randn(generator, count):
    return torch.randn(count, generator=generator)


def normal(generator, count, mean, std):
    return torch.empty(count).normal_(mean, std, generator=generator)


def bernoulli(generator, count, probability):
    return torch.bernoulli(torch.full((count,), probability), generator=generator).to(torch.int64)


STREAMS = [randperm, randint, rand, rand64, uniform, randn, normal, bernoulli]


def streams():
    sizes = [1, 7, 15, 16, 17, 27, 64, 1000]
    programs = []
    for seed in [0, 1, 42, 2**32 + 1, 2**53 - 1, -1, 67280421310721]:
        programs.append((seed, [(randn, n) for n in sizes]))
    for seed in [0, 7]:
        programs.append((seed, [(randperm, n) for n in sizes + [0, 100_000]]))
        programs.append((seed, [(rand, n) for n in sizes + [100_000]]))
    programs += [
        (0, [(rand64, 4), (rand, 3), (rand64, 100)]),
        (0, [(randint, 0, 17, 10), (randint, -5, 5, 20), (randint, 0, 2**28 - 1, 9)]),
        (3, [(randint, 0, 2**28, 9), (randint, -(2**31), 2**31, 9), (randint, 7, 8, 3)]),
        (3, [(randintLong, 2**40, 2**40 + 7, 5), (randintLong, -(2**62), 2**62, 6), (randint, 0, 9, 3)]),
        (4, [(randintLong, -(2**63), 2**63 - 1, 5), (randintLong, 2**62, 2**62 + 2**28, 5)]),
        (0, [(uniform, 10, -1.0, 1.0), (uniform, 10, 0.1, 0.1), (uniform, 10_000, -0.3, 0.8)]),
        (5, [(normal, 5, 1.5, 0.02), (normal, 40, -3.0, 0.02), (normal, 9, 0.0, 0.0), (randn, 1_000_000)]),
        (5, [(bernoulli, 30, 0.3), (bernoulli, 5, 0.0), (bernoulli, 5, 1.0), (bernoulli, 10_000, 0.1)]),
        (0, [(randn, 7), (randperm, 5), (randn, 3)]),
        (9, [(randn, 3), "save", (rand, 2), (randn, 2), (randn, 20), "restore", (rand, 2), (randn, 2), (randn, 20)]),
        (9, [(randn, 1), (randint, 0, 10, 3), (randn, 16), (bernoulli, 4, 0.5), (randn, 1), (uniform, 3, 2.0, 5.0), (randperm, 6)]),
        (11, [(rand, 623), "save", (randperm, 4), (rand, 1300), "restore", (randperm, 4), (rand, 1300)]),
    ]
    for seed, calls in programs:
        generator = torch.Generator().manual_seed(seed)
        state = None
        rows = []
        for call in calls:
            if call == "save":
                state = generator.get_state()
                rows.append({"call": "save", "result": ""})
            elif call == "restore":
                generator.set_state(state)
                rows.append({"call": "restore", "result": ""})
            else:
                function, *arguments = call
                name = " ".join([function.__name__, *map(str, arguments)])
                rows.append({"call": name, "result": text(function(generator, *arguments))})
        yield {"seed": str(seed), "calls": rows}


def initialisation():
    def layer(make):
        return lambda: [parameter for parameter in make().parameters()]

    def tensor(function, *shape, **options):
        return lambda: [function(torch.empty(*shape), **options)]

    cases = {
        "linear 3 2": layer(lambda: nn.Linear(3, 2)),
        "linear 2 1": layer(lambda: nn.Linear(2, 1)),
        "linear 64 48": layer(lambda: nn.Linear(64, 48)),
        "linear 10 4 noBias": layer(lambda: nn.Linear(10, 4, bias=False)),
        "conv2d 4,3,3,3": layer(lambda: nn.Conv2d(3, 4, 3)),
        "conv2d 6,1,5,2": layer(lambda: nn.Conv2d(3, 6, (5, 2), groups=3)),
        "conv2d 8,4,1,1 noBias": layer(lambda: nn.Conv2d(4, 8, 1, bias=False)),
        "embedding 3 4": layer(lambda: nn.Embedding(3, 4)),
        "embedding 11 7": layer(lambda: nn.Embedding(11, 7)),
        "embedding 5 8 2": layer(lambda: nn.Embedding(5, 8, padding_idx=2)),
        "xavierUniform 5,7": tensor(nn.init.xavier_uniform_, 5, 7),
        "xavierUniform 5,7 2.5": tensor(nn.init.xavier_uniform_, 5, 7, gain=2.5),
        "xavierNormal 5,7": tensor(nn.init.xavier_normal_, 5, 7),
        "xavierNormal 4,3,3,3 0.5": tensor(nn.init.xavier_normal_, 4, 3, 3, 3, gain=0.5),
        "kaimingUniform 5,7": tensor(nn.init.kaiming_uniform_, 5, 7),
        "kaimingUniform 5,7 fanOut relu": tensor(nn.init.kaiming_uniform_, 5, 7, mode="fan_out", nonlinearity="relu"),
        "kaimingNormal 4,3,3,3 fanIn tanh": tensor(nn.init.kaiming_normal_, 4, 3, 3, 3, nonlinearity="tanh"),
        "kaimingNormal 5,7 fanOut leakyRelu 0.2": tensor(nn.init.kaiming_normal_, 5, 7, a=0.2, mode="fan_out"),
        "kaimingNormal 5,7 fanIn selu": tensor(nn.init.kaiming_normal_, 5, 7, nonlinearity="selu"),
        "truncNormal 4,5 0 0.02 -2 2": tensor(nn.init.trunc_normal_, 4, 5, std=0.02),
        "truncNormal 3,3 0.5 1 -1 1": tensor(nn.init.trunc_normal_, 3, 3, mean=0.5, a=-1.0, b=1.0),
        "truncNormal 64,3 0 1 -1 0.5": tensor(nn.init.trunc_normal_, 64, 3, a=-1.0, b=0.5),
    }
    for seed in [0, 1]:
        for name, make in cases.items():
            torch.manual_seed(seed)
            result = " | ".join(text(value) for value in make())
            yield {"seed": str(seed), "init": name, "result": result}


def indices(groups):
    return " | ".join(" ".join(map(str, group)) for group in groups)


def distributed():
    cases = [
        (length, replicas, seed, epoch, drop, shuffle)
        for length, replicas in [(10, 3), (10, 4), (1, 4), (2, 5), (7, 7), (16, 4), (17, 8), (23, 1), (3, 8)]
        for seed, epoch, shuffle in [(0, 0, True), (0, 1, True), (5, 2, True), (0, 0, False)]
        for drop in [False, True]
    ]
    cases += [(1000, 8, 42, 3, False, True), (1001, 7, 2**40, 9, True, True)]
    for length, replicas, seed, epoch, drop, shuffle in cases:
        groups = []
        for rank in range(replicas):
            sampler = DistributedSampler(range(length), replicas, rank, shuffle, seed, drop)
            sampler.set_epoch(epoch)
            assert len(list(sampler)) == len(sampler)
            groups.append(list(sampler))
        if length > LONGEST_LISTED:
            result = " | ".join(text(torch.tensor(group)) for group in groups)
        else:
            result = indices(groups)
        name = f"{length} {replicas} {seed} {epoch} {'drop' if drop else 'pad'} {'shuffle' if shuffle else 'ordered'}"
        yield {"sampler": name, "result": result}


def random_sampler():
    for length, samples, replacement, seed in [
        (10, 10, False, 0),
        (10, 7, False, 1),
        (5, 12, False, 2),
        (5, 10, False, 2),
        (10, 10, True, 0),
        (7, 32, True, 3),
        (7, 50, True, 3),
    ]:
        generator = torch.Generator().manual_seed(seed)
        sampler = RandomSampler(range(length), replacement, samples, generator)
        name = f"{length} {samples} {'replacement' if replacement else 'permutation'} {seed}"
        yield {"sampler": name, "result": indices([list(sampler), list(sampler)])}


def weighted_sampler():
    """Two epochs each, and a number that is drawn after them."""
    for weights, samples, replacement, seed in [
        ([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 5, True, 0),
        ([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 5, False, 0),
        ([1, 0, 0, 2], 20, True, 3),
        ([1, 0, 5, 2], 3, False, 3),
        ([3, 1], 1, True, 4),
        ([1e-300, 1e300, 1, 1e299], 12, True, 5),
        ([i * 7 % 11 / 3 for i in range(40)], 64, True, 6),
        ([1 + i * i % 13 for i in range(64)], 64, False, 7),
    ]:
        generator = torch.Generator().manual_seed(seed)
        sampler = WeightedRandomSampler(weights, samples, replacement, generator)
        name = f"{','.join(map(str, weights))} {samples} {'replacement' if replacement else 'once'} {seed}"
        epochs = [list(sampler), list(sampler)]
        yield {"sampler": name, "result": indices([*epochs, torch.randint(0, 1000, (1,), generator=generator).tolist()])}


def loader():
    """Two epochs of DataLoader(shuffle=True, generator=...) over the numbers below `length`."""
    for length, batch, drop, seed in [(10, 3, False, 0), (10, 3, True, 0), (9, 3, False, 42)]:
        generator = torch.Generator().manual_seed(seed)
        batches = DataLoader(range(length), batch, shuffle=True, drop_last=drop, generator=generator)
        name = f"{length} {batch} {'drop' if drop else 'keep'} {seed}"
        epochs = [[item for b in batches for item in b.tolist()] for _ in range(2)]
        yield {"loader": name, "result": indices(epochs)}


def split():
    for length, parts, seed in [(10, [3, 7], 42), (30, [0.3, 0.3, 0.4], 42), (11, [0.5, 0.5], 1)]:
        subsets = random_split(range(length), parts, torch.Generator().manual_seed(seed))
        name = f"{length} {','.join(map(str, parts))} {seed}"
        yield {"split": name, "result": indices([list(subset) for subset in subsets])}


def batches():
    for length, size, drop in [(10, 3, False), (10, 3, True), (9, 3, False), (2, 3, True), (2, 3, False)]:
        name = f"{length} {size} {'drop' if drop else 'keep'}"
        yield {"batches": name, "result": indices(BatchSampler(range(length), size, drop))}


golden = {
    "torch": torch.__version__.split("+")[0],
    "streams": list(streams()),
    "initialisation": list(initialisation()),
    "distributedSampler": list(distributed()),
    "randomSampler": list(random_sampler()),
    "weightedRandomSampler": list(weighted_sampler()),
    "batchSampler": list(batches()),
    "dataLoader": list(loader()),
    "randomSplit": list(split()),
}
OUTPUT.parent.mkdir(parents=True, exist_ok=True)
OUTPUT.write_text(json.dumps(golden, indent=2) + "\n")
