import type { TypedBytes } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import {
  allReduceSpecification,
  directAllReduce,
  directAllReduceCost,
} from '../src/algorithms/direct-all-reduce.ts';
import {
  directGather,
  directGatherCost,
  gatherSpecification,
} from '../src/algorithms/direct-gather.ts';
import {
  directReduceScatter,
  directReduceScatterCost,
  reduceScatterSpecification,
} from '../src/algorithms/direct-reduce-scatter.ts';
import {
  directReduce,
  directReduceCost,
  reduceSpecification,
} from '../src/algorithms/direct-reduce.ts';
import {
  directScatter,
  directScatterCost,
  scatterSpecification,
} from '../src/algorithms/direct-scatter.ts';
import {
  disseminationBarrier,
  disseminationBarrierCost,
} from '../src/algorithms/dissemination-barrier.ts';
import {
  allToAllSpecification,
  pairwiseAllToAll,
  pairwiseAllToAllCost,
} from '../src/algorithms/pairwise-all-to-all.ts';
import {
  allGatherSpecification,
  ringAllGather,
  ringAllGatherCost,
} from '../src/algorithms/ring-all-gather.ts';
import {
  broadcastSpecification,
  treeBroadcast,
  treeBroadcastCost,
} from '../src/algorithms/tree-broadcast.ts';
import {
  twoPhaseAllReduce,
  twoPhaseAllReduceCost,
} from '../src/algorithms/two-phase-all-reduce.ts';
import type { Cost, PerRank, Wire } from '../src/algorithms/wire.ts';
import { groupWire } from '../src/group/group-wire.ts';
import { createLoopbackTransports } from '../src/transports/loopback.ts';

const add = (a: number, b: number): number => a + b;

/** Runs one algorithm; `inputElements` and `outputElements` are per rank. */
interface Case {
  readonly name: string;
  readonly inputElements: (size: number) => number;
  readonly outputElements: (size: number) => number;
  readonly inPlace: boolean;
  /** n of the operation's shape. */
  readonly elements: (size: number) => number;
  readonly run: (wire: Wire, input: TypedBytes, output: TypedBytes) => Promise<void>;
  readonly specification: (inputs: PerRank) => PerRank;
  readonly cost: Cost;
}

// 60 elements divide by every size from 1 to 6.
const N = 60;
const same = (): number => N;
const times = (size: number): number => N * size;
const none = (): number => 0;

const cases: readonly Case[] = [
  {
    name: 'directAllReduce',
    inputElements: same,
    outputElements: same,
    inPlace: true,
    elements: same,
    run: (wire, buffer) => directAllReduce(wire, buffer.bytes, 'f32', 'sum'),
    specification: (inputs) => allReduceSpecification(inputs, add),
    cost: directAllReduceCost,
  },
  {
    name: 'twoPhaseAllReduce',
    inputElements: same,
    outputElements: same,
    inPlace: true,
    elements: same,
    run: (wire, buffer) => twoPhaseAllReduce(wire, buffer.bytes, 'f32', 'sum'),
    specification: (inputs) => allReduceSpecification(inputs, add),
    cost: twoPhaseAllReduceCost,
  },
  {
    name: 'directReduceScatter',
    inputElements: times,
    outputElements: same,
    inPlace: false,
    elements: same,
    run: (wire, input, output) =>
      directReduceScatter(wire, input.bytes, output.bytes, 'f32', 'sum'),
    specification: (inputs) => reduceScatterSpecification(inputs, add),
    cost: directReduceScatterCost,
  },
  {
    name: 'ringAllGather',
    inputElements: same,
    outputElements: times,
    inPlace: false,
    elements: same,
    run: (wire, input, output) => ringAllGather(wire, input.bytes, output.bytes),
    specification: allGatherSpecification,
    cost: ringAllGatherCost,
  },
  {
    name: 'treeBroadcast from the last rank',
    inputElements: same,
    outputElements: same,
    inPlace: true,
    elements: same,
    run: (wire, buffer) => treeBroadcast(wire, buffer.bytes, wire.size - 1),
    specification: (inputs) => broadcastSpecification(inputs, inputs.length - 1),
    cost: treeBroadcastCost,
  },
  {
    name: 'directReduce to the last rank',
    inputElements: same,
    outputElements: same,
    inPlace: true,
    elements: same,
    run: (wire, buffer) => directReduce(wire, buffer.bytes, wire.size - 1, 'f32', 'sum'),
    specification: (inputs) => reduceSpecification(inputs, inputs.length - 1, add),
    cost: directReduceCost,
  },
  {
    name: 'directScatter from the last rank',
    inputElements: times,
    outputElements: same,
    inPlace: false,
    elements: same,
    run: (wire, input, output) => directScatter(wire, input.bytes, output.bytes, wire.size - 1),
    specification: (inputs) => scatterSpecification(inputs, inputs.length - 1),
    cost: directScatterCost,
  },
  {
    name: 'pairwiseAllToAll',
    inputElements: same,
    outputElements: same,
    inPlace: false,
    elements: same,
    run: (wire, input, output) => {
      const equal = Array.from({ length: wire.size }, () => (N * 4) / wire.size);
      return pairwiseAllToAll(wire, input.bytes, output.bytes, { input: equal, output: equal });
    },
    specification: (inputs) => {
      const { length: size } = inputs;
      const equal = inputs.map(() => inputs.map(() => N / size));
      return allToAllSpecification(inputs, equal);
    },
    cost: pairwiseAllToAllCost,
  },
  {
    name: 'disseminationBarrier',
    inputElements: none,
    outputElements: none,
    inPlace: true,
    elements: none,
    run: (wire) => disseminationBarrier(wire),
    specification: (inputs) => inputs,
    cost: disseminationBarrierCost,
  },
];

const sizes = [1, 2, 3, 4, 5, 6];

async function run(test: Case, size: number) {
  const transports = createLoopbackTransports(size);
  const inputs = transports.map((_, rank) =>
    Float32Array.from({ length: test.inputElements(size) }, (_, i) => 1000 * rank + i),
  );
  const before = inputs.map((values) => [...values]);
  const outputs = inputs.map((input) =>
    test.inPlace ? input : new Float32Array(test.outputElements(size)),
  );
  const members = transports.map((_, rank) => rank);
  await Promise.all(
    transports.map((transport, rank) =>
      test.run(
        groupWire({ transport, members, id: 0 }, 'data'),
        { bytes: new Uint8Array(inputs[rank]!.buffer), dtype: 'f32' },
        { bytes: new Uint8Array(outputs[rank]!.buffer), dtype: 'f32' },
      ),
    ),
  );
  return { before, outputs: outputs.map((values) => [...values]), transports };
}

describe.each(cases)('$name', (test) => {
  it.each(sizes)('gives what its specification says, with %i ranks', async (size) => {
    const { before, outputs } = await run(test, size);
    expect(outputs).toEqual(test.specification(before));
  });

  it.each(sizes)('takes the steps and bytes of its cost, with %i ranks', async (size) => {
    const { transports } = await run(test, size);
    const traffic = transports.map((transport) => transport.traffic);
    const bytes = 4 * test.elements(size);
    expect(Math.max(...traffic.map(({ steps }) => steps))).toBe(test.cost.steps(size));
    expect(Math.max(...traffic.map((sent) => sent.bytes))).toBe(
      test.cost.bytesPerRank(size, bytes),
    );
  });
});

describe('directGather', () => {
  it.each(sizes)('fills the output of root only, with %i ranks', async (size) => {
    const root = size - 1;
    const transports = createLoopbackTransports(size);
    const outputs = transports.map(() => new Uint8Array(2 * size));
    const members = transports.map((_, rank) => rank);
    await Promise.all(
      transports.map((transport, rank) =>
        directGather(
          groupWire({ transport, members, id: 0 }, 'data'),
          Uint8Array.of(rank, rank + 1),
          outputs[rank]!,
          root,
        ),
      ),
    );
    const expected = gatherSpecification(
      members.map((rank) => [rank, rank + 1]),
      root,
    );
    expect([...outputs[root]!]).toEqual(expected[root]);
    for (const rank of members.slice(0, root))
      expect(outputs[rank]!.every((b) => b === 0)).toBe(true);
    const sent = transports.map(({ traffic }) => traffic.bytes);
    expect(Math.max(...sent)).toBe(directGatherCost.bytesPerRank(size, 2));
  });
});

describe('treeBroadcast', () => {
  it('passes long messages on in segments', async () => {
    const [first, second, third] = createLoopbackTransports(3);
    const buffers = [7, 0, 0].map((value) => new Uint8Array((5 << 20) / 2).fill(value));
    await Promise.all(
      [first!, second!, third!].map((transport, rank) =>
        treeBroadcast(
          groupWire({ transport, members: [0, 1, 2], id: 0 }, 'data'),
          buffers[rank]!,
          0,
        ),
      ),
    );
    expect(buffers.every((buffer) => buffer.every((value) => value === 7))).toBe(true);
    expect(first!.traffic.messages).toBe(6);
  });
});
