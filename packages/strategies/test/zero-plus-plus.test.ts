import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import {
  ConfigError,
  fromData,
  LayoutError,
  LineMesh,
  type ParameterSpec,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { collectivesOf, explain, fsdp, zero } from '@shardwise/strategies';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  dequantizeRows,
  type QuantizedBits,
  quantizedBytes,
  quantizeRows,
} from '../src/sharded/quantized/quantize-rows.ts';

beforeAll(async () => {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
});

describe.each<QuantizedBits>([4, 8])('rows in %i bits', (bits) => {
  const levels = bits === 8 ? 127 : 7;
  const rowsOf = (values: readonly number[], rows: number): Tensor =>
    fromData(Float32Array.from(values), [rows, values.length / rows], 'f32');
  const there = async (values: readonly number[], rows = 1): Promise<number[]> => {
    const elements = values.length / rows;
    const rounded = dequantizeRows(quantizeRows(rowsOf(values, rows), bits), elements, bits);
    return Array.from(await rounded.data(), Number);
  };

  it.each([1, 2, 7, 255, 256, 257, 511, 1000])(
    'come back within half a scale of their block, and have the bytes of the formula: %i elements',
    async (elements) => {
      const values = Array.from({ length: 2 * elements }, (_, i) => Math.sin(i * 1.7) * (1 + i));
      const found = await there(values, 2);
      values.forEach((value, i) => {
        const start = i - ((i % elements) % 256);
        const end = Math.min(start + 256, Math.ceil((i + 1) / elements) * elements);
        const scale = Math.max(...values.slice(start, end).map(Math.abs)) / levels;
        expect(Math.abs((found[i] ?? NaN) - value)).toBeLessThanOrEqual((scale / 2) * 1.0001);
      });
      const { codes, scales } = quantizeRows(rowsOf(values, 2), bits);
      const bytes = (await codes.data()).byteLength + (await scales.data()).byteLength;
      expect(bytes).toBe(2 * quantizedBytes(elements, bits));
      expect(quantizedBytes(elements, bits)).toBe(
        Math.ceil((elements * bits) / 8) + 4 * Math.ceil(elements / 256),
      );
    },
  );

  it('come back exactly if they are multiples of a scale', async () => {
    const values = Array.from({ length: 2 * levels + 1 }, (_, i) => (i - levels) / 8);
    expect(await there(values)).toEqual(values);
    expect(await there([0, 0, 0])).toEqual([0, 0, 0]);
  });

  it.each([NaN, Infinity, -Infinity])(
    'have no finite number in the block of a %d, and are as they were in others',
    async (value) => {
      const values = Array.from({ length: 600 }, (_, i) => (i === 300 ? value : 1));
      const found = await there(values);
      expect(found.map(Number.isFinite)).toEqual(values.map((_, i) => i < 256 || i >= 512));
      expect(found.slice(0, 256).every((each) => each === 1)).toBe(true);
    },
  );
});

describe('a plan', () => {
  const parameters: readonly ParameterSpec[] = [
    { name: '0.weight', shape: [64, 64], dtype: 'f32', requiresGrad: true },
    { name: '0.bias', shape: [64], dtype: 'f32', requiresGrad: false },
  ];
  const axes = [{ name: 'dp', size: 8 }];
  const messages = (strategy: ReturnType<typeof zero>): string[] =>
    collectivesOf(strategy.plan({ parameters }, axes))
      .filter(({ when }) => when !== 'start')
      .map(({ when, operation, axis, bytes }) => `${when} ${operation} ${axis} ${bytes}`);

  it('gathers in 8 bits, and again from the second copy of neighbouring ranks', () => {
    const options = { zeroQuantizedWeights: true, zeroHpzPartitionSize: 4 } as const;
    // 512 elements of the weight on each rank, with 2 scales, and 8 of the bias, with 1.
    const [weight, bias] = [8 * (512 + 8), 8 * (8 + 4)];
    const expected = [
      `forward allGather dp ${weight}`,
      `forward allGather dp ${bias}`,
      `backward allGather dp/4 ${weight}`,
      `backward allGather dp/4 ${bias}`,
      `backward reduceScatter dp ${4 * 64 * 64}`,
    ];
    expect(messages(zero({ stage: 3, ...options }))).toEqual(expected);
    expect(messages(fsdp(options))).toEqual(expected);
  });

  it('averages gradients in 4 bits, first in hosts and then between them', () => {
    const sent = (options: Parameters<typeof fsdp>[0]): string[] =>
      messages(fsdp(options)).filter((message) => message.includes('allToAll'));
    const part = 256 + 8;
    expect(sent({ zeroQuantizedGradients: true })).toEqual([`backward allToAll dp ${8 * part}`]);
    expect(sent({ zeroQuantizedGradients: true, zeroHpzPartitionSize: 2 })).toEqual([
      `backward allToAll dp/2 ${8 * part}`,
      `backward allToAll dp/hosts of 2 ${4 * part}`,
    ]);
    expect(sent({ zeroQuantizedGradients: { bits: 8, ranksPerHost: 8 } })).toEqual([
      `backward allToAll dp ${8 * (512 + 8)}`,
    ]);
  });

  it('gathers frozen parameters alone in 8 bits', () => {
    expect(messages(fsdp({ zeroQuantizedNontrainableWeights: true })).slice(0, 2)).toEqual([
      `forward allGather dp ${4 * 64 * 64}`,
      `forward allGather dp ${8 * (8 + 4)}`,
    ]);
  });

  it('is explained with what is sent in few bits', () => {
    const text = explain(
      fsdp({
        zeroQuantizedWeights: true,
        zeroQuantizedGradients: true,
        zeroHpzPartitionSize: 4,
      }).plan({ parameters }, axes),
    );
    expect(text).toContain('parameters are sent in 8 bits by blocks of 256 elements');
    expect(text).toContain(
      'gradients are sent in 4 bits by blocks of 256 elements, first among the 4 ranks of a host',
    );
    expect(text).toMatch(/backward +allToAll +dp\/hosts of 4/);
  });
});

describe('what does not go together is refused', () => {
  it.each([
    { zeroQuantizedWeights: true },
    { zeroQuantizedNontrainableWeights: true },
    { zeroQuantizedGradients: true },
    { zeroHpzPartitionSize: 2 },
  ])('in stages whose ranks keep whole parameters: %o', (options) => {
    for (const stage of [1, 2] as const) {
      expect(() => zero({ stage, ...options })).toThrow(ConfigError);
      expect(() => zero({ stage, ...options })).toThrow(
        new RegExp(`${Object.keys(options)[0]} in zero-${stage}: .* Write stage: 3`),
      );
    }
  });

  it('a second copy beside reshardAfterForward', () => {
    expect(() => fsdp({ zeroHpzPartitionSize: 2, reshardAfterForward: true })).toThrow(
      /Leave out reshardAfterForward/,
    );
  });

  it('weights in 8 bits without those that do not train', () => {
    const options = { zeroQuantizedWeights: true, zeroQuantizedNontrainableWeights: false };
    expect(() => fsdp(options)).toThrow(/Leave out zeroQuantizedNontrainableWeights/);
  });

  it.each([
    [{ zeroHpzPartitionSize: 3 }, /zeroHpzPartitionSize: 3 .* 4 ranks/],
    [{ zeroQuantizedGradients: { ranksPerHost: 3 } }, /ranksPerHost: 3 .* 4 ranks/],
  ])('ranks of a host that do not divide the ranks: %o', (options, message) => {
    const plan = (): unknown => fsdp(options).plan({ parameters: [] }, [{ name: 'dp', size: 4 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(message);
  });

  it('other numbers of bits, and unknown options', () => {
    const given = (zeroQuantizedGradients: object) => () => fsdp({ zeroQuantizedGradients });
    expect(given({ bits: 2 })).toThrow(/bits: 2.*one of 4, 8/);
    expect(given({ bit: 4 })).toThrow(/option bit: /);
  });
});
