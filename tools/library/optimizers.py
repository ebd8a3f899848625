"""What optimizers, averages of weights and schedules of learning rates make of a few parameters in 20 steps."""

import torch
from torch import nn
from torch.optim import _muon
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .record import record, waves

STEPS = 20
SHAPES = {"matrix": (6, 4), "wide": (3, 7), "vector": (5,), "cube": (2, 3, 4)}
MATRICES = ["matrix", "wide"]


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al. 2023."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.mul_(1 - lr * decay).sub_(direction, alpha=lr)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def newton_schulz_in_f32(grad, coefficients, steps, eps):
    """That of torch.optim._muon without its rounding to bfloat16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


# Our name, and PyTorch's class with its settings.
OPTIMIZERS = [
    ("SGD", torch.optim.SGD, {"lr": 0.02, "momentum": 0.8, "dampening": 0.2, "weight_decay": 0.1, "maximize": True}),
    ("Adam", torch.optim.Adam, {"lr": 0.1, "betas": (0.9, 0.5), "amsgrad": True}),
    ("Adam", torch.optim.Adam, {"lr": 0.1, "betas": (0.8, 0.7), "weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    ("AdamW", torch.optim.AdamW, {"lr": 0.1, "betas": (0.9, 0.5), "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", torch.optim.RMSprop, {"weight_decay": 0.1, "momentum": 0.8, "centered": True, "maximize": True}),
    ("Adagrad", torch.optim.Adagrad, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("Adafactor", torch.optim.Adafactor, {"lr": 0.3, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", torch.optim.RMSprop, {}),
    ("RMSprop", torch.optim.RMSprop, {"weight_decay": 0.1, "momentum": 0.8, "centered": True, "alpha": 0.9}),
    ("Adagrad", torch.optim.Adagrad, {}),
    ("Adagrad", torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adafactor", torch.optim.Adafactor, {}),
    ("Adafactor", torch.optim.Adafactor, {"lr": 0.3, "beta2_decay": -0.6, "eps": (1e-3, 0.05), "d": 1.5, "weight_decay": 0.1}),
    ("Lion", Lion, {}),
    ("Lion", Lion, {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.3}),
    ("Muon", torch.optim.Muon, {}),
    ("Muon", torch.optim.Muon, {"lr": 0.02, "weight_decay": 0, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
    ("Muon", torch.optim.Muon, {"lr": 0.02, "momentum": 0.6, "ns_steps": 3, "adjust_lr_fn": "spectral_unclamped"}),
]
VALUES = {"match_rms_adamw": "matchRmsAdamW", "spectral_unclamped": "spectralUnclamped"}


def camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def parameters(names):
    return {name: nn.Parameter(waves(*SHAPES[name], offset=index)) for index, name in enumerate(names)}


def loss_of(params, step):
    """Of another scale for each parameter, so that learning rates matter."""
    terms = []
    for index, p in enumerate(params.values()):
        factors, targets = waves(*p.shape, offset=31 * step + index), waves(*p.shape, offset=17 * step + 5)
        terms.append((p * factors - targets).square().sum() * (index + 1) / 4)
    return sum(terms)


def train(make, names, after=lambda params, step: None):
    """What is maximized is the opposite of the loss, which has a maximum."""
    params = parameters(names)
    optimizer = make(params.values())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(params, step)
        (-loss if optimizer.defaults.get("maximize") else loss).backward()
        optimizer.step()
        after(params, step)
        losses.append(loss.item())
    return params, losses


def row(name, settings, names, result):
    params, losses = result
    return {
        "optimizer": name,
        "settings": settings,
        "losses": record(torch.tensor(losses, dtype=torch.float64)),
        "parameters": {key: record(params[key]) for key in names},
    }


def optimizers():
    rounded = _muon._zeropower_via_newtonschulz
    for name, kind, settings in OPTIMIZERS:
        names = MATRICES if name == "Muon" else list(SHAPES)
        ours = {camel(key): VALUES.get(value, value) for key, value in settings.items()}
        _muon._zeropower_via_newtonschulz = newton_schulz_in_f32
        yield row(name, ours, names, train(lambda params: kind(params, **settings), names))
        _muon._zeropower_via_newtonschulz = rounded
    yield row("Muon rounded to bfloat16", {"lr": 0.02}, MATRICES, train(lambda p: torch.optim.Muon(p, lr=0.02), MATRICES))


def averages():
    """Of the weights after every second step of SGD."""
    for name, multi_avg_fn in [("equal", None), ("0.9", get_ema_multi_avg_fn(0.9))]:
        average = None
        model = nn.Module()

        def after(params, step):
            nonlocal average
            if average is None:
                for key, p in params.items():
                    setattr(model, key, p)
                average = AveragedModel(model, multi_avg_fn=multi_avg_fn)
            if step % 2 == 1:
                average.update_parameters(model)

        params, _ = train(lambda p: torch.optim.SGD(p, lr=0.05), list(SHAPES), after)
        averaged = {key: record(getattr(average.module, key)) for key in params}
        yield {"average": name, "parameters": averaged}


METRICS = [1, 0.9, 0.91, 0.92, 0.8999, 0.93, 0.95, 0.5, 0.6, 0.6, 0.6, 0.55, 0.6, 0.7, 0.51, 0.52, 0.53, 0.4999, 1, 1, 1, 1, 1, 1]


def plateaus():
    for settings in [
        {"patience": 1},
        {"patience": 0, "factor": 0.5, "cooldown": 2},
        {"mode": "max", "patience": 2, "threshold": 0.3, "threshold_mode": "abs", "min_lr": 0.02},
        {"patience": 0, "factor": 0.3, "min_lr": [1e-3, 0.3], "eps": 0.05},
    ]:
        groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": lr} for lr in (0.1, 1.0)]
        optimizer = torch.optim.SGD(groups, lr=1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **settings)
        rates = []
        for metric in METRICS:
            schedule.step(metric)
            rates.append([group["lr"] for group in optimizer.param_groups])
        yield {"settings": {camel(key): value for key, value in settings.items()}, "metrics": METRICS, "rates": rates}


def one_cycles():
    for kind, settings in [
        ("SGD", {"max_lr": 0.1, "total_steps": 20}),
        ("SGD", {"max_lr": [0.1, 2], "total_steps": 10, "pct_start": 0.4, "anneal_strategy": "linear", "three_phase": True}),
        ("Adam", {"max_lr": 0.1, "total_steps": 13, "div_factor": 10, "final_div_factor": 100, "base_momentum": 0.7, "max_momentum": [0.9, 0.8]}),
        ("Adagrad", {"max_lr": 1, "total_steps": 7, "cycle_momentum": False}),
    ]:
        groups = [{"params": [nn.Parameter(torch.ones(1))]} for _ in range(2)]
        optimizer = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "Adagrad": torch.optim.Adagrad}[kind](groups, lr=1)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, **settings)
        rates, momenta = [], []
        for step in range(settings["total_steps"]):
            rates.append([group["lr"] for group in optimizer.param_groups])
            momenta.append([group["betas"][0] if "betas" in group else group.get("momentum", 0) for group in optimizer.param_groups])
            if step + 1 < settings["total_steps"]:
                optimizer.step()
                schedule.step()
        yield {"optimizer": kind, "settings": {camel(key): value for key, value in settings.items()}, "rates": rates, "momenta": momenta}


def swa_rates():
    """After two steps of another scheduler, which has a step again in between."""
    for settings in [
        {"swa_lr": 0.05},
        {"swa_lr": [0.05, 2], "anneal_epochs": 4, "anneal_strategy": "linear"},
        {"swa_lr": 0.05, "anneal_epochs": 0},
        {"swa_lr": 0.3, "anneal_epochs": 1},
    ]:
        groups = [{"params": [nn.Parameter(torch.ones(1))], "lr": lr} for lr in (0.1, 1.0)]
        optimizer = torch.optim.SGD(groups, lr=1)
        halved = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
        halved.step()
        halved.step()
        schedule = torch.optim.swa_utils.SWALR(optimizer, **settings)
        rates = []
        for step in range(13):
            rates.append([group["lr"] for group in optimizer.param_groups])
            (halved if step == 3 else schedule).step()
        yield {"settings": {camel(key): value for key, value in settings.items()}, "rates": rates}
