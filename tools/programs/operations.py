"""The operations of recorded programs, as PyTorch has them; test/support/program-operations.ts has ours."""

import torch
import torch.nn.functional as F


def ints(text):
    return [] if text == "." else [int(part) for part in text.split("x")]


def dims_of(params):
    return [int(dim) for dim in params["dims"].split(",")] if "dims" in params else None


def reduce_with(function):
    def apply(x, p):
        dims = dims_of(p)
        keep = "keep" in p
        if dims is None:
            dims = list(range(x.dim()))
        return function(x, dims, keep) if dims else function(x, [], keep)

    return apply


class Differs(ValueError):
    """Operands for which PyTorch gives something else than we do."""


def finite_only(gradient):
    if not torch.isfinite(gradient).all():
        raise Differs("gradients of several parts, which infinities make NaN of, and one part in PyTorch")


def same_zeros(*tensors):
    """Of 0 and -0 the larger one is 0 in IEEE 754, and either in PyTorch."""
    zeros = torch.cat([x.flatten()[x.flatten() == 0] for x in tensors])
    if torch.signbit(zeros).any() and not torch.signbit(zeros).all():
        raise Differs("the sign of zero")


def extreme(function, x, dims, keep):
    same_zeros(x)
    if x.dim() == 0 and torch.isnan(x):
        raise Differs("a scalar is its own maximum, and has its gradient")
    return function(x, dims, keep)


def relu(x, p):
    if torch.signbit(x[x == 0]).any():
        raise Differs("relu(-0) is 0 here, and -0 in PyTorch")
    return torch.relu(x)


def gelu(x, p):
    if torch.isinf(x).any() or torch.signbit(x[x == 0]).any() or (x < -3).any():
        raise Differs("kernels give limits where PyTorch has 0 * infinity, and have other digits of small results")
    return F.gelu(x, approximate=p["approximate"])


def power(a, b, p):
    if not isinstance(b, torch.Tensor) and b % 1 != 0 and (torch.isneginf(a).any() or torch.signbit(a[a == 0]).any()):
        raise Differs("PyTorch takes square roots where IEEE 754 has another power")
    return a**b


def variance(x, dims, keep, correction):
    if torch.isinf(x).any() or x.dim() == 0:
        raise Differs("PyTorch's gradient takes the mean, which is infinite, for a constant")
    return torch.var(x, dim=dims or None, correction=correction, keepdim=keep)


def clamp(x, p):
    """With the gradient 1 at the bounds, as PyTorch had it before 2.15."""
    low, high = float(p["low"]), float(p["high"])
    inside = (x >= low) & (x <= high)
    return torch.where(inside, x, x.detach().clamp(low, high))


def max_pool(x, p):
    if torch.isnan(x).any():
        raise Differs("the first of several NaN has the gradient here, and the last one in PyTorch")
    return F.max_pool2d(
        x, int(p["kernel"]), stride=int(p["stride"]), padding=int(p["padding"]), dilation=int(p["dilation"])
    )


def converted(x, dtype):
    if dtype == torch.int32 and not torch.isfinite(x).all():
        raise Differs("no integer is near")
    return x.to(dtype)


def promoted(a, b):
    """Operands of what takes no numbers."""
    dtype = torch.result_type(a, b)
    same_zeros(a, *([b] if isinstance(b, torch.Tensor) else []))
    return a.to(dtype), b if isinstance(b, torch.Tensor) else torch.tensor(b).to(dtype)


def rounded_quotient(a, b, mode):
    """Without a gradient, where PyTorch has zeros."""
    return torch.div(a.detach(), b.detach() if isinstance(b, torch.Tensor) else b, rounding_mode=mode)


def masked_attention(q, k, v, mask):
    if not mask.any(-1).all():
        raise Differs("a row that sees nothing is NaN here, and 0 in PyTorch")
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def long(index):
    return index.to(torch.int64)


def finite_operands(name, *tensors):
    if not all(torch.isfinite(x).all() for x in tensors):
        raise Differs(f"infinities in {name}, whose products are made in another order")


def product(function):
    def apply(x, p):
        finite_operands("products", x)
        return function(x, p)

    return apply


def prod(x, dims, keep):
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim, keepdim=keep)
    return x.clone() if not dims else x


def norm(x, dims, keep, p):
    finite_operands("norms", x)
    return torch.linalg.vector_norm(x, p, dims or None, keep)


def distinct(x, dim):
    if x.dim() and (x.sort(dim).values.diff(dim=dim) == 0).any():
        raise Differs("of equal elements the first one is taken here, and any in PyTorch")


def median(x, dim):
    distinct(x, dim)
    return x.median(dim).values


def standard_deviation(x, dims, keep, correction):
    if torch.isinf(x).any() or x.dim() == 0:
        raise Differs("PyTorch's gradient takes the mean, which is infinite, for a constant")
    return torch.std(x, dim=dims or None, correction=correction, keepdim=keep)


def item_of(text, operands):
    if text in ("...", "null"):
        return {"...": ..., "null": None}[text]
    if text.startswith("t"):
        return long(operands[int(text[1:])])
    if ":" in text:
        return slice(*[int(end) if end else None for end in text.split(":")])
    return int(text)


def index_put(x, *rest):
    *indices, values, p = rest
    places = tuple(long(index) for index in indices)
    if "add" not in p:
        flat = torch.stack([i.expand(torch.broadcast_shapes(*[j.shape for j in places])) % n for i, n in zip(places, x.shape)])
        if flat.flatten(1).unique(dim=1).shape[1] < flat[0].numel():
            raise Differs("of equal places the last one counts here, and any in PyTorch")
    return x.index_put(places, values, accumulate="add" in p)


def scatter(x, index, source, p):
    if isinstance(source, torch.Tensor) and source.shape != index.shape:
        raise ValueError("PyTorch has no gradient of a larger source")
    if index.numel() and index.dim() and index.sort(int(p["dim"])).values.diff(dim=int(p["dim"])).eq(0).any():
        raise Differs("of equal places the last one counts here, and any in PyTorch")
    return x.scatter(int(p["dim"]), long(index), source)


def rest_of_division(function):
    def apply(a, b, p):
        zero = (b == 0).any() if isinstance(b, torch.Tensor) else b == 0
        if zero and not torch.result_type(a, b).is_floating_point:
            raise Differs("integers by 0 give no certain value here, and an error in PyTorch")
        y = function(a, b)
        if (torch.signbit(y) & (y == 0)).any():
            raise Differs("the sign of zero")
        return y

    return apply


def atan2(a, b, p):
    if not isinstance(b, torch.Tensor):
        b = torch.tensor(b, dtype=a.dtype)
    for x in (a, b):
        if (torch.signbit(x) & (x == 0)).any():
            raise Differs("the sign of zero, which what was computed before may have or not")
    return torch.atan2(a, b)


def histogram(x, p):
    counts, _ = torch.histogram(x.detach().float(), int(p["bins"]), range=(float(p["low"]), float(p["high"])))
    return counts.to(p["as"]["f32"])


def leaky_relu(x, p):
    return F.leaky_relu(x, float(p["slope"]))


def mish(x, p):
    if torch.isinf(x).any():
        raise Differs("0 times infinity in the gradient")
    return F.mish(x)


def einsum(*given):
    *operands, p = given
    y = torch.einsum(p["eq"], *operands)
    if (torch.signbit(y) & (y == 0)).any():
        raise Differs("the sign of zero of a sum")
    return y


def cdist(a, b, p):
    finite_operands("distances", a, b)
    return torch.cdist(a, b, float(p["p"]), "donot_use_mm_for_euclid_dist")


def remainder(a, b):
    finite_operands("remainders", a, torch.as_tensor(b))
    return torch.remainder(a, b)


def hardtanh(x, p):
    if torch.isnan(x).any():
        raise Differs("the gradient of NaN is 0 or not, by its place in the tensor")
    return F.hardtanh(x, float(p["low"]), float(p["high"]))


def lerp(a, b, w, p):
    return torch.lerp(a, b, w)


def number(text):
    return float(text) if any(c in text for c in ".enaf") else int(text)


OPERATIONS = {
    **{
        name: (lambda function: lambda x, p: function(x))(getattr(torch, name))
        for name in "neg abs sign exp log sqrt rsqrt sin cos tanh erf floor ceil square sigmoid".split()
    },
    **{
        name.replace("_", ""): (lambda function: lambda x, p: function(x))(getattr(torch, name))
        for name in "log1p expm1 log2 exp2 reciprocal tan asin acos atan sinh cosh trunc".split()
    },
    "isNaN": lambda x, p: torch.isnan(x),
    "isFinite": lambda x, p: torch.isfinite(x),
    "isInf": lambda x, p: torch.isinf(x),
    "round": lambda x, p: torch.round(x, decimals=int(p["decimals"])) if int(p["decimals"]) else torch.round(x),
    "leakyRelu": leaky_relu,
    "elu": lambda x, p: F.elu(x, float(p["alpha"])),
    "mish": mish,
    "hardtanh": hardtanh,
    "clampLow": lambda x, p: torch.where(x >= float(p["low"]), x, x.detach().clamp(min=float(p["low"]))),
    "clampHigh": lambda x, p: torch.where(x <= float(p["high"]), x, x.detach().clamp(max=float(p["high"]))),
    "remainder": rest_of_division(remainder),
    "fmod": rest_of_division(torch.fmod),
    "atan2": atan2,
    "lerp": lerp,
    "addcmul": lambda x, a, b, p: torch.addcmul(x, a, b, value=float(p["value"])),
    "addcdiv": lambda x, a, b, p: torch.addcdiv(x, a, b, value=float(p["value"])),
    "std": lambda x, p: reduce_with(lambda y, d, k: standard_deviation(y, d, k, int(p["correction"])))(x, p),
    "prod": product(reduce_with(prod)),
    "norm": lambda x, p: reduce_with(lambda y, d, k: norm(y, d, k, float(p["p"])))(x, p),
    "logSumExp": reduce_with(lambda x, d, k: torch.logsumexp(x, d, k)),
    "any": reduce_with(lambda x, d, k: torch.any(x, d, k) if d else torch.any(x)),
    "all": reduce_with(lambda x, d, k: torch.all(x, d, k) if d else torch.all(x)),
    "argMin": lambda x, p: x.argmin(int(p["dim"]), keepdim="keep" in p),
    "argMaxAll": lambda x, p: x.argmax(),
    "argMinAll": lambda x, p: x.argmin(),
    "maxValues": lambda x, p: x.max(int(p["dim"]), keepdim="keep" in p).values,
    "minValues": lambda x, p: x.min(int(p["dim"]), keepdim="keep" in p).values,
    "maxIndices": lambda x, p: x.max(int(p["dim"]), keepdim="keep" in p).indices,
    "minIndices": lambda x, p: x.min(int(p["dim"]), keepdim="keep" in p).indices,
    "medianValues": lambda x, p: median(x, int(p["dim"])),
    "sortValues": lambda x, p: x.sort(dim=int(p["dim"]), descending="down" in p, stable=True).values,
    "argSort": lambda x, p: x.sort(dim=int(p["dim"]), descending="down" in p, stable=True).indices,
    "topKValues": lambda x, p: x.sort(dim=int(p["dim"]), descending="down" in p, stable=True).values.narrow(
        int(p["dim"]), 0, int(p["k"])
    ),
    "topKIndices": lambda x, p: x.sort(dim=int(p["dim"]), descending="down" in p, stable=True).indices.narrow(
        int(p["dim"]), 0, int(p["k"])
    ),
    "cumProd": product(lambda x, p: x.cumprod(int(p["dim"]))),
    "binCount": lambda x, p: torch.bincount(long(x), minlength=int(p["length"])),
    "histogram": histogram,
    "chunkAt": lambda x, p: x.chunk(int(p["chunks"]), int(p["dim"]))[int(p["part"])],
    "unbindAt": lambda x, p: x.unbind(int(p["dim"]))[int(p["part"])],
    "flip": lambda x, p: x.flip(dims_of(p)),
    "roll": lambda x, p: x.roll([int(s) for s in p["shifts"].split(",")], dims_of(p)),
    "repeat": lambda x, p: x.repeat(ints(p["times"])),
    "tile": lambda x, p: x.tile(ints(p["times"])),
    "repeatInterleave": lambda x, p: x.repeat_interleave(int(p["repeats"]), int(p["dim"]) if "dim" in p else None),
    "movedim": lambda x, p: x.movedim(int(p["from"]), int(p["to"])),
    "mT": lambda x, p: x.mT,
    "T": lambda x, p: x.T,
    "tril": lambda x, p: x.tril(int(p["diagonal"])),
    "triu": lambda x, p: x.triu(int(p["diagonal"])),
    "at": lambda *a: a[0][tuple(item_of(item, a[:-1]) for item in a[-1]["items"].split(";"))],
    "maskedFill": lambda x, m, v, p: x.masked_fill(m, v),
    "scatter": scatter,
    "indexPut": index_put,
    "takeAlongDim": lambda x, i, p: x.take_along_dim(long(i), int(p["dim"])),
    "einsum": einsum,
    "outer": lambda a, b, p: torch.outer(a, b),
    "dot": lambda a, b, p: torch.dot(a, b),
    "cdist": cdist,
    "relu": relu,
    "softplus": lambda x, p: F.softplus(x),
    "silu": lambda x, p: F.silu(x),
    "logit": lambda x, p: torch.logit(x, float(p["eps"]) if "eps" in p else None),
    "gelu": gelu,
    "logicalNot": lambda x, p: torch.logical_not(x),
    "clamp": clamp,
    "to": lambda x, p: converted(x, p["as"][p["dtype"]]),
    "detach": lambda x, p: x.detach(),
    "add": lambda a, b, p: a + b,
    "sub": lambda a, b, p: a - b,
    "mul": lambda a, b, p: a * b,
    "div": lambda a, b, p: a / b,
    "divTrunc": lambda a, b, p: rounded_quotient(a, b, "trunc"),
    "divFloor": lambda a, b, p: rounded_quotient(a, b, "floor"),
    "pow": power,
    "maximum": lambda a, b, p: torch.maximum(*promoted(a, b)),
    "minimum": lambda a, b, p: torch.minimum(*promoted(a, b)),
    "eq": lambda a, b, p: a == b,
    "ne": lambda a, b, p: a != b,
    "lt": lambda a, b, p: a < b,
    "le": lambda a, b, p: a <= b,
    "gt": lambda a, b, p: a > b,
    "ge": lambda a, b, p: a >= b,
    "logicalAnd": lambda a, b, p: torch.logical_and(a, b),
    "logicalOr": lambda a, b, p: torch.logical_or(a, b),
    "where": lambda c, a, b, p: torch.where(c, a, b),
    "sum": reduce_with(lambda x, d, k: total(torch.sum, x, d, k)),
    "mean": reduce_with(lambda x, d, k: total(torch.mean, x, d, k)),
    "max": reduce_with(lambda x, d, k: extreme(torch.amax, x, d, k)),
    "min": reduce_with(lambda x, d, k: extreme(torch.amin, x, d, k)),
    "variance": lambda x, p: reduce_with(lambda y, d, k: variance(y, d, k, int(p["correction"])))(x, p),
    "argMax": lambda x, p: x.argmax(int(p["dim"]), keepdim="keep" in p),
    "cumsum": lambda x, p: x.cumsum(int(p["dim"])),
    "softmax": lambda x, p: x.softmax(int(p["dim"])),
    "logSoftmax": lambda x, p: x.log_softmax(int(p["dim"])),
    "layerNorm": lambda x, w, b, p: F.layer_norm(x, w.shape, w, b, 1e-5),
    "rmsNorm": lambda x, w, p: F.rms_norm(x, w.shape, w, 1e-5),
    "reshape": lambda x, p: x.reshape(ints(p["shape"])),
    "flatten": lambda x, p: x.flatten(),
    "permute": lambda x, p: x.permute(ints(p["order"])),
    "transpose": lambda x, p: x.transpose(int(p["a"]), int(p["b"])),
    "expand": lambda x, p: x.expand(ints(p["shape"])),
    "unsqueeze": lambda x, p: x.unsqueeze(int(p["dim"])),
    "squeeze": lambda x, p: x.squeeze(int(p["dim"])),
    "slice": lambda x, p: x[
        (slice(None),) * int(p["dim"]) + (slice(int(p["start"]), int(p["stop"]), int(p["step"])),)
    ],
    "select": lambda x, p: x.select(int(p["dim"]), int(p["index"])),
    "splitAt": lambda x, p: x.split(int(p["size"]), int(p["dim"]))[int(p["part"])],
    "pad": lambda x, p: F.pad(
        x, [n for pair in reversed(list(zip(ints(p["before"]), ints(p["after"])))) for n in pair], value=float(p["value"])
    ),
    "concat": lambda *a: torch.cat(a[:-1], int(a[-1]["dim"])),
    "stack": lambda *a: torch.stack(a[:-1], int(a[-1]["dim"])),
    "matmul": lambda a, b, p: a @ b,
    "conv2d": lambda x, w, p: F.conv2d(x, w, stride=int(p["stride"]), padding=int(p["padding"])),
    "maxPool2d": max_pool,
    "avgPool2d": lambda x, p: F.avg_pool2d(x, int(p["kernel"]), stride=int(p["stride"]), padding=int(p["padding"])),
    "gather": lambda x, i, p: x.gather(int(p["dim"]), long(i)),
    "scatterAdd": lambda x, i, s, p: x.scatter_add(int(p["dim"]), long(i), s),
    "indexSelect": lambda x, i, p: x.index_select(int(p["dim"]), long(i)),
    "indexAdd": lambda x, i, s, p: x.index_add(int(p["dim"]), long(i), s),
    "embedding": lambda i, w, p: F.embedding(long(i), w, padding_idx=int(p["padding"]) if "padding" in p else None),
    "oneHot": lambda i, p: F.one_hot(long(i), int(p["classes"])).to(torch.bool),
    "mseLoss": lambda a, b, p: F.mse_loss(a, b, reduction=p["reduction"]),
    "l1Loss": lambda a, b, p: F.l1_loss(a, b, reduction=p["reduction"]),
    "bceLoss": lambda a, b, p: F.binary_cross_entropy_with_logits(a, b, reduction=p["reduction"]),
    "crossEntropy": lambda x, t, p: F.cross_entropy(
        x, long(t), ignore_index=int(p["ignore"]), label_smoothing=float(p["smoothing"]), reduction=p["reduction"]
    ),
    "nllLoss": lambda x, t, p: F.nll_loss(x, long(t), ignore_index=int(p["ignore"]), reduction=p["reduction"]),
    "attention": lambda q, k, v, p: F.scaled_dot_product_attention(q, k, v, is_causal="causal" in p),
    "maskedAttention": lambda q, k, v, m, p: masked_attention(q, k, v, m),
}


def total(function, x, dims, keep):
    if x.dim() > 0:
        return function(x, dims, keep)
    if torch.signbit(x) and x == 0:
        raise Differs("the sum of -0 alone is -0 here, and 0 in PyTorch")
    return function(x, None, False)
