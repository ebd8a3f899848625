import { cpu } from '@shardwise/backend-cpu';
import { fromData, nn, noGrad, optim, setRank, type Tensor } from '@shardwise/core';
import type { ParameterServers } from '@shardwise/parameter-server';
import { type ParameterServer, ServerTable } from '@shardwise/parameter-server';
import { beforeEach, describe, expect, it } from 'vitest';
import { directServers, startServers, type Way } from './direct-servers.ts';

beforeEach(async () => setRank({ device: await cpu() }));

async function started(
  count: number,
  way: Way = {},
): Promise<{ readonly own: readonly ParameterServer[]; readonly servers: ParameterServers }> {
  const own = await startServers(count);
  return {
    own,
    servers: directServers(
      own.map(({ handler }) => handler),
      way,
    ),
  };
}

const all = (rows: number): Int32Array => Int32Array.from({ length: rows }, (_, row) => row);
const valuesOf = async (tensor: Tensor): Promise<readonly number[]> =>
  Array.from((await tensor.data()) as Float32Array);
const batches = [
  [4, 0, 4, 9],
  [9, 9, 1, 0],
  [2, 3, 4, 5],
].map((indices) => Int32Array.from(indices));

describe('a table on servers', () => {
  it.each([
    ['SGD', 1],
    ['SGD', 3],
    ['Adagrad', 2],
  ] as const)('trains by %s on %i servers as nn.Embedding does', async (optimizer, count) => {
    const { servers } = await started(count);
    const table = await ServerTable.open({
      servers,
      name: 'words',
      rows: 10,
      dims: 3,
      lr: 0.1,
      optimizer,
    });
    const dense = new nn.Embedding(10, 3);
    const initial = await table.read(all(10));
    noGrad(() => dense.weight.assign(initial));
    const Reference = { SGD: optim.SGD, Adagrad: optim.Adagrad }[optimizer];
    const denseOptimizer = new Reference(dense.parameters(), { lr: 0.1 });
    for (const indices of batches) {
      const scale = fromData(
        Float32Array.from({ length: 12 }, (_, index) => index / 7),
        [2, 2, 3],
        'f32',
      );
      const looked = await table.lookup(indices, [2, 2]);
      looked.mul(scale).square().sum().backward();
      dense
        .forward(fromData(indices, [2, 2], 'i32'))
        .mul(scale)
        .square()
        .sum()
        .backward();
      await table.step();
      await denseOptimizer.step();
      denseOptimizer.zeroGrad();
    }
    const learned = await valuesOf(await table.read(all(10)));
    const expected = await valuesOf(dense.weight);
    expect(learned).toHaveLength(30);
    for (const [index, value] of learned.entries())
      expect(value).toBeCloseTo(expected[index] ?? Number.NaN, 6);
    expect(learned).not.toEqual(await valuesOf(initial));
  });

  it('moves the rows that a step touches, each once, and no others', async () => {
    const { servers, own } = await started(2);
    const table = await ServerTable.open({ servers, name: 't', rows: 1_000_000, dims: 8, lr: 1 });
    const looked = await table.lookup(Int32Array.of(7, 999_999, 7, 500_000));
    looked.sum().backward();
    await table.step();
    const rowBytes = 8 * 4;
    expect(table.traffic).toEqual({
      pulledRows: 3,
      pulledBytes: 3 * rowBytes,
      pushedRows: 3,
      pushedBytes: 3 * rowBytes,
    });
    expect(own.map(({ tables }) => tables['t']?.pushedRows)).toEqual([1, 2]);
  });

  it('counts a push that is sent again once', async () => {
    let messages = 0;
    // Every fourth message loses its answer.
    const { servers, own } = await started(1, {
      loses: () => (++messages % 4 === 0 ? 'answer' : undefined),
    });
    const table = await ServerTable.open({
      servers,
      name: 't',
      rows: 2,
      dims: 1,
      lr: 1,
      standardDeviation: 0,
    });
    for (let step = 0; step < 8; step++) {
      (await table.lookup(Int32Array.of(1))).sum().backward();
      await table.step();
    }
    expect(await valuesOf(await table.read(Int32Array.of(1)))).toEqual([-8]);
    expect(own[0]?.tables['t']?.duplicates).toBeGreaterThan(0);
  });

  it('divides by the number of workers where it is told to', async () => {
    const { servers } = await started(1);
    const common = { servers, name: 't', rows: 2, dims: 1, lr: 1, standardDeviation: 0 };
    const table = await ServerTable.open({ ...common, divideBy: 4 });
    (await table.lookup(Int32Array.of(0))).sum().backward();
    await table.step();
    expect(await valuesOf(await table.read(Int32Array.of(0)))).toEqual([-0.25]);
  });

  it('refuses a lookup when the step before was forgotten, but not after an evaluation', async () => {
    const { servers } = await started(1);
    const table = await ServerTable.open({ servers, name: 't', rows: 2, dims: 1, lr: 1 });
    await table.read(Int32Array.of(0));
    (await table.lookup(Int32Array.of(0))).sum().backward();
    await expect(table.lookup(Int32Array.of(0))).rejects.toThrow(/await table.step\(\)/);
  });

  it('refuses what is no row, another table of its name, and names that are no words', async () => {
    const { servers } = await started(2);
    const table = await ServerTable.open({ servers, name: 't', rows: 10, dims: 1, lr: 1 });
    await expect(table.lookup(Int32Array.of(10))).rejects.toThrow(/row 10 of table 't'/);
    await expect(table.lookup(Int32Array.of(-1))).rejects.toThrow(/row -1 of table 't'/);
    await expect(table.lookup(Int32Array.of(1), [2])).rejects.toThrow(/1 indices as \[2\]/);
    const other = { servers, name: 't', rows: 11, dims: 1, lr: 1 };
    await expect(ServerTable.open(other)).rejects.toThrow(/a name of its own/);
    await expect(ServerTable.open({ ...other, name: '../t' })).rejects.toThrow(/letters, digits/);
    const none = directServers([]);
    await expect(ServerTable.open({ ...other, servers: none })).rejects.toThrow(/without servers/);
  });
});
