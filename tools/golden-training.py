"""Records how PyTorch trains small models, step by step.

Run from the repository root, with PyTorch 2.15 and safetensors:

    python tools/golden-training.py

It rewrites test/golden/NAME.safetensors, which test/golden.full.test.ts compares with. Each file says SEED and the version of
PyTorch in its metadata and holds, in float32 and int32:

    data.inputs, data.targets        [STEPS, BATCH, ...], the global batch of every step
    initial.PARAMETER                what torch.manual_seed(SEED) and the construction of the model give
    gradient.PARAMETER               of the mean loss of step 0 at the initial parameters
    losses.sgd, losses.adamw         [STEPS], the mean loss of every step
    sgd.PARAMETER, adamw.PARAMETER   after STEPS steps

The models are those of test/golden/models.ts, with the same names and the same order of construction. Data follow from
integer arithmetic, so nothing but PyTorch itself decides the values. One thread and deterministic algorithms.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

SEED, STEPS, BATCH = 1234, 20, 12
OUTPUT = pathlib.Path(__file__).parents[1] / "test/golden"

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, betas=(0.9, 0.99), weight_decay=0.05),
}


class Mlp(nn.Module):
    INPUT, HIDDEN, CLASSES = 7, 13, 5

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(self.INPUT, self.HIDDEN)
        self.norm = nn.LayerNorm(self.HIDDEN)
        self.down = nn.Linear(self.HIDDEN, self.CLASSES)

    def forward(self, x):
        return self.down(self.norm(F.gelu(self.up(x))))

    @classmethod
    def data(cls):
        inputs = waves((STEPS, BATCH, cls.INPUT))
        return inputs, ((inputs[..., 0] + inputs[..., 3] + 2) * cls.CLASSES / 4).to(torch.int64)


class Cnn(nn.Module):
    SIZE, CLASSES = 9, 5

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 9, 3, stride=2, padding=1, groups=3)
        self.head = nn.Linear(9 * 2 * 2, self.CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.head(torch.flatten(x, 1))

    @classmethod
    def data(cls):
        """Noise with one bright row, two rows a class."""
        targets = (torch.arange(STEPS * BATCH) * 7 // 3 % cls.CLASSES).view(STEPS, BATCH)
        bright = torch.arange(cls.SIZE).view(-1, 1) == (targets * 2).view(STEPS, BATCH, 1, 1, 1)
        return waves((STEPS, BATCH, 1, cls.SIZE, cls.SIZE)) / 2 + bright, targets


class CausalSelfAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.projection = nn.Linear(channels, channels)

    def forward(self, x):
        batch, tokens, channels = x.shape
        heads = self.qkv(x).view(batch, tokens, 3, self.heads, channels // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(attended.transpose(1, 2).reshape(batch, tokens, channels))


class CausalMultiheadAttention(nn.MultiheadAttention):
    def __init__(self, channels, heads):
        super().__init__(channels, heads, batch_first=True)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return super().forward(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]


class Block(nn.Module):
    def __init__(self, attention, channels, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attention = attention(channels, heads)
        self.norm2 = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, 4 * channels)
        self.down = nn.Linear(4 * channels, channels)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """The model of examples/gpt/model.ts."""

    LAYERS, CHANNELS, HEADS, CONTEXT, VOCABULARY = 2, 24, 3, 12, 31
    ATTENTION = CausalSelfAttention

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(self.VOCABULARY, self.CHANNELS)
        self.positions = nn.Embedding(self.CONTEXT, self.CHANNELS)
        blocks = [Block(self.ATTENTION, self.CHANNELS, self.HEADS) for _ in range(self.LAYERS)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(self.CHANNELS)
        self.head = nn.Linear(self.CHANNELS, self.VOCABULARY, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)

    @classmethod
    def data(cls):
        step = torch.arange(STEPS).view(-1, 1, 1)
        row = torch.arange(BATCH).view(1, -1, 1)
        column = torch.arange(cls.CONTEXT + 1).view(1, 1, -1)
        ids = (step * 7 + row * 11 + column * (2 + row % 3) + column * column % 4) % cls.VOCABULARY
        return ids[..., :-1], ids[..., 1:]


class TiedGpt(Gpt):
    """With nn.MultiheadAttention, and one matrix as token embedding and head."""

    ATTENTION = CausalMultiheadAttention

    def __init__(self):
        super().__init__()
        self.head.weight = self.tokens.weight


MODELS = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt, "gpt-tied": TiedGpt}


def waves(shape):
    """Values of [-1, 1) in steps of 1/64, exact in float32, that repeat after no short period."""
    index = torch.arange(torch.Size(shape).numel())
    return ((index * index * 29 + index * 53) % 4099 % 128 - 64).view(shape).float() / 64


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs), targets.flatten())


def built(model_class):
    torch.manual_seed(SEED)
    return model_class()


def copies(prefix, tensors):
    return {f"{prefix}.{name}": tensor.detach().clone().contiguous() for name, tensor in tensors}


def train(model_class, make_optimizer, inputs, targets):
    model = built(model_class)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, inputs[step], targets[step])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    metadata = {"seed": str(SEED), "torch": torch.__version__.split("+")[0]}
    for name, model_class in MODELS.items():
        inputs, targets = model_class.data()
        model = built(model_class)
        tensors = {"data.inputs": inputs, "data.targets": targets, **copies("initial", model.named_parameters())}
        loss_of(model, inputs[0], targets[0]).backward()
        tensors |= copies("gradient", ((key, p.grad) for key, p in model.named_parameters()))
        for key, make_optimizer in OPTIMIZERS.items():
            model, losses = train(model_class, make_optimizer, inputs, targets)
            tensors |= {f"losses.{key}": torch.tensor(losses), **copies(key, model.named_parameters())}
        small = {key: (t.int() if t.dtype == torch.int64 else t).contiguous() for key, t in tensors.items()}
        save_file(small, OUTPUT / f"{name}.safetensors", metadata)


if __name__ == "__main__":
    main()
