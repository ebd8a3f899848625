import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { LineMesh } from '../src/mesh.ts';
import { setRank } from '../src/rank.ts';
import type { Backend, HostMemory } from '../src/spec/backend.ts';
import { allReduce } from '../src/tensor/collectives.ts';
import { tensor } from '../src/tensor/create.ts';

/** A device whose memory the host cannot map. Its reads for collectives end only when the test ends them. */
class SlowDevice {
  readonly backend: Backend;
  readonly events: string[] = [];
  readonly #reads: (() => void)[] = [];
  taken = 0;
  freed = 0;

  constructor() {
    const device = interpreter();
    this.backend = {
      ...device,
      read: async (buffer, target) => {
        const bytes = await device.read(buffer, target);
        // A read without a target is not for a collective. It ends at once.
        if (target === undefined) return bytes;
        this.events.push('read');
        await new Promise<void>((resolve) => this.#reads.push(resolve));
        return bytes;
      },
      hostMemory: (byteLength): HostMemory => {
        this.taken++;
        return { bytes: new Uint8Array(byteLength), free: () => this.freed++ };
      },
      compile: async (program) => {
        const executable = await device.compile(program);
        return {
          ...executable,
          run: async (inputs, outputs, options) => {
            this.events.push('run');
            await executable.run(inputs, outputs, options);
          },
        };
      },
    };
  }

  /** Ends the read with this number, in the order of the reads. */
  endRead(number: number): void {
    this.#reads[number]?.();
  }
}

const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const peerBytes = (...values: number[]) =>
  ({ bytes: new Uint8Array(Float32Array.from(values).buffer), dtype: 'f32' }) as const;

describe('collectives of a device with memory of its own', () => {
  let device: SlowDevice;
  let peer: ProcessGroup;

  beforeEach(() => {
    const [own, other] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { verify: false }),
    );
    if (own === undefined || other === undefined) throw new RangeError('two groups');
    device = new SlowDevice();
    peer = other;
    const allReduceOf = own.allReduce.bind(own);
    own.allReduce = (buffer, ...rest) => {
      const [first = 0] = new Float32Array(buffer.bytes.buffer);
      device.events.push(`call of ${first}`);
      return allReduceOf(buffer, ...rest);
    };
    setRank({ device: device.backend, mesh: new LineMesh('dp', own) });
  });

  test('have later programs computed while their inputs are read, and give their memory back', async () => {
    const x = tensor([1, 2]);
    const reduced = allReduce(x.mul(2), 'dp');
    const sum = reduced.add(x.add(5).retain()).data();
    await expect.poll(() => device.events).toEqual(['run', 'read', 'run']);
    void peer.allReduce(peerBytes(10, 20), 'sum');
    device.endRead(0);
    expect([...(await sum)]).toEqual([10 + 2 + 6, 20 + 4 + 7]);
    expect(device.events).toEqual(['run', 'read', 'run', 'call of 2', 'run']);
    expect([device.taken, device.freed]).toEqual([2, 2]);
  });

  test('are called in the order of the program, whichever input has been read first', async () => {
    const x = tensor([1, 2]);
    const first = allReduce(x.mul(3), 'dp').retain();
    const second = allReduce(x.mul(7), 'dp').retain();
    const values = Promise.all([first.data(), second.data()]);
    await expect.poll(() => device.events).toEqual(['run', 'read', 'run', 'read']);
    device.endRead(1);
    await settle();
    expect(device.events.filter((event) => event.startsWith('call'))).toEqual([]);
    void peer.allReduce(peerBytes(0, 0), 'sum');
    void peer.allReduce(peerBytes(0, 0), 'sum');
    device.endRead(0);
    expect((await values).map((each) => [...each])).toEqual([
      [3, 6],
      [7, 14],
    ]);
    expect(device.events.filter((event) => event.startsWith('call'))).toEqual([
      'call of 3',
      'call of 7',
    ]);
  });
});

test('a session does not issue the collectives of a later one, which computes', async () => {
  const calls: string[] = [];
  const groupOf = (name: string): ProcessGroup => {
    const [own, other] = createLoopbackTransports(2).map((transport) =>
      createGroup(transport, { verify: false }),
    );
    if (own === undefined || other === undefined) throw new RangeError('two groups');
    own.allReduce = async () => void calls.push(name);
    return own;
  };
  setRank({ device: interpreter(), mesh: new LineMesh('dp', groupOf('first')) });
  allReduce(tensor([1, 2]), 'dp');
  const device = new SlowDevice();
  setRank({ device: device.backend, mesh: new LineMesh('dp', groupOf('second')) });
  const reduced = allReduce(tensor([1, 2]).mul(2), 'dp').data();
  allReduce(tensor([3, 4]).mul(2), 'dp');
  await expect.poll(() => device.events).toContain('read');
  // Longer than a program may build nothing before its collectives are issued, twice.
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(calls).toEqual([]);
  device.endRead(0);
  await reduced;
  await expect.poll(() => device.events.filter((event) => event === 'read')).toHaveLength(2);
  device.endRead(1);
  await expect.poll(() => calls).toEqual(['second', 'second']);
});

test('a collective that was made while a rank that does nothing issues another one is issued, too', async () => {
  const [own] = createLoopbackTransports(2).map((transport) =>
    createGroup(transport, { verify: false }),
  );
  if (own === undefined) throw new RangeError('a group');
  const others = Promise.withResolvers<void>();
  let calls = 0;
  own.allReduce = () => (++calls === 1 ? others.promise : Promise.resolve());
  setRank({ device: interpreter(), mesh: new LineMesh('dp', own) });
  allReduce(tensor([1, 2]), 'dp');
  await expect.poll(() => calls).toBe(1);
  allReduce(tensor([3, 4]), 'dp');
  others.resolve();
  await expect.poll(() => calls, { timeout: 5000 }).toBe(2);
});
