import { noGrad, ones, type Tensor } from 'shardwise';
import type { PretrainedModel } from '@shardwise/models';
import { median } from '../summary.ts';

const REPEATS = 5;

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
    const found = known.get(key) ?? timeOf(() => products(of, rows));
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

async function timeOf(run: () => Tensor): Promise<number> {
  const times: number[] = [];
  // The first one compiles.
  for (let index = 0; index <= REPEATS; index++) {
    const start = performance.now();
    await noGrad(run).item();
    if (index > 0) times.push(performance.now() - start);
  }
  return median(times);
}

/** Some number that all products are needed for. */
function products(
  weights: readonly { readonly weight: Tensor; readonly isHead: boolean }[],
  rows: number,
): Tensor {
  return weights
    .map(({ weight, isHead }) => {
      const [depth = 0, columns = 0] = weight.shape;
      // The head is the transposed table of tokens.
      const x = ones([rows, isHead ? columns : depth]);
      return x.matmul(weight, { transposeB: isHead }).max();
    })
    .reduce((sum, each) => sum.add(each));
}
