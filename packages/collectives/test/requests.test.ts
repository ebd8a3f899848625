import { connectRequests, shmAvailability, startRequestServer } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';
import { encodeMessage, frameKinds } from '../src/requests/request-message.ts';
import { connectPeer } from '../src/wire/connect.ts';
import { FrameCaller } from '../src/wire/frame-caller.ts';
import { encodeFrame } from '../src/wire/frame-header.ts';
import { serveFrames } from '../src/wire/serve-frames.ts';
import { protocolError } from '../src/wire/wire-error.ts';

const secret = 'open sesame';
const firstByte = ([part]: readonly Uint8Array[]): number | undefined => part?.[0];

describe('requests', () => {
  it('are answered with the parts that the handler returns, in any order', async () => {
    const gate = Promise.withResolvers<void>();
    const server = await startRequestServer({
      secret,
      handler: async ([part = new Uint8Array(0)]) => {
        if (part[0] === 1) await gate.promise;
        else gate.resolve();
        return [part];
      },
    });
    const connection = await connectRequests({ host: server.host, port: server.port, secret });
    const answers = await Promise.all(
      [1, 2].map((value) => connection.request([Uint8Array.of(value)], firstByte)),
    );
    expect(answers).toEqual([1, 2]);
    connection.close();
    server.close();
  });

  it('with a time limit that no timer can hold wait for their answer', async () => {
    const server = await startRequestServer({ secret, handler: async (parts) => parts });
    const connection = await connectRequests({ host: server.host, port: server.port, secret });
    expect(await connection.request([], ({ length }) => length, { timeoutMs: 2 ** 32 })).toBe(0);
    await expect(connection.request([], firstByte, { timeoutMs: -1 })).rejects.toMatchObject({
      code: 'CONFIG',
    });
    connection.close();
    server.close();
  });

  it('that nobody answers end with the time limit, and others go on', async () => {
    const server = await startRequestServer({
      secret,
      handler: async (parts) => (parts.length > 0 ? parts : new Promise(() => {})),
    });
    const connection = await connectRequests({ host: server.host, port: server.port, secret });
    await expect(connection.request([], firstByte, { timeoutMs: 5 })).rejects.toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
    });
    expect(await connection.request([Uint8Array.of(7)], firstByte)).toBe(7);
    connection.close();
    server.close();
  });
});

describe('long messages between processes of one host', () => {
  const long = (value: number): Uint8Array => new Uint8Array(1 << 20).fill(value);

  it('lie in memory that both share, until the answer has been read', async (context) => {
    context.skip(!shmAvailability().available, 'processes cannot share memory here');
    const isShared: boolean[] = [];
    const server = await startRequestServer({
      secret,
      handler: async (parts) => {
        isShared.push(...parts.map(({ buffer }) => buffer instanceof SharedArrayBuffer));
        return [Uint8Array.of(1), ...parts];
      },
    });
    const { host, port } = server;
    const connection = await connectRequests({ host, port, secret });
    const gate = Promise.withResolvers<void>();
    const slow = connection.request([long(1), Uint8Array.of(5)], async ([, first, second]) => {
      await gate.promise;
      return [first?.buffer instanceof SharedArrayBuffer, first?.at(-1), second?.[0]];
    });
    // The requests together would fill the memory if it were not released.
    const longer = new Uint8Array(32 << 20);
    for (let call = 0; call < 18; call++) {
      longer.fill(call, -1);
      const read = await connection.request([longer], ([, answer]) => answer?.at(-1));
      expect(read).toBe(call);
    }
    gate.resolve();
    expect(await slow).toEqual([true, 1, 5]);
    expect(isShared.slice(0, 3)).toEqual([true, false, true]);
    expect(isShared.every((each, index) => each || index === 1)).toBe(true);
    connection.close();
    server.close();
  });

  it('are given free where nobody reads their answer any more', async () => {
    const server = await startRequestServer({
      secret,
      handler: async ([part = new Uint8Array(0)]) => {
        await new Promise((resolve) => setTimeout(resolve, part[0] === 9 ? 50 : 0));
        return [part];
      },
    });
    const { host, port } = server;
    const connection = await connectRequests({ host, port, secret });
    await connection.request([long(1)], firstByte);
    const late = connection.request([long(9)], firstByte, { timeoutMs: 5 });
    await expect(late).rejects.toMatchObject({ code: 'COLLECTIVE_TIMEOUT' });
    expect(await connection.request([long(2)], firstByte)).toBe(2);
    connection.close();
    server.close();
  });

  it('that claim bytes outside of the memory end the connection', async (context) => {
    context.skip(!shmAvailability().available, 'processes cannot share memory here');
    const server = await startRequestServer({ secret, handler: async (parts) => parts });
    const caller = new FrameCaller({
      limits: new Map([[frameKinds.answer, 1024]]),
      readBytes: 1024,
      read: () => [],
      ended: () => new Error('ended'),
    });
    const hello = { purpose: 'requests', from: 0, to: 0, size: 0, epoch: 0 } as const;
    const { host, port } = server;
    const at = { host, port, secret, hello, encrypt: false, timeoutMs: 10_000 };
    caller.attach(await connectPeer(at, caller));
    await caller.call({ frame: (tag) => [encodeFrame(frameKinds.share, tag)] });
    const outside = caller.call({
      frame: (tag) => encodeMessage(frameKinds.request, tag, [long(1)], [2 ** 29 - 8]),
    });
    await expect(outside).rejects.toThrow('ended');
    server.close();
  });
});

describe('a call whose reply is malformed', () => {
  it('rejects with the end of its connection', async () => {
    const limits = new Map([[1, 64]]);
    const server = await serveFrames(
      { secret },
      {
        purpose: 'requests',
        limits,
        open: (socket) => (frame) => socket.write(encodeFrame(1, frame.tag)),
      },
    );
    const caller = new FrameCaller({
      limits,
      readBytes: 1024,
      read: () => {
        throw protocolError('its body has no parts');
      },
      ended: (reason) => new Error(`ended: ${reason?.message}`),
    });
    const hello = { purpose: 'requests', from: 0, to: 0, size: 0, epoch: 0 } as const;
    const { host, port } = server;
    const at = { host, port, secret, hello, encrypt: false, timeoutMs: 10_000 };
    caller.attach(await connectPeer(at, caller));
    await expect(caller.call({ frame: (tag) => [encodeFrame(1, tag)] })).rejects.toThrow(
      'its body has no parts',
    );
    server.close();
  });
});
