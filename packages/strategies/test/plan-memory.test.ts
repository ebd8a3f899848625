import type { ParameterSpec, Strategy } from '@shardwise/core';
import {
  ddp,
  explain,
  fsdp,
  planMemory,
  type PlanMemoryOptions,
  zero,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

const gigabyte = 1e9;

/** A model with one parameter. Plans allocate nothing, so its size does not matter. */
function modelOf(elements: number): readonly ParameterSpec[] {
  return [{ name: 'weight', shape: [elements], dtype: 'f32', requiresGrad: true }];
}

function statesOf(
  strategy: Strategy,
  elements: number,
  ranks: number,
  options?: PlanMemoryOptions,
): number {
  const plan = strategy.plan({ parameters: modelOf(elements) }, [{ name: 'dp', size: ranks }]);
  return planMemory(plan, options).statesBytes;
}

describe('states of a plan in mixed precision', () => {
  const mixedPrecision = { parameterDtype: 'f16' } as const;
  // Table 1 of Rajbhandari et al. 2020: the GB per rank for 7.5 and 128 billion parameters.
  it.each([
    [7.5e9, 1, 120, 120, 120],
    [7.5e9, 4, 52.5, 41.3, 30],
    [7.5e9, 16, 35.6, 21.6, 7.5],
    [7.5e9, 64, 31.4, 16.6, 1.88],
    [7.5e9, 256, 30.4, 15.4, 0.47],
    [7.5e9, 1024, 30.1, 15.1, 0.12],
    [128e9, 1, 2048, 2048, 2048],
    [128e9, 4, 896, 704, 512],
    [128e9, 16, 608, 368, 128],
    [128e9, 64, 536, 284, 32],
    [128e9, 256, 518, 263, 8],
    [128e9, 1024, 513, 257, 2],
  ])('are those of the ZeRO paper: %d elements on %i ranks', (elements, ranks, ...expected) => {
    ([1, 2, 3] as const).forEach((stage, index) => {
      const strategy = zero({ stage, mixedPrecision });
      const found = statesOf(strategy, elements, ranks) / gigabyte;
      const printed = expected[index] ?? Number.NaN;
      // The table rounds or truncates to three digits or fewer.
      const unit = printed >= 100 ? 1 : printed >= 8 ? 0.1 : 0.01;
      expect(Math.abs(found - printed)).toBeLessThan(unit);
    });
  });
});

describe('states of a plan in f32', () => {
  const elements = 1200;
  it.each([
    ['ddp', '16Ψ', ddp(), 16 * elements],
    ['zero-1', '8Ψ + 8Ψ/N', zero({ stage: 1 }), 8 * elements + (8 * elements) / 4],
    ['zero-2', '4Ψ + 12Ψ/N', zero({ stage: 2 }), 4 * elements + (12 * elements) / 4],
    ['zero-3', '16Ψ/N', zero({ stage: 3 }), (16 * elements) / 4],
    ['fsdp', '16Ψ/N', fsdp(), (16 * elements) / 4],
  ] as const)('of %s follow %s', (_, text, strategy, bytes) => {
    const plan = strategy.plan({ parameters: modelOf(elements) }, [{ name: 'dp', size: 4 }]);
    const { statesBytes, formula } = planMemory(plan);
    expect(formula?.text).toBe(text);
    expect(formula?.bytes).toBe(bytes);
    expect(statesBytes).toBe(bytes);
  });

  it('states of a plan in f32 count the tensors of other optimizers', () => {
    // SGD keeps no tensor without momentum and one with momentum.
    expect(statesOf(ddp(), 10, 2, { optimizerTensors: 0 })).toBe(80);
    expect(statesOf(ddp(), 10, 2, { optimizerTensors: 1 })).toBe(120);
  });

  it('states of a plan in f32 are sharded over one axis of hybrid sharding', () => {
    const axes = [
      { name: 'replicas', size: 2 },
      { name: 'dp', size: 3 },
    ];
    const { formula } = planMemory(
      fsdp({ replicas: 'replicas' }).plan({ parameters: modelOf(60) }, axes),
    );
    expect(formula).toMatchObject({ text: '16Ψ/N', parts: 3, bytes: 320 });
  });

  it('states of a plan in f32 follow no formula where parameters are cut in different ways', () => {
    const plan = zero({ stage: 3 }).plan({ parameters: modelOf(8) }, [{ name: 'dp', size: 2 }]);
    const [parameter] = plan.parameters;
    const replicated = { dims: [[]], partial: [] };
    const other = { parameter: replicated, gradient: replicated, optimizer: replicated };
    const parameters = parameter === undefined ? [] : [parameter, { ...parameter, ...other }];
    const mixed = { ...plan, parameters };
    expect(planMemory(mixed)).toMatchObject({ formula: null, statesBytes: 64 + 128 });
    expect(explain(mixed).split('\n').at(-1)).toBe(
      'states: 192 bytes; parameters are not cut alike',
    );
  });
});

describe('what explain says of memory', () => {
  it('what explain says of memory is a table and the formula with its numbers', () => {
    const plan = zero({ stage: 2 }).plan(
      {
        parameters: [
          { name: 'up.weight', shape: [7, 4], dtype: 'f32', requiresGrad: true },
          { name: 'up.bias', shape: [7], dtype: 'f32', requiresGrad: false },
        ],
      },
      [{ name: 'dp', size: 3 }],
    );
    const text = explain(
      { ...plan, buffers: [{ name: 'mean', shape: [3], dtype: 'f32' }] },
      { activationBytes: 1000 },
    );
    expect(text.slice(text.indexOf('per rank'))).toMatchInlineSnapshot(`
      "per rank          bytes
      parameters        156
      gradients         40
      optimizer states  80
      buffers           12
      activations       1000
      sum               1288

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 4Ψ + 12Ψ/N = 4 × 28 + 12 × 28 / 3 = 224 bytes, Ψ = 28 trained elements, N = 3; 52 bytes are frozen or padding"
    `);
  });
});
