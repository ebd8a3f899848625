"""Records what torchft computes: LocalSGD, and DiLoCo with streaming fragments, on two replicas.

Run from the repository root, with PyTorch 2.15 and torchft 0.2.0:

    python tools/golden-diloco.py

It rewrites packages/strategies/test/golden/diloco.json. Each replica is a thread, and a barrier takes the place of
torchft's manager. The model is Linear(3, 4), tanh, Linear(4, 4); its weights are sines of their place. Each replica has
its own batch of five rows in each step.
"""

import json
import pathlib
import threading

import torch
from torchft.local_sgd import DiLoCo, LocalSGD

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/strategies/test/golden/diloco.json"
REPLICAS, STEPS, ROWS = 2, 18, 5

CASES = {
    "localSgd": None,
    "diloco": {"fragments": 1},
    "diloco without momentum": {"fragments": 1, "outer": {"lr": 1.0, "momentum": 0.0, "nesterov": False}},
    "diloco with plain momentum": {"fragments": 1, "outer": {"lr": 0.5, "momentum": 0.8, "nesterov": False}},
    "two fragments": {"fragments": 2},
    "two fragments that overlap": {"fragments": 2, "fragmentSyncDelay": 1},
    "two fragments that overlap by two and mix": {
        "fragments": 2,
        "fragmentSyncDelay": 2,
        "fragmentUpdateAlpha": 0.5,
    },
    "one fragment that overlaps and mixes a quarter": {
        "fragments": 1,
        "fragmentSyncDelay": 3,
        "fragmentUpdateAlpha": 0.25,
    },
}
EVERY = 6
OUTER = {"lr": 0.7, "momentum": 0.9, "nesterov": True}


class Meeting:
    """The mean of a tensor over the replicas, which meet in the order of their calls."""

    def __init__(self):
        self.barrier = threading.Barrier(REPLICAS)
        self.lock = threading.Lock()
        self.calls = {}

    def mean_of(self, call, replica, tensor):
        with self.lock:
            self.calls.setdefault(call, {})[replica] = tensor.clone()
        self.barrier.wait()
        terms = [self.calls[call][each] for each in range(REPLICAS)]
        self.barrier.wait()
        return torch.stack(terms).mean(0)


class Work:
    def __init__(self, wait):
        self.wait = wait


class Manager:
    """What LocalSGD and DiLoCo call of torchft's manager, when no replica is ever lost."""

    _use_async_quorum = False

    def __init__(self, meeting, replica):
        self.meeting, self.replica = meeting, replica
        self.step, self.calls = 0, 0

    def allreduce(self, tensor, should_quantize=False):
        call, self.calls = self.calls, self.calls + 1
        sent = tensor.clone()

        def wait():
            tensor.copy_(self.meeting.mean_of(call, self.replica, sent))

        return Work(wait)

    def current_step(self):
        return self.step

    def should_commit(self):
        self.step += 1
        return True

    def start_quorum(self):
        pass

    def register_state_dict_fn(self, *_):
        pass

    def disallow_state_dict_read(self):
        pass

    def allow_state_dict_read(self):
        pass


def layer(rows, columns, first):
    made = torch.nn.Linear(rows, columns)
    places = torch.arange(rows * columns + columns, dtype=torch.float64) + first
    values = torch.sin(places).float()
    with torch.no_grad():
        made.weight.copy_(values[: rows * columns].reshape(columns, rows))
        made.bias.copy_(values[rows * columns :])
    return made


def batch(step, replica):
    places = torch.arange(ROWS * 3, dtype=torch.float64)
    x = torch.sin(places + 7 * step + 3 * replica).float().reshape(ROWS, 3)
    places = torch.arange(ROWS * 4, dtype=torch.float64)
    y = torch.cos(0.3 * places + 5 * step + replica).float().reshape(ROWS, 4)
    return x, y


def train(name, case, meeting, replica, found):
    layers = [layer(3, 4, 0), layer(4, 4, 100)]
    model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1])
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    manager = Manager(meeting, replica)
    if case is None:
        wrapper = LocalSGD(manager, model, inner, sync_every=EVERY)
    else:
        parts = [model] if case["fragments"] == 1 else layers
        settings = case.get("outer", OUTER)
        outers = [torch.optim.SGD(part.parameters(), **settings) for part in parts]
        wrapper = DiLoCo(
            manager,
            parts,
            inner,
            outers,
            sync_every=EVERY,
            fragment_sync_delay=case.get("fragmentSyncDelay", 0),
            fragment_update_alpha=case.get("fragmentUpdateAlpha", 0.0),
        )
    losses = []
    with wrapper:
        for step in range(STEPS):
            x, y = batch(step, replica)
            inner.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            inner.step()
            losses.append(loss.item())
    parameters = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    found[name][replica] = {"losses": losses, "parameters": parameters.tolist()}


def main():
    found = {}
    for name, case in CASES.items():
        meeting = Meeting()
        found[name] = [None] * REPLICAS
        threads = [
            threading.Thread(target=train, args=(name, case, meeting, replica, found))
            for replica in range(REPLICAS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    record = {
        name: {"options": {} if case is None else {"outer": OUTER, **case}, "replicas": found[name]}
        for name, case in CASES.items()
    }
    text = json.dumps({"every": EVERY, "cases": record})
    OUTPUT.write_text(json.dumps(json.loads(text, parse_float=lambda x: float(f"{float(x):.8g}"))) + "\n")


main()
