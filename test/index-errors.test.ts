import { cpu } from '@shardwise/backend-cpu';
import { fromData, IndexError, nn, setRank, tensor, zeros } from '@shardwise/core';
import * as sw from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

const indices = (...values: number[]): sw.Tensor => tensor(values, 'i32');
const table = (): sw.Tensor => zeros([3, 2]);

/** Each operation takes an index from 0 to 2. Its name is the one that errors use. */
const operations: Readonly<Record<string, (index: number) => sw.Tensor>> = {
  gather: (index) => table().gather(0, indices(0, index).unsqueeze(1)),
  scatterAdd: (index) => table().scatterAdd(0, indices(0, index).unsqueeze(1), zeros([2, 1])),
  indexSelect: (index) => table().indexSelect(0, indices(0, index)),
  indexAdd: (index) => table().indexAdd(0, indices(0, index), zeros([2, 2])),
  oneHot: (index) => indices(0, index).oneHot(3),
  embedding: (index) => nn.functional.embedding(indices(0, index), table()),
  crossEntropy: (index) => nn.functional.crossEntropy(zeros([2, 3]), indices(0, index)),
  nllLoss: (index) => nn.functional.nllLoss(zeros([2, 3]), indices(0, index)),
};

async function errorOf(run: Promise<unknown>): Promise<unknown> {
  return run.then(
    () => expect.fail('it computed'),
    (error: unknown) => error,
  );
}

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('an index out of range on %s', (_, make) => {
  beforeEach(async () => setRank({ device: await make() }));

  const bad = Object.keys(operations).flatMap((name) =>
    [-1, 3, 2 ** 30].map((index) => ({ name, index })),
  );
  it.each(bad)('$name tells $index, the range and the line', async ({ name, index }) => {
    const error = await errorOf(operations[name]?.(index).data() ?? Promise.resolve());
    if (!(error instanceof IndexError)) throw error;
    const word = name === 'crossEntropy' || name === 'nllLoss' ? 'label' : 'index';
    const many = word === 'label' ? 'labels' : 'indices';
    expect(error.message).toContain(
      `${word} ${index} at element 1, where ${many} go from 0 to 2. Use ${many} in that range`,
    );
    expect(error.message).toMatch(new RegExp(`^${name} at .*index-errors\\.test\\.ts:\\d+:\\d+: `));
    expect(error).toMatchObject({ code: 'INDEX', fields: { operation: name, index, size: 3 } });
  });

  it('is none where it is the one to ignore', async () => {
    const some = nn.functional.crossEntropy(zeros([2, 3]), indices(-1, 1), { ignoreIndex: -1 });
    expect(await some.item()).toBeCloseTo(Math.log(3), 6);
    const usual = nn.functional.crossEntropy(zeros([2, 3]), indices(-100, 1));
    expect(await usual.item()).toBeCloseTo(Math.log(3), 6);
  });

  it('trains nothing, and training goes on with the next batch', async () => {
    const embedding = new sw.nn.Embedding(3, 2);
    const optimizer = new sw.optim.SGD(embedding.parameters(), { lr: 1 });
    const before = (await embedding.weight.data()).slice();
    const step = async (id: number): Promise<void> => {
      optimizer.zeroGrad();
      nn.functional.mseLoss(embedding.forward(indices(1, id)), zeros([2, 2])).backward();
      await optimizer.step();
    };
    expect(String(await errorOf(step(7)))).toContain('index 7 at element 1');
    expect(await embedding.weight.data()).toEqual(before);
    await step(2);
    expect(await embedding.weight.data()).not.toEqual(before);
  });

  it('is found where it is computed, and in a module, whose caller is told', async () => {
    const model = new sw.nn.Sequential(new sw.nn.Embedding(3, 2), new sw.nn.Linear(2, 1));
    const ids = indices(1, 2).mul(2).sub(1);
    const error = await errorOf(model.forward(ids).sum().item());
    expect(String(error)).toMatch(/embedding at .*index-errors\.test\.ts.*index 3 at element 1/);
  });
});

describe('indices', () => {
  beforeEach(() => setRank({ device: interpreter() }));

  it('of another dtype are refused at once, in the words of the operation', () => {
    const floats = tensor([0, 1]);
    expect(() => nn.functional.crossEntropy(zeros([2, 3]), floats)).toThrow(
      /crossEntropy with indices of dtype f32.*\.to\('i32'\)/,
    );
    expect(() => nn.functional.embedding(floats, table())).toThrow(
      'embedding with indices of dtype f32',
    );
    expect(() => floats.oneHot(3)).toThrow('oneHot with indices of dtype f32');
    const longs = fromData(BigInt64Array.of(0n, 1n), [2], 'i64');
    expect(() => nn.functional.nllLoss(zeros([2, 3]), longs)).toThrow(
      'nllLoss with indices of dtype i64',
    );
  });

  it('of i64, as other tools have them, are converted', async () => {
    const longs = fromData(BigInt64Array.of(2n, 0n), [2], 'i64');
    const rows = tensor([[1], [2], [3]]).indexSelect(0, longs.to('i32'));
    expect(await rows.data()).toEqual(Float32Array.of(3, 1));
  });

  it('into nothing are refused at once', () => {
    expect(() => zeros([0, 2]).indexSelect(0, indices(0))).toThrow(
      'indexSelect along dim 0 of a tensor of shape [0, 2]: 1 indices, where there is nothing to index',
    );
  });

  it('need addends of the same dtype', () => {
    const whole = zeros([1, 2], 'i32');
    expect(() => table().indexAdd(0, indices(0), whole)).toThrow('indexAdd of i32 elements to f32');
  });

  it('make one-hot rows', async () => {
    const hot = indices(2, 0).oneHot(3);
    expect(hot.dtype).toBe('bool');
    expect(await hot.data()).toEqual(Uint8Array.of(0, 0, 1, 1, 0, 0));
  });
});
