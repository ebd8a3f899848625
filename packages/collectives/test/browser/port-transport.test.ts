import {
  connectPorts,
  createPageWorld,
  joinPageWorld,
  portTransport,
} from '@shardwise/collectives';
import type { Transport } from '@shardwise/core/spec';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { PageWorkers } from './page-workers.ts';

function pair(maxUnexpectedBytes?: number): readonly [Transport, Transport] {
  const { ranks } = connectPorts(2);
  const [first, second] = ranks.map((ports, rank) =>
    portTransport({
      rank,
      size: 2,
      ports,
      ...(maxUnexpectedBytes === undefined ? {} : { maxUnexpectedBytes }),
    }),
  );
  if (first === undefined || second === undefined) throw new Error();
  return [first, second];
}

const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
};

describe('ports between ranks', () => {
  it('carry messages of one tag in order, past those of others', async () => {
    const [a, b] = pair();
    await Promise.all([1, 2, 3].map((value) => a.send(1, value % 2, Uint8Array.of(value))));
    const received: number[] = [];
    for (const tag of [0, 1, 1]) {
      const bytes = new Uint8Array(1);
      await b.recv(0, tag, bytes);
      received.push(...bytes);
    }
    expect(received).toEqual([2, 1, 3]);
    a.close();
    b.close();
  });

  it('leave the bytes of a message to their owner as soon as it is sent', async () => {
    const [a, b] = pair();
    const bytes = new Uint8Array(new SharedArrayBuffer(4)).fill(7);
    await a.send(1, 0, bytes);
    bytes.fill(9);
    const received = new Uint8Array(4);
    await b.recv(0, 0, received);
    expect([...received]).toEqual([7, 7, 7, 7]);
    a.close();
    b.close();
  });

  it('make the sender wait while much lies unreceived, and let any size through after that', async () => {
    const [a, b] = pair(1000);
    const sent: number[] = [];
    const sends = [400, 400, 400, 5000, 1].map(async (byteLength, index) => {
      await a.send(1, 0, new Uint8Array(byteLength).fill(index));
      sent.push(index);
    });
    await turns(20);
    expect(sent).toEqual([0, 1]);
    for (const [index, byteLength] of [400, 400, 400, 5000, 1].entries()) {
      const bytes = new Uint8Array(byteLength);
      await b.recv(0, 0, bytes);
      expect(bytes.every((byte) => byte === index)).toBe(true);
    }
    await Promise.all(sends);
    a.close();
    b.close();
  });

  it('end a message that takes too long, by the time limit or the signal of its call', async () => {
    const [a, b] = pair(100);
    const recv = b.recv(0, 3, new Uint8Array(8), { timeoutMs: 20 });
    await expect(recv).rejects.toThrow('after 20 ms rank 0 has not done its part');
    await a.send(1, 0, new Uint8Array(100));
    const controller = new AbortController();
    const send = a.send(1, 0, new Uint8Array(100), { signal: controller.signal });
    controller.abort('no longer wanted');
    await expect(send).rejects.toThrow('no longer wanted');
    await b.recv(0, 0, new Uint8Array(100));
    // The message whose send was aborted does not arrive later.
    await a.send(1, 0, Uint8Array.of(5));
    const bytes = new Uint8Array(1);
    await b.recv(0, 0, bytes);
    expect([...bytes]).toEqual([5]);
    a.close();
    b.close();
  });

  it('tell a receiver that a message has another length', async () => {
    const [a, b] = pair();
    await a.send(1, 0, new Uint8Array(8));
    await expect(b.recv(0, 0, new Uint8Array(4))).rejects.toMatchObject({
      code: 'COLLECTIVE_MISMATCH',
      message: expect.stringContaining('it has 8 bytes'),
    });
    a.close();
    b.close();
  });

  it('still bring what a rank has sent before it closed', async () => {
    const [a, b] = pair();
    await a.send(1, 0, Uint8Array.of(42));
    a.close();
    const bytes = new Uint8Array(1);
    await b.recv(0, 0, bytes);
    expect([...bytes]).toEqual([42]);
    await expect(b.recv(0, 0, bytes)).rejects.toThrow('rank 0 of the world closed the transport');
    await expect(b.send(0, 0, bytes)).rejects.toThrow('it closed the group');
    await expect(a.recv(1, 0, bytes)).rejects.toThrow('rank 0 of the world closed the transport');
  });

  it('end all ranks with the reason of the one that fails', async () => {
    const { ranks } = connectPorts(3);
    const [a, b, c] = ranks.map((ports, rank) => portTransport({ rank, size: 3, ports }));
    const pending = [b?.recv(2, 0, new Uint8Array(1)), c?.recv(1, 0, new Uint8Array(1))];
    a?.close(new RangeError('the loss is not finite'));
    for (const call of pending) {
      await expect(call).rejects.toMatchObject({
        code: 'COLLECTIVE_ABORTED',
        fields: { abortedBy: 0, reason: 'RangeError: the loss is not finite' },
      });
    }
    await expect(c?.ended).rejects.toThrow('the loss is not finite');
  });

  it('take nobody whose port says what no transport does', async () => {
    for (const nonsense of [
      null,
      { kind: 'message', tag: -1, bytes: new ArrayBuffer(1) },
      { kind: 'message', tag: 0, bytes: 'x' },
      { kind: 'taken', cost: 1e9 },
      { kind: 'taken', cost: Number.NaN },
      { kind: 'abort', rank: 'all', reason: '' },
      { kind: 'message', tag: 0, bytes: new ArrayBuffer(501) },
    ]) {
      const { ranks } = connectPorts(2);
      const ports = ranks[0] ?? [];
      const a = portTransport({ rank: 0, size: 2, ports, maxUnexpectedBytes: 500 });
      const peer = ranks[1]?.[0];
      peer?.postMessage({ kind: 'message', tag: 7, bytes: new ArrayBuffer(400) });
      peer?.postMessage(nonsense);
      await expect(a.recv(1, 0, new Uint8Array(1))).rejects.toThrow('rank 1 of the world is lost');
    }
  });

  it('are as many as there are ranks', () => {
    const { ranks } = connectPorts(3);
    expect(() => portTransport({ rank: 0, size: 2, ports: ranks[0] ?? [] })).toThrow(
      'A transport over 3 ports for rank 0 of 2',
    );
    expect(() => portTransport({ rank: 3, size: 3, ports: ranks[0] ?? [] })).toThrow('rank 3 of 3');
  });
});

describe('workers over ports', () => {
  const workers = new PageWorkers();
  afterAll(() => workers.end());

  it('learn which rank is gone when a worker ends', async () => {
    const outcomes = await workers.run(3, undefined, () => {
      void workers.worker(0).terminate();
    });
    for (const outcome of outcomes.slice(1)) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        error: { report: { code: 'COLLECTIVE_ABORTED', fields: { abortedBy: 0 } } },
      });
    }
  });
});

describe('the world of a page', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('shares memory where it can, as in Node, and says so', () => {
    const world = createPageWorld({ size: 2, arenaBytes: 1 << 20 });
    expect(world).toMatchObject({
      size: 2,
      transport: 'shared memory',
      reason: 'workers can share memory here',
    });
    expect(world.ranks.map(({ rank, ports }) => [rank, ports])).toEqual([
      [0, []],
      [1, []],
    ]);
  });

  it('uses ports where the page is not isolated, and says what would change that', async () => {
    vi.stubGlobal('crossOriginIsolated', false);
    const world = createPageWorld({ size: 2 });
    expect(world.transport).toBe('ports');
    expect(world.reason).toContain('Cross-Origin-Opener-Policy: same-origin');
    const groups = await Promise.all(world.ranks.map(joinPageWorld));
    const values = groups.map(({ rank }) => new Float32Array([rank + 1, 10]));
    await Promise.all(
      groups.map((group, rank) => {
        const bytes = new Uint8Array(values[rank]?.buffer ?? new ArrayBuffer(0));
        return group.allReduce({ bytes, dtype: 'f32' }, 'sum');
      }),
    );
    expect(values.map((list) => [...list])).toEqual([
      [3, 20],
      [3, 20],
    ]);
    for (const group of groups) group.close();
  });

  it.each([
    ['shared memory', true],
    ['ports', false],
  ])('ends all calls over %s when the page says so', async (transport, isIsolated) => {
    vi.stubGlobal('crossOriginIsolated', isIsolated);
    const world = createPageWorld({ size: 3, arenaBytes: 1 << 16 });
    expect(world.transport).toBe(transport);
    const [, ...others] = await Promise.all(world.ranks.map(joinPageWorld));
    const calls = others.map((group) => group.barrier());
    world.abort({ rank: 0, reason: new Error('its worker threw') });
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({
        code: 'COLLECTIVE_ABORTED',
        fields: { abortedBy: 0, reason: 'Error: its worker threw' },
      });
    }
  });
});
