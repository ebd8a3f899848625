import { connectRequests, startRequestServer } from '@shardwise/collectives/node';
import { describe, expect, it } from 'vitest';
import { connectPeer } from '../src/wire/connect.ts';
import { FrameCaller } from '../src/wire/frame-caller.ts';
import { encodeFrame } from '../src/wire/frame-header.ts';
import { serveFrames } from '../src/wire/serve-frames.ts';
import { protocolError } from '../src/wire/wire-error.ts';

const secret = 'open sesame';

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
      [1, 2].map((value) => connection.request([Uint8Array.of(value)])),
    );
    expect(answers.flat().map((part) => part[0])).toEqual([1, 2]);
    connection.close();
    server.close();
  });

  it('with a time limit that no timer can hold wait for their answer', async () => {
    const server = await startRequestServer({ secret, handler: async (parts) => parts });
    const connection = await connectRequests({ host: server.host, port: server.port, secret });
    expect(await connection.request([], { timeoutMs: 2 ** 32 })).toEqual([]);
    await expect(connection.request([], { timeoutMs: -1 })).rejects.toMatchObject({
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
    await expect(connection.request([], { timeoutMs: 5 })).rejects.toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
    });
    expect(await connection.request([Uint8Array.of(7)])).toEqual([Uint8Array.of(7)]);
    connection.close();
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
