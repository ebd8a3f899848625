import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { LineMesh } from '../src/mesh.ts';
import { hostPages } from '../src/paging/page.ts';
import { setRank } from '../src/rank.ts';
import type { Backend } from '../src/spec/backend.ts';
import { allReduce } from '../src/tensor/collectives.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

/**
 * A device that computes in host memory. It writes and frees only when its queue is processed: at the next run, read or
 * sync. A collective reads the memory itself and does not wait for the queue.
 */
function queueingDevice(): Backend {
  const device = interpreter({ mappable: true });
  const queue: (() => void)[] = [];
  const drain = (): void => {
    for (const task of queue.splice(0)) task();
  };
  return {
    ...device,
    write: (buffer, bytes) => {
      const copy = bytes.slice();
      queue.push(() => device.write(buffer, copy));
    },
    free: (buffer) => queue.push(() => device.free(buffer)),
    read: async (buffer) => {
      drain();
      return device.read(buffer);
    },
    compile: async (program) => {
      const executable = await device.compile(program);
      return {
        run: async (inputs, outputs, options) => {
          drain();
          await executable.run(inputs, outputs, options);
        },
        dispose: () => executable.dispose(),
      };
    },
    sync: async () => drain(),
  };
}

/** Returns 16 elements, so that values that travel as one message have no gaps between them. */
const constant = (value: number): Float32Array => new Float32Array(16).fill(value);
const leaf = (value: number): Tensor => fromData(constant(value), [16], 'f32');

describe('a collective on a device that has work queued', () => {
  let other: ProcessGroup;

  beforeEach(() => {
    const [own, peer] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { verify: false }),
    );
    if (own === undefined || peer === undefined) throw new RangeError('two groups');
    other = peer;
    setRank({ device: queueingDevice(), mesh: new LineMesh('dp', own) });
  });

  /** The other rank all-reduces ones. Returns the distinct values in its result. */
  async function sumAtPeer(elements: number, run: () => Promise<unknown>): Promise<number[]> {
    const ones = new Float32Array(elements).fill(1);
    const bytes = new Uint8Array(ones.buffer);
    await Promise.all([run(), other.allReduce({ bytes, dtype: 'f32' }, 'sum')]);
    return [...new Set(ones)];
  }

  test('sends data of the host', async () => {
    expect(await sumAtPeer(16, () => allReduce(leaf(2), 'dp').data())).toEqual([3]);
  });

  test('sends data of the host that stay on the device', async () => {
    const x = leaf(3).makeResident();
    expect(await sumAtPeer(16, () => allReduce(x, 'dp').data())).toEqual([4]);
  });

  test('sends data that are kept in pages', async () => {
    const x = leaf(4);
    await x.pageOut('x', hostPages());
    expect(await sumAtPeer(16, () => allReduce(x, 'dp').data())).toEqual([5]);
  });

  test('sends what it copies into the message of several', async () => {
    const sums = [5, 6].map((value) => allReduce(leaf(value), 'dp', { bucket: 0 }).retain());
    expect(await sumAtPeer(32, () => sums[0]?.data() ?? Promise.resolve())).toEqual([6, 7]);
  });

  test('sends what an update has just copied', async () => {
    const x = leaf(7).makeResident();
    await x.realize();
    await x.assign(leaf(8)).realize();
    expect(await sumAtPeer(16, () => allReduce(x, 'dp').data())).toEqual([9]);
  });
});
