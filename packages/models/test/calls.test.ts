import { concat, fromData, noGrad, type Tensor } from '@shardwise/core';
import {
  attendTo,
  type AttentionCache,
  BertModel,
  type CachedAttentionOptions,
  type ForwardCall,
  type PretrainedModel,
} from '@shardwise/models';
import { beforeAll, describe, expect, test } from 'vitest';
import { build, decoderCases, oneRank } from './decoder-cases.ts';
import { tokens } from './golden/formulas.ts';

beforeAll(oneRank);

const names = ['GPT-2', 'Llama', 'Mistral', 'Gemma 2', 'Gemma 3', 'Mixtral'];
const cases = decoderCases.filter(({ name }) => names.includes(name));

const ints = (values: readonly number[]): Tensor =>
  fromData(Int32Array.from(values), [1, values.length], 'i32');

async function logitsOf(
  model: PretrainedModel,
  ids: Tensor,
  call: ForwardCall = {},
): Promise<readonly number[]> {
  return Array.from(await noGrad(() => model.forward(ids, call)).data(), Number);
}

function expectEqual(found: readonly number[], expected: readonly number[]): void {
  expect(found.length).toBe(expected.length);
  const worst = Math.max(...found.map((value, i) => Math.abs(value - (expected[i] ?? NaN))));
  expect(worst).toBeLessThan(1e-5);
}

describe.each(cases)('$name', (golden) => {
  test('computes documents in one row as it computes them in rows of their own', async () => {
    const model = await build(golden);
    const [first, second] = [tokens('first', [1, 9]), tokens('second', [1, 7])];
    const packed = concat([first, second], 1);
    const documents = ints([
      ...Array.from({ length: 9 }, () => 4),
      ...Array.from({ length: 7 }, () => 2),
    ]);
    const separate = [...(await logitsOf(model, first)), ...(await logitsOf(model, second))];
    expectEqual(await logitsOf(model, packed, { documents }), separate);
    const lossOf = async (ids: Tensor, call: ForwardCall = {}): Promise<number> =>
      model.forward(ids, { ...call, labels: ids }).item();
    // A document of n tokens has n - 1 that are to be predicted.
    const mean = (8 * (await lossOf(first)) + 6 * (await lossOf(second))) / 14;
    expectEqual([await lossOf(packed, { documents })], [mean]);
  });

  test('does not see padding, on either side', async () => {
    const model = await build(golden);
    const ids = tokens('first', [1, 9]);
    const padding = tokens('padding', [1, 5]);
    const alone = await logitsOf(model, ids);
    const after = await logitsOf(model, concat([ids, padding], 1), {
      attentionMask: ints([1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]),
    });
    expectEqual(after.slice(0, alone.length), alone);
    const before = await logitsOf(model, concat([padding, ids], 1), {
      attentionMask: ints([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
      positionIds: ints([0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
    });
    expectEqual(before.slice(-alone.length), alone);
  });

  test('computes the logits of the last tokens alone if it is asked to', async () => {
    const model = await build(golden);
    const ids = tokens('first', [1, 9]);
    const all = model.forward(ids);
    const last = model.forward(ids, { logitsToKeep: 2 });
    expect(last.shape).toEqual([1, 2, all.shape[2]]);
    const expected = Array.from(await all.slice(1, 7, 9).data(), Number);
    expectEqual(Array.from(await last.data(), Number), expected);
    expect(model.forward(ids, { logitsToKeep: 20 }).shape).toEqual(all.shape);
    expect(() => model.forward(ids, { logitsToKeep: 0 })).toThrow(/an integer from 1 on/);
    expect(() => model.forward(ids, { logitsToKeep: 1, labels: ids })).toThrow(/labels/);
  });

  test('computes a row in parts if a cache keeps keys and values', async () => {
    const model = await build(golden);
    const ids = tokens('first', [1, 12]);
    const cache = new Kept();
    const found: number[] = [];
    for (const [start, stop] of [
      [0, 6],
      [6, 9],
      [9, 10],
      [10, 12],
    ] as const) {
      const positionIds = ints(Array.from({ length: stop - start }, (_, i) => start + i));
      found.push(...(await logitsOf(model, ids.slice(1, start, stop), { cache, positionIds })));
    }
    expectEqual(found, await logitsOf(model, ids));
  });
});

describe('A long row', () => {
  const length = 600;
  const long = async (name: string): Promise<PretrainedModel> => {
    const golden = cases.find((each) => each.name === name);
    if (golden === undefined) throw new RangeError(`no case ${name}`);
    return build({ ...golden, config: { ...golden.config, max_position_embeddings: length } });
  };

  test.each(['Llama', 'Gemma 2'])(
    'computes the documents of %s as rows of their own',
    async (name) => {
      const model = await long(name);
      const [first, second] = [tokens('first', [1, 400]), tokens('second', [1, 200])];
      const numbers = Array.from({ length }, (_, i) => (i < 400 ? 1 : 0));
      const separate = [...(await logitsOf(model, first)), ...(await logitsOf(model, second))];
      const packed = concat([first, second], 1);
      expectEqual(await logitsOf(model, packed, { documents: ints(numbers) }), separate);
    },
  );

  test.each(['Llama', 'Mistral'])(
    'gives documents of %s of any lengths the gradients of rows of their own',
    async (name) => {
      const lengths = [1, 130, 37, 200, 5, 227];
      const ids = tokens('first', [1, length]);
      const gradientsOf = async (packed: boolean): Promise<readonly number[]> => {
        const model = await long(name);
        const documents = ints(
          lengths.flatMap((count, at) => Array.from({ length: count }, () => at)),
        );
        if (packed) model.forward(ids, { documents }).square().mean().backward();
        let start = 0;
        for (const count of packed ? [] : lengths) {
          const own = model.forward(ids.slice(1, start, (start += count)));
          own
            .square()
            .mean()
            .mul(count / length)
            .backward();
        }
        const all = [...model.parameters()].map(async ({ grad }) =>
          Array.from((await grad?.data()) ?? [], Number),
        );
        return (await Promise.all(all)).flat();
      };
      expectEqual(await gradientsOf(true), await gradientsOf(false));
    },
  );

  test('has the windows of short ones, and their gradients', async () => {
    const gradientOf = async (documents: boolean): Promise<readonly number[]> => {
      const model = await long('Mistral');
      const ids = tokens('first', [1, 300]);
      // The last tokens depend on a window of tokens before them, which a row of its own has as well.
      const row = documents ? ids : ids.slice(1, 100, 300);
      const positionIds = ints(
        Array.from({ length: row.shape[1] ?? 0 }, (_, i) => i + (documents ? 0 : 100)),
      );
      model.forward(row, { positionIds }).slice(1, -20).square().sum().backward();
      const parameters = new Map(model.namedParameters());
      const grad = parameters.get('model.layers.0.self_attn.k_proj.weight')?.grad;
      return Array.from((await grad?.data()) ?? [], Number);
    };
    expectEqual(await gradientOf(true), await gradientOf(false));
  });
});

test('A cache without positions, a mask of another length, and documents with a cache are errors.', async () => {
  const [golden] = cases;
  if (golden === undefined) throw new RangeError('no case');
  const model = await build(golden);
  const ids = tokens('first', [1, 4]);
  expect(() => model.forward(ids, { cache: new Kept() })).toThrow('no positionIds');
  expect(() => model.forward(ids, { attentionMask: ints([1, 1]) })).toThrow(
    'an attentionMask of shape [1, 2]: 4 keys',
  );
  const cache = new Kept();
  const positionIds = ints([0, 1, 2, 3]);
  model.forward(ids, { cache, positionIds });
  expect(() => model.forward(ids, { cache, positionIds, documents: ints([1, 1, 2, 2]) })).toThrow(
    'those of a cache have no document',
  );
});

/** A cache that joins the keys and values of all calls. */
class Kept implements AttentionCache {
  readonly #layers = new Map<number, readonly [key: Tensor, value: Tensor]>();

  attend(
    layer: number,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    options: CachedAttentionOptions,
  ): Tensor {
    const before = this.#layers.get(layer);
    const keys = before === undefined ? key : concat([before[0], key], 2);
    const values = before === undefined ? value : concat([before[1], value], 2);
    this.#layers.set(layer, [keys, values]);
    return attendTo(query, keys, values, options);
  }
}

describe('tokens that are no rows of a tensor are refused', () => {
  test.each(cases)('$name', async (golden) => {
    const model = await build(golden);
    // @ts-expect-error: a list is no tensor.
    expect(() => model.forward([[1, 2]])).toThrow(
      /inputIds: an array of 1 in the place of a tensor/,
    );
    expect(() => model.forward(fromData(Int32Array.of(1, 2), [2], 'i32'))).toThrow(
      /inputIds of shape \[2\]: 1 dims, and tokens are rows: \[B, T\]/,
    );
  });

  test('by an encoder', () => {
    const sizes = { vocabSize: 12, hiddenSize: 8, intermediateSize: 8, numAttentionHeads: 2 };
    const model = new BertModel({ ...sizes, numHiddenLayers: 1, maxPositionEmbeddings: 8 });
    expect(() => model.forward(fromData(Int32Array.of(1, 2), [2], 'i32'))).toThrow(
      /BertModel.forward with inputIds of shape \[2\]/,
    );
  });
});
