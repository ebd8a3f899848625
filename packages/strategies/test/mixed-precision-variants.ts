import { ddp, fsdp, zero } from '@shardwise/strategies';
import type { Variant } from './strategy-table-worlds.ts';

const bf16 = { parameterDtype: 'bf16' } as const;
const bf16Activations = {
  ...bf16,
  castForwardInputs: true,
  reduceDtype: 'f32',
  outputDtype: 'f32',
} as const;
const products = { computeDtype: 'bf16' } as const;
const allInF16 = { computeDtype: 'f16', parameterDtype: 'f16', reduceDtype: 'f32' } as const;
const f16 = { parameterDtype: 'f16', reduceDtype: 'f32' } as const;

/** The model has a parameter that no loss uses. */
const findUnusedParameters = true;

/** A bf16 has 8 significant bits. Rounding to it makes a relative error of up to 2^-9. */
const tolerance = 2e-2;

const in16Bits: Readonly<Record<string, Variant>> = {
  'DDP in bf16': { strategy: () => ddp({ mixedPrecision: bf16, findUnusedParameters }) },
  'DDP in f16, reduced in f32, in buckets of one parameter': {
    strategy: () => ddp({ mixedPrecision: f16, findUnusedParameters, bucketBytes: 1 }),
  },
  'DDP in bf16 with bf16 activations': {
    strategy: () => ddp({ mixedPrecision: bf16Activations, findUnusedParameters }),
  },
  'DDP in bf16 with accumulation': {
    strategy: () => ddp({ mixedPrecision: bf16, findUnusedParameters }),
    microbatches: 3,
  },
  'DDP in bf16 with activation checkpointing': {
    strategy: () => ddp({ mixedPrecision: bf16, findUnusedParameters }),
    checkpointed: true,
  },
  'DDP in bf16 with a ZeroRedundancyOptimizer': {
    strategy: () => ddp({ mixedPrecision: bf16, findUnusedParameters }),
    zeroRedundancy: true,
  },
  'DDP in bf16 with states and gradients in host memory': {
    strategy: () => ddp({ mixedPrecision: bf16, findUnusedParameters }),
    offloaded: ['gradients'],
  },
  'ZeRO-1 in bf16': { strategy: () => zero({ stage: 1, mixedPrecision: bf16 }) },
  'ZeRO-2 in bf16': { strategy: () => zero({ stage: 2, mixedPrecision: bf16 }) },
  'ZeRO-3 in bf16': { strategy: () => zero({ stage: 3, mixedPrecision: bf16 }) },
  'FSDP in bf16': { strategy: () => fsdp({ mixedPrecision: bf16 }) },
  'FSDP in bf16 that keeps parameters until backward': {
    strategy: () => fsdp({ mixedPrecision: bf16, reshardAfterForward: false }),
  },
  'FSDP in f16, reduced in f32': { strategy: () => fsdp({ mixedPrecision: f16 }) },
  'ZeRO-2 in bf16 with bf16 activations': {
    strategy: () => zero({ stage: 2, mixedPrecision: bf16Activations }),
  },
  'FSDP in bf16 with bf16 activations': {
    strategy: () => fsdp({ mixedPrecision: bf16Activations }),
  },
  'ZeRO-1 in bf16 with accumulation': {
    strategy: () => zero({ stage: 1, mixedPrecision: bf16 }),
    microbatches: 3,
  },
  'FSDP in bf16 with accumulation': {
    strategy: () => fsdp({ mixedPrecision: bf16 }),
    microbatches: 3,
  },
  'FSDP in bf16 with activation checkpointing': {
    strategy: () => fsdp({ mixedPrecision: bf16 }),
    checkpointed: true,
  },
  'DDP with products in bf16': {
    strategy: () => ddp({ mixedPrecision: products, findUnusedParameters }),
  },
  'DDP with products in bf16 and activation checkpointing': {
    strategy: () => ddp({ mixedPrecision: products, findUnusedParameters }),
    checkpointed: true,
  },
  'ZeRO-1 with products in bf16 and accumulation': {
    strategy: () => zero({ stage: 1, mixedPrecision: products }),
    microbatches: 3,
  },
  'ZeRO-2 with products and parameters in bf16': {
    strategy: () => zero({ stage: 2, mixedPrecision: { ...bf16, ...products } }),
  },
  'ZeRO-3 with products and parameters in f16, reduced in f32': {
    strategy: () => zero({ stage: 3, mixedPrecision: allInF16 }),
  },
  'FSDP with products in bf16': { strategy: () => fsdp({ mixedPrecision: products }) },
  'FSDP with products in bf16 and activation checkpointing': {
    strategy: () => fsdp({ mixedPrecision: products }),
    checkpointed: true,
  },
};

/** Variants with 16 bits. */
export const variants: typeof in16Bits = Object.fromEntries(
  Object.entries(in16Bits).map(([name, variant]) => [name, { ...variant, tolerance }]),
);
