import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { elementCount } from '../../src/base/shape.ts';
import type { Shape } from '../../src/spec/dtype.ts';
import { fromData } from '../../src/tensor/create.ts';
import type { Tensor } from '../../src/tensor/tensor.ts';

const recorded = z.string();
const given = z.object({
  dtype: z.enum(['f32', 'i32']),
  shape: z.array(z.int()),
  values: z.string(),
});
export type Given = z.infer<typeof given>;

const schema = z.object({
  torch: z.string(),
  losses: z.array(
    z.object({
      loss: z.string(),
      inputs: z.array(z.union([given, z.array(z.int())])),
      options: z.record(z.string(), z.union([given, z.string(), z.number(), z.boolean()])),
      value: recorded,
      gradients: z.array(recorded.nullable()),
    }),
  ),
  modules: z.array(
    z.object({
      module: z.string(),
      shapes: z.array(z.array(z.int())),
      /** The shape of each initial tensor, and the first digits of the SHA-256 of its bytes. */
      initial: z.record(z.string(), z.string()),
      outputs: z.array(recorded),
      inputGradients: z.array(recorded),
      gradients: z.record(z.string(), recorded),
      buffers: z.record(z.string(), recorded),
    }),
  ),
  functions: z.array(
    z.object({
      function: z.string(),
      shape: z.array(z.int()),
      output: z.string(),
      values: recorded,
      gradient: recorded,
    }),
  ),
  optimizers: z.array(
    z.object({
      optimizer: z.string(),
      settings: z.record(z.string(), z.unknown()),
      losses: recorded,
      parameters: z.record(z.string(), recorded),
    }),
  ),
  averages: z.array(z.object({ average: z.string(), parameters: z.record(z.string(), recorded) })),
  plateaus: z.array(
    z.object({
      settings: z.record(z.string(), z.unknown()),
      metrics: z.array(z.number()),
      rates: z.array(z.array(z.number())),
    }),
  ),
  oneCycles: z.array(
    z.object({
      optimizer: z.enum(['SGD', 'Adam', 'Adagrad']),
      settings: z.record(z.string(), z.unknown()),
      rates: z.array(z.array(z.number())),
      momenta: z.array(z.array(z.number())),
    }),
  ),
  swaRates: z.array(
    z.object({
      settings: z.object({
        swaLr: z.union([z.number(), z.array(z.number())]),
        annealEpochs: z.number().default(10),
        annealStrategy: z.enum(['cos', 'linear']).default('cos'),
      }),
      rates: z.array(z.array(z.number())),
    }),
  ),
});

/** The values that tools/golden-library.py recorded. */
export const golden: z.infer<typeof schema> = schema.parse(
  JSON.parse(readFileSync(new URL('./library.json', import.meta.url), 'utf8')),
);

export function givenTensor({ dtype, shape, values }: Given): Tensor {
  const numbers = values === '' ? [] : values.split(' ').map(Number);
  const data = dtype === 'f32' ? Float32Array.from(numbers) : Int32Array.from(numbers);
  return fromData(data, shape, dtype);
}

/** Does what `waves` of tools/library/record.py does. */
export function waves(shape: Shape, offset = 0): Tensor {
  const values = Float32Array.from({ length: elementCount(shape) }, (_, at) => {
    const i = at + offset;
    return ((((i * i * 29 + i * 53) % 4099) % 128) - 64) / 64;
  });
  return fromData(values, shape, 'f32');
}

/** The sum whose gradients are compared. Each element has another factor. Shape: each any -> []. */
export function weightedSum(outputs: readonly Tensor[]): Tensor {
  const sums = outputs.map((output) => {
    const weights = Float32Array.from({ length: output.numel }, (_, i) => (((i * 7) % 11) - 5) / 4);
    return output.mul(fromData(weights, output.shape, 'f32')).sum();
  });
  return sums.reduce((sum, each) => sum.add(each));
}

/**
 * Returns the largest difference from the recorded elements, divided by the tolerance. A value above 1 is a failure.
 */
export function worstDifference(
  found: ArrayLike<number>,
  text: string,
  { rtol = 1e-5, atol = 1e-6 }: { readonly rtol?: number; readonly atol?: number } = {},
): number {
  const [first = '', rest] = text.split(' ... ');
  const expected = first === '' ? [] : first.split(' ').map(toNumber);
  if (rest === undefined && found.length !== expected.length) return Number.POSITIVE_INFINITY;
  const list = Array.from(found);
  const largest = Math.max(0, ...expected.map(Math.abs).filter(Number.isFinite));
  const ratios = expected.map((value, i) => {
    const other = list[i] ?? Number.NaN;
    if (Object.is(value, other) || (Number.isNaN(value) && Number.isNaN(other))) return 0;
    return Math.abs(other - value) / (atol + rtol * Math.max(Math.abs(value), largest / 10));
  });
  if (rest !== undefined) {
    const sums = rest.split(' ').map(Number);
    const own = sumsOf(list);
    const limit = rtol * (sums[2] ?? 0) + atol;
    ratios.push(...own.map((sum, i) => Math.abs(sum - (sums[i] ?? Number.NaN)) / limit));
  }
  const worst = ratios.map((ratio) => (Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : ratio));
  return Math.max(0, ...worst);
}

/** Does what `record` of tools/library/record.py does. */
function sumsOf(values: readonly number[]): number[] {
  const total = (weight: (value: number, i: number) => number): number =>
    values.reduce((sum, value, i) => sum + weight(value, i), 0);
  return [
    total((value, i) => (value * (((i * 7) % 13) - 6)) / 6),
    total((value, i) => (value * (((i * i) % 17) - 8)) / 8),
    total(Math.abs),
  ];
}

function toNumber(word: string): number {
  const infinities: Readonly<Record<string, number>> = { inf: Infinity, '-inf': -Infinity };
  return infinities[word] ?? Number(word);
}
