"""The GPT of the benchmarks in plain PyTorch: the same work as examples/gpt/model.ts.

Pre-norm blocks, fused query-key-value projection, learned positions, exact GELU, untied head without bias.
"""

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCABULARY = 4, 256, 4, 128, 8, 256


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers=LAYERS, width=WIDTH, heads=HEADS, context=CONTEXT, vocabulary=VOCABULARY):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch_of(step, rank=0, batch=BATCH, context=CONTEXT, vocabulary=VOCABULARY):
    """The batch of one step, by the rule of bench/workload.ts."""
    row = torch.arange(batch).unsqueeze(1) + batch * rank
    column = torch.arange(context + 1).unsqueeze(0)
    ids = (row * 31 + step * 17 + column * (3 + row % 5)) % vocabulary
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def make_optimizer(model, fused):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=fused)


def train_step(model, optimizer, step, rank=0, batch=BATCH, precision="f32"):
    inputs, targets = batch_of(step, rank, batch)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
    loss.backward()
    optimizer.step()
    return loss.item()


def blas_name():
    settings = torch.__config__.show().replace("\n", ",").split(",")
    names = [part.split("=")[1] for part in settings if "BLAS_INFO=" in part and "LAPACK" not in part]
    return names[0] if names else "unknown"
