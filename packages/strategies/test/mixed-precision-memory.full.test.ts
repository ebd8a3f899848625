import { fromData, nn, optim, setRank, statistics, type Strategy } from '@shardwise/core';
import { collectivesOf, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

const layers = 8;
const width = 256;
/** Ψ, the number of elements of the model. */
const elements = layers * (width * width + width);
const batch = 4;
const mixedPrecision = { parameterDtype: 'bf16' } as const;

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp({ mixedPrecision }),
  'ZeRO-1': () => zero({ stage: 1, mixedPrecision }),
  'ZeRO-2': () => zero({ stage: 2, mixedPrecision }),
  'ZeRO-3': () => zero({ stage: 3, mixedPrecision }),
  FSDP: () => fsdp({ mixedPrecision }),
};

/** What one rank has measured, by strategy. */
type Measurements = Record<
  string,
  {
    /** The bytes that the allocator has in use after a step. */
    readonly statesBytes: number;
    /** The bytes of a step's collectives, counted in the way in which the plan counts them. */
    readonly stepBytes: number;
    readonly planBytes: number;
  }
>;

async function observe({ rank, size, mesh }: RankInThread): Promise<Measurements> {
  const found: Measurements = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const device = await onCpu.createDevice();
    setRank({ device, mesh });
    const model = new nn.Sequential(
      ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
    );
    const specs = model.namedParameters().map(([parameterName, { shape, dtype, requiresGrad }]) => {
      return { name: parameterName, shape, dtype, requiresGrad };
    });
    const plan = strategy().plan({ parameters: specs }, [{ name: 'dp', size }]);
    const parallel = await parallelize(model, strategy());
    const optimizer = new optim.AdamW(model.parameters());
    let stepBytes = 0;
    for (let step = 0; step < 3; step++) {
      const before = statistics().collectiveBytes;
      optimizer.zeroGrad();
      const x = fromData(new Float32Array(batch * width).fill(step + rank), [batch, width], 'f32');
      const loss = parallel.forward(x).mean();
      loss.backward();
      await optimizer.step();
      await loss.item();
      stepBytes = statistics().collectiveBytes - before;
    }
    const planBytes = collectivesOf(plan)
      .filter(({ when }) => when !== 'start')
      .reduce((sum, { bytes }) => sum + bytes, 0);
    found[name] = { statesBytes: device.usage().bytesInUse, stepBytes, planBytes };
  }
  return found;
}

/** The bytes of states by the 2/2/12 split of Rajbhandari et al. 2020: parameters, gradients, optimizer. */
const formulas: Readonly<Record<string, (ranks: number) => number>> = {
  DDP: () => (2 + 2 + 12) * elements,
  'ZeRO-1': (ranks) => (2 + 2 + 12 / ranks) * elements,
  'ZeRO-2': (ranks) => (2 + (2 + 12) / ranks) * elements,
  'ZeRO-3': (ranks) => (16 / ranks) * elements,
  FSDP: (ranks) => (16 / ranks) * elements,
};

/**
 * The volume that a step sends for gradients and parameters, in multiples of all parameters, by Section 7 of the paper.
 */
const sent: Readonly<Record<string, number>> = {
  DDP: 1,
  'ZeRO-1': 2,
  'ZeRO-2': 2,
  'ZeRO-3': 3,
  FSDP: 3,
};

describe.each([2, 4])('on %i ranks', (size) => {
  let ranks: readonly Measurements[] = [];

  beforeAll(async () => {
    ranks = await onRanks(size, observe);
  });

  it.each(Object.entries(formulas))('%s keeps what the formula says', (name, bytesOf) => {
    const expected = bytesOf(size);
    expect(ranks).toHaveLength(size);
    for (const rank of ranks) {
      expect(Math.abs((rank[name]?.statesBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });

  it.each(Object.entries(sent))('%s sends two bytes for each element', (name, times) => {
    // Backward of the first layer needs no parameters, because nothing asks for the gradient of its input.
    const collected = times === 3 ? 3 - 1 / layers : times;
    for (const rank of ranks) {
      expect(rank[name]?.planBytes).toBe(times * 2 * elements);
      const expected = collected * 2 * elements;
      expect(Math.abs((rank[name]?.stepBytes ?? NaN) / expected - 1)).toBeLessThan(0.01);
    }
  });
});
