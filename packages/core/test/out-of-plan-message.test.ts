import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { ExtendedMesh, LineMesh } from '../src/mesh.ts';
import { setRank } from '../src/rank.ts';
import type { ProcessGroup, TypedBytes } from '../src/spec/process-group.ts';
import { allGather, allReduce, broadcast } from '../src/tensor/collectives.ts';
import { fromData, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';

const numbers = (...values: number[]): TypedBytes => ({
  bytes: new Uint8Array(Int32Array.from(values).buffer),
  dtype: 'i32',
});
const floats = (...values: number[]): TypedBytes => ({
  bytes: new Uint8Array(Float32Array.from(values).buffer),
  dtype: 'f32',
});

describe('what a program sends beside what it computes', () => {
  let peer: ProcessGroup;
  /** The calls that this rank has made, in order. */
  let calls: string[];

  beforeEach(() => {
    const [own, other] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { verify: false }),
    );
    if (own === undefined || other === undefined) throw new RangeError('two groups');
    peer = other;
    calls = [];
    const reduce = own.allReduce.bind(own);
    const gather = own.allGather.bind(own);
    own.allReduce = (buffer, ...rest) => {
      calls.push(`allReduce of ${new Float32Array(buffer.bytes.buffer)[0] ?? NaN}`);
      return reduce(buffer, ...rest);
    };
    own.allGather = (input, ...rest) => {
      calls.push(`allGather of ${[...new Int32Array(input.bytes.slice().buffer)].join(' and ')}`);
      return gather(input, ...rest);
    };
    // The same two ranks also form the group of axis tp.
    const mesh = new ExtendedMesh(new LineMesh('dp', own), 'tp', own);
    setRank({ device: interpreter(), mesh });
  });

  const told = (value: number): Tensor => fromData(Int32Array.of(value), [1], 'i32');

  test('makes no other plan of the step', async () => {
    const before = statistics().plansMade;
    const step = async (...words: number[]): Promise<number[]> => {
      const weight = tensor([8, 9]);
      const mean = allReduce(weight.mul(2), 'dp', { reduce: 'avg' });
      void peer.allReduce(floats(0, 0), 'avg');
      const all = words.map((word) => allGather(told(word), 'dp', 0).retain());
      for (const word of words) void peer.allGather(numbers(word + 1), numbers(0, 0));
      weight.assign(weight.sub(mean.div(4)));
      expect([...(await weight.data())]).toEqual([6, 6.75]);
      return (await Promise.all(all.map((each) => each.data()))).flatMap((each) =>
        [...each].map(Number),
      );
    };
    expect(await step(5)).toEqual([5, 6]);
    expect(await step()).toEqual([]);
    expect(await step(7)).toEqual([7, 8]);
    expect(statistics().plansMade - before).toBe(1);
  });

  test('is sent in the order of the program, wherever a run ends', async () => {
    const x = tensor([1, 2]);
    const first = allReduce(x.mul(3), 'dp').retain();
    const word = allGather(told(5), 'dp', 0).retain();
    const second = allReduce(x.mul(7), 'dp').retain();
    const sums = Promise.all([first, second, word].map((each) => each.data()));
    // The ranks' calls would not match in any other order.
    void peer.allReduce(floats(1, 1), 'sum');
    void peer.allGather(numbers(6), numbers(0, 0));
    void peer.allReduce(floats(2, 2), 'sum');
    expect((await sums).map((each) => [...each])).toEqual([
      [4, 7],
      [9, 16],
      [5, 6],
    ]);
    expect(calls).toEqual(['allReduce of 3', 'allGather of 5', 'allReduce of 7']);
  });

  test('may pass on what it has brought', async () => {
    const sum = allReduce(tensor([1, 2]).mul(3), 'dp').retain();
    const word = allGather(allGather(told(5), 'dp', 0), 'tp', 0).retain();
    void peer.allReduce(floats(0, 0), 'sum');
    void peer.allGather(numbers(6), numbers(0, 0));
    void peer.allGather(numbers(5, 6), numbers(0, 0, 0, 0));
    expect([...(await sum.data())]).toEqual([3, 6]);
    expect([...(await word.data())]).toEqual([5, 6, 5, 6]);
    expect(calls).toEqual(['allReduce of 3', 'allGather of 5', 'allGather of 5 and 6']);
  });

  test('is a part of the program where the program reads it, or what it is made of', async () => {
    const own = told(5);
    const word = broadcast(own, 'dp', 0).retain();
    const more = word.add(own).retain();
    void peer.broadcast(numbers(0), 0);
    expect([...(await more.data())]).toEqual([10]);
    expect([...(await word.data())]).toEqual([5]);
  });
});
