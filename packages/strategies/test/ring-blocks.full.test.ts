import { cpu } from '@shardwise/backend-cpu';
import { observeCalls } from '@shardwise/collectives';
import { fromData, manualSeed, nn, noGrad, type Tensor } from '@shardwise/core';
import type { Backend } from '@shardwise/core/spec';
import {
  compose,
  contextParallel,
  type ContextMethod,
  ddp,
  parallelize,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';

const [heads, width, own] = [2, 32, 64];
/** The keys and values of one rank. */
const blockBytes = 2 * heads * own * width * Float32Array.BYTES_PER_ELEMENT;

/** Attention that is most of the memory of a pass. */
class Attending extends nn.Module {
  readonly tokens = new nn.Embedding(4, heads * width);

  /** Shape: ids i32 [1, T] -> []. */
  forward(ids: Tensor): Tensor {
    const q = this.tokens
      .forward(ids)
      .reshape([1, ids.shape[1] ?? 0, heads, width])
      .transpose(1, 2);
    const attend = nn.functional.scaledDotProductAttention;
    return attend(q, q.mul(0.5), q.add(1), { causal: true }).square().sum();
  }
}

interface Observed {
  readonly peakBytes: number;
  /** For each run on the device, how many messages the rank had begun to send before in this pass. */
  readonly sent: readonly number[];
}

/** Calls a function before each run. */
function watch(device: Backend, onRun: () => void): Backend {
  const compile = device.compile.bind(device);
  const watched: Backend['compile'] = async (program, ...rest) => {
    const executable = await compile(program, ...rest);
    const run = executable.run.bind(executable);
    executable.run = async (inputs, outputs, options) => {
      onRun();
      await run(inputs, outputs, options);
    };
    return executable;
  };
  return Object.assign(device, { compile: watched });
}

/** A pass of a sequence of which each rank has as many tokens, whatever the number of ranks. */
async function pass(ranks: number, method: ContextMethod, trains: boolean): Promise<Observed> {
  const onRun = new Map<number, () => void>();
  const [first] = await onRanks(
    ranks,
    async ({ rank, device, group }) => {
      manualSeed(0);
      const length = own * ranks;
      const strategy = compose(contextParallel({ method, lossWeight: 'sum' }), ddp({ axis: 'cp' }));
      const parallel = await parallelize(new Attending(), strategy);
      const ids = Int32Array.from({ length }, (_, i) => i % 4);
      const once = async (): Promise<void> => {
        const tokens = fromData(ids, [1, length], 'i32');
        const loss = trains ? parallel.forward(tokens) : noGrad(() => parallel.forward(tokens));
        if (trains) loss.backward();
        await loss.item();
      };
      // The first passes also compare batches.
      await once();
      await once();
      let calls = 0;
      observeCalls(group, ({ operation }) => {
        if (operation === 'send') calls++;
        return null;
      });
      const sent: number[] = [];
      onRun.set(rank, () => void sent.push(calls));
      await once();
      return { peakBytes: device.usage?.().peakBytes ?? NaN, sent };
    },
    {
      axes: [{ name: 'cp', size: ranks }],
      createDevice: async (rank) =>
        watch(await cpu({ byteLength: 32 * 1024 * 1024 }), () => onRun.get(rank)?.()),
    },
  );
  return first ?? expect.fail('no rank');
}

it('in a ring, a rank has two blocks of keys and values, however many ranks there are', async () => {
  const peakOf = async (ranks: number, method: ContextMethod): Promise<number> =>
    (await pass(ranks, method, false)).peakBytes;
  const ofTwo = await peakOf(2, 'ring');
  const ofThree = await peakOf(3, 'ring');
  // With two ranks there are no other blocks.
  expect(ofThree - ofTwo).toBeLessThan(blockBytes);
  expect((await peakOf(6, 'ring')) - ofThree).toBeLessThan(blockBytes / 8);
  const collected = (await peakOf(6, 'allGather')) - (await peakOf(3, 'allGather'));
  expect(collected).toBeGreaterThan(3 * blockBytes);
});

it('in the backward pass of a ring, a rank has as many blocks and gradients, however many ranks there are', async () => {
  const [four, six] = [await pass(4, 'ring', true), await pass(6, 'ring', true)];
  expect(six.peakBytes - four.peakBytes).toBeLessThan(blockBytes / 8);
});

it.each([2, 3, 6])(
  'the next block travels while a rank of %i computes with this one',
  async (ranks) => {
    for (const trains of [false, true]) {
      const { sent } = await pass(ranks, 'ring', trains);
      const each = Array.from({ length: ranks - 1 }, (_, block) => 2 * (block + 1));
      // First the queries, and then this rank's own block and those that came. Before a block is computed, its keys and
      // values are on their way to the next rank. The last block goes nowhere.
      expect(sent.slice(0, ranks + 1)).toEqual([0, ...each, 2 * (ranks - 1)]);
      // The backward pass rings again, and gradients come home.
      expect(sent.at(-1)).toBe((trains ? 6 : 2) * (ranks - 1));
    }
  },
);

it('exchanges of heads are nodes of the graph, which have not run when the pass returns', async () => {
  const [found] = await onRanks(
    2,
    async () => {
      const strategy = compose(
        contextParallel({ method: 'ulysses', lossWeight: 'sum' }),
        ddp({ axis: 'cp' }),
      );
      const parallel = await parallelize(new Attending(), strategy);
      const loss = parallel.forward(fromData(new Int32Array(2 * own), [1, 2 * own], 'i32'));
      const nodes = new Set([loss.node]);
      for (const node of nodes) for (const input of node.inputs) nodes.add(input);
      const exchanges = [...nodes].filter(({ op }) => op === 'allToAll');
      const waiting = exchanges.filter(({ value }) => value === null).length;
      await loss.item();
      return { exchanges: exchanges.length, waiting };
    },
    { axes: [{ name: 'cp', size: 2 }] },
  );
  // Those of queries, keys, values and results.
  expect(found).toEqual({ exchanges: 4, waiting: 4 });
});
