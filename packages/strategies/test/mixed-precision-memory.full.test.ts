import { fromData, nn, optim, statistics, type Strategy } from '@shardwise/core';
import { collectivesOf, ddp, fsdp, parallelize, planFor, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

const layers = 8;
const width = 256;
/** Ψ, the number of elements of the model. */
const elements = layers * (width * width + width);
const batch = 4;
const mixedPrecision = { parameterDtype: 'bf16' } as const;

interface Case {
  readonly strategy: () => Strategy;
  /** The bytes of states by the 2/2/12 split of Rajbhandari et al. 2020: parameters, gradients, optimizer. */
  readonly stateBytes: (ranks: number) => number;
  /**
   * The volume that a step sends for gradients and parameters, in multiples of all parameters, by Section 7 of the paper.
   */
  readonly sent: number;
}

const cases: Readonly<Record<string, Case>> = {
  DDP: {
    strategy: () => ddp({ mixedPrecision }),
    stateBytes: () => (2 + 2 + 12) * elements,
    sent: 1,
  },
  'ZeRO-1': {
    strategy: () => zero({ stage: 1, mixedPrecision }),
    stateBytes: (ranks) => (2 + 2 + 12 / ranks) * elements,
    sent: 2,
  },
  'ZeRO-2': {
    strategy: () => zero({ stage: 2, mixedPrecision }),
    stateBytes: (ranks) => (2 + (2 + 12) / ranks) * elements,
    sent: 2,
  },
  'ZeRO-3': {
    strategy: () => zero({ stage: 3, mixedPrecision }),
    stateBytes: (ranks) => (16 / ranks) * elements,
    sent: 3,
  },
  FSDP: {
    strategy: () => fsdp({ mixedPrecision }),
    stateBytes: (ranks) => (16 / ranks) * elements,
    sent: 3,
  },
};

describe.each([2, 4])('on %i ranks', (size) => {
  it.each(Object.entries(cases))(
    '%s keeps what the formula says, and sends two bytes for each element',
    async (_, { strategy, stateBytes, sent }) => {
      await onRanks(
        size,
        async ({ rank, device }) => {
          const model = new nn.Sequential(
            ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
          );
          const plan = planFor(model, strategy());
          const parallel = await parallelize(model, strategy());
          const optimizer = new optim.AdamW(model.parameters());
          let stepBytes = 0;
          for (let step = 0; step < 3; step++) {
            const before = statistics().collectiveBytes;
            optimizer.zeroGrad();
            const values = new Float32Array(batch * width).fill(step + rank);
            const loss = parallel.forward(fromData(values, [batch, width], 'f32')).mean();
            loss.backward();
            await optimizer.step();
            await loss.item();
            stepBytes = statistics().collectiveBytes - before;
          }
          const { bytesInUse = NaN } = device.usage?.() ?? {};
          expect(Math.abs(bytesInUse / stateBytes(size) - 1)).toBeLessThan(0.01);
          const planBytes = collectivesOf(plan)
            .filter(({ when }) => when !== 'start')
            .reduce((sum, { bytes }) => sum + bytes, 0);
          expect(planBytes).toBe(sent * 2 * elements);
          // Backward of the first layer needs no parameters, because nothing asks for the gradient of its input.
          const collected = sent === 3 ? 3 - 1 / layers : sent;
          expect(Math.abs(stepBytes / (collected * 2 * elements) - 1)).toBeLessThan(0.01);
        },
        onCpu,
      );
    },
  );
});
