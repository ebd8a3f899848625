"""Records TRL's losses of GRPO, which test/example-grpo.test.ts compares with.

Run from the repository root, with TRL 1.16:

    python tools/golden-grpo.py

It rewrites test/golden/grpo.json: log-probabilities [B, T] of completions by the model, by the one that made them and by the
reference, masks [B, T], rewards [B], of which four follow each other for each prompt, their advantages, and for each loss
type and weight of the divergence the loss and its gradients by the log-probabilities. The losses are those of
`GRPOTrainer._compute_loss`, which is called without a model. TRL has no function of its own for advantages, so they are the
lines of `_generate_and_score_completions`, with TRL's `nanstd`.
"""

import collections
import json
import pathlib
import types

import torch
from trl import GRPOTrainer
from trl.trainer.utils import nanstd

OUTPUT = pathlib.Path(__file__).parents[1] / "test/golden/grpo.json"
GROUP, ROWS, TOKENS = 4, 12, 6
EPSILON = 0.2
torch.manual_seed(0)


def rounded(tensor):
    return tensor.mul(64).round().div(64)


# Ratios on both sides of the bounds, and a group whose rewards are equal.
new = rounded(-torch.rand(ROWS, TOKENS) * 3)
old = rounded(new + torch.randn(ROWS, TOKENS) * 0.3)
reference = rounded(new + torch.randn(ROWS, TOKENS) * 0.5)
lengths = torch.randint(1, TOKENS + 1, (ROWS,))
mask = (torch.arange(TOKENS) < lengths.unsqueeze(1)).float()
rewards = torch.tensor([1.0, 0, 0, 1, 0, 0, 0, 0, 0.25, -1, 2, 0.5])

grouped = rewards.view(-1, GROUP)
means = torch.nanmean(grouped, dim=1).repeat_interleave(GROUP, dim=0)
deviations = nanstd(grouped, dim=1).repeat_interleave(GROUP, dim=0)
advantages = (rewards - means) / (deviations + 1e-4)


def case(loss_type, beta):
    log_probabilities = new.clone().requires_grad_()
    trainer = types.SimpleNamespace(
        # Entropies are only for metrics.
        _get_per_token_logps_and_entropies=lambda *_, **__: (log_probabilities, torch.zeros(ROWS, TOKENS), None),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=beta,
        args=types.SimpleNamespace(use_bias_correction_kl=False, delta=None, steps_per_generation=1),
        loss_type=loss_type,
        epsilon_low=EPSILON,
        epsilon_high=EPSILON,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=TOKENS,
        accelerator=types.SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        _entropy_bonus_enabled=False,
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        model=types.SimpleNamespace(training=True),
    )
    inputs = {
        "prompt_ids": torch.zeros(ROWS, 1, dtype=torch.long),
        "prompt_mask": torch.ones(ROWS, 1, dtype=torch.long),
        "completion_ids": torch.zeros(ROWS, TOKENS, dtype=torch.long),
        "completion_mask": mask,
        "advantages": advantages,
        "old_per_token_logps": old,
        "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(),
    }
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    loss.backward()
    return {"lossType": loss_type, "beta": beta, "loss": loss.item(), "gradients": numbers(log_probabilities.grad)}


def numbers(tensor):
    return [[float(f"{value:.7g}") for value in row] for row in tensor.tolist()]


cases = [case(loss_type, beta) for loss_type in ("grpo", "bnpo", "dr_grpo", "dapo") for beta in (0.0, 0.04)]
OUTPUT.write_text(
    json.dumps(
        {
            "numGenerations": GROUP,
            "epsilon": EPSILON,
            "logProbabilities": new.tolist(),
            "oldLogProbabilities": old.tolist(),
            "refLogProbabilities": reference.tolist(),
            "mask": mask.tolist(),
            "rewards": rewards.tolist(),
            "advantages": advantages.tolist(),
            "cases": cases,
        }
    )
    + "\n"
)
