import { nn, type Tensor } from '@shardwise/core';

/** A small model whose training step is timed. */
export interface Probe {
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** The shape of the inputs, and of the targets. */
  readonly shape: readonly number[];
}

/** Shape: x [B, H, T, D] -> [B, H, T, D]. */
class Attention extends nn.Module {
  readonly norm: nn.LayerNorm;

  constructor(headSize: number) {
    super();
    this.norm = new nn.LayerNorm(headSize);
  }

  forward(x: Tensor): Tensor {
    const normed = this.norm.forward(x);
    return nn.functional.scaledDotProductAttention(normed, x, x, { causal: true }).add(x);
  }
}

function repeated(count: number, make: () => readonly nn.Layer[]): nn.Sequential {
  return new nn.Sequential(...Array.from({ length: count }, make).flat());
}

function perceptrons(count: number, width: number): nn.Sequential {
  return repeated(count, () => [
    new nn.LayerNorm(width),
    new nn.Linear(width, 4 * width),
    new nn.GELU(),
    new nn.Linear(4 * width, width),
  ]);
}

/** Models of which each spends most of its time for something else: products, other operations, attention, updates and calls. */
export function probes(): readonly Probe[] {
  return [
    { build: () => perceptrons(2, 512), shape: [1024, 512] },
    { build: () => perceptrons(3, 256), shape: [512, 256] },
    {
      build: () => repeated(3, () => [new nn.Linear(768, 768)]),
      shape: [512, 768],
    },
    {
      build: () => repeated(4, () => [new nn.LayerNorm(512), new nn.GELU()]),
      shape: [1024, 512],
    },
    {
      build: () => repeated(2, () => [new Attention(64)]),
      shape: [8, 8, 128, 64],
    },
    {
      build: () => repeated(2, () => [new nn.Linear(1024, 1024)]),
      shape: [8, 1024],
    },
    {
      build: () => repeated(16, () => [new nn.Linear(16, 16), new nn.LayerNorm(16)]),
      shape: [16, 16],
    },
  ];
}
