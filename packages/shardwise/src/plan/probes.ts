import { nn, type Tensor } from '@shardwise/core';
import type { ZeroStage } from '@shardwise/planner';

/** A small model whose training step is timed. */
export interface Probe {
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** The shape of the inputs, and of the targets. */
  readonly shape: readonly number[];
  /** What ranks divide that train it together. Each is timed, besides the training of each rank by itself. */
  readonly together?: readonly ZeroStage[];
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

/**
 * Models of which each spends most of its time for something else: products, other operations, attention, updates, calls and
 * messages. All but those for calls and messages need more memory than caches have, as models do that people train.
 */
export function probes(): readonly Probe[] {
  return [
    { build: () => perceptrons(6, 512), shape: [1024, 512] },
    { build: () => perceptrons(3, 256), shape: [512, 256] },
    { build: () => repeated(6, () => [new nn.Linear(768, 768)]), shape: [512, 768] },
    {
      build: () => repeated(16, () => [new nn.LayerNorm(512), new nn.GELU()]),
      shape: [1024, 512],
    },
    { build: () => repeated(6, () => [new Attention(64)]), shape: [8, 8, 128, 64] },
    {
      build: () => repeated(12, () => [new nn.Linear(1024, 1024)]),
      shape: [8, 1024],
      together: [0, 1, 3],
    },
    {
      build: () => repeated(40, () => [new nn.Linear(16, 16), new nn.LayerNorm(16)]),
      shape: [16, 16],
      together: [1, 3],
    },
  ];
}
