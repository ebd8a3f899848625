import type { Tensor } from '@shardwise/core/extend';

/** The names of activations in configs, as in Hugging Face's `ACT2FN`. */
export const activationNames = [
  'gelu',
  'gelu_new',
  'gelu_pytorch_tanh',
  'gelu_fast',
  'relu',
  'silu',
  'swish',
  'tanh',
] as const;

export type ActivationName = (typeof activationNames)[number];

const byTanh = (x: Tensor): Tensor => x.gelu('tanh');

const activations: Readonly<Record<ActivationName, (x: Tensor) => Tensor>> = {
  gelu: (x) => x.gelu(),
  gelu_new: byTanh,
  gelu_pytorch_tanh: byTanh,
  gelu_fast: byTanh,
  relu: (x) => x.relu(),
  silu: (x) => x.silu(),
  swish: (x) => x.silu(),
  tanh: (x) => x.tanh(),
};

/** Shape: x N -> N. */
export function activate(x: Tensor, name: ActivationName): Tensor {
  return activations[name](x);
}
