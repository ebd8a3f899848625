import { noGrad, randn, type Tensor } from 'shardwise';
import type { PretrainedModel } from '@shardwise/models';
import { median } from '../summary.ts';

const REPEATS = 5;

/** A weight, and whether it is the head, which is the transposed table of tokens. */
interface Weight {
  readonly weight: Tensor;
  readonly isHead: boolean;
}

/** Milliseconds of the products of a model's weights with some rows, and nothing else. */
export interface ProductTimes {
  /** The products with `rows` rows of all weights. They read each weight once. */
  ofStep(rows: number): Promise<number>;
  /** The same for each token of a prompt, of which `rows` are multiplied at once. Its scores are not needed. */
  ofPromptToken(rows: number): Promise<number>;
  /** The time in which the products with one row, which wait for memory, read so many bytes. */
  ofReading(bytes: number): Promise<number>;
}

/** The times of a GPT-2's products. Each is measured once. */
export function productTimes(model: PretrainedModel): ProductTimes {
  const weights = model
    .namedParameters()
    .filter(([name, { shape }]) => shape.length === 2 && !name.endsWith('wpe.weight'))
    .map(([name, weight]) => ({ weight, isHead: name.endsWith('wte.weight') }));
  const layers = weights.filter(({ isHead }) => !isHead);
  const known = new Map<string, Promise<number>>();
  const measured = (key: string, of: typeof weights, rows: number): Promise<number> => {
    const found = known.get(key) ?? timeOf(of, rows);
    known.set(key, found);
    return found;
  };
  const weightBytes = weights.reduce((sum, { weight }) => sum + 4 * weight.numel, 0);
  return {
    ofReading: async (bytes) => ((await measured('step 1', weights, 1)) * bytes) / weightBytes,
    ofStep: (rows) => measured(`step ${rows}`, weights, rows),
    ofPromptToken: async (rows) => (await measured(`prompt ${rows}`, layers, rows)) / rows,
  };
}

async function timeOf(weights: readonly Weight[], rows: number): Promise<number> {
  const depthOf = ({ weight, isHead }: Weight): number => weight.shape[isHead ? 1 : 0] ?? 0;
  // Products of numbers that are all equal would be computed in another way.
  const inputs = new Map<number, Tensor>();
  for (const depth of new Set(weights.map(depthOf))) {
    const input = randn([rows, depth]);
    await input.realize();
    inputs.set(depth, input);
  }
  // Some number that all products are needed for.
  const run = (): Tensor =>
    weights
      .flatMap(
        (each) => inputs.get(depthOf(each))?.matmul(each.weight, { transposeB: each.isHead }) ?? [],
      )
      .map((product) => product.max())
      .reduce((sum, each) => sum.add(each));
  const times: number[] = [];
  // The first one compiles.
  for (let index = 0; index <= REPEATS; index++) {
    const start = performance.now();
    await noGrad(run).item();
    if (index > 0) times.push(performance.now() - start);
  }
  return median(times);
}
