import { connect } from 'node:net';
import { createGroup } from '@shardwise/collectives';
import {
  connectStore,
  MemoryStore,
  startStoreServer,
  tcpTransport,
} from '@shardwise/collectives/node';
import { afterAll, describe, expect, it } from 'vitest';
import { ProcessPool } from './process-pool.ts';

const secret = 'open sesame';

async function errorOf(promise: Promise<unknown>): Promise<{ code?: unknown; message: string }> {
  return promise.then(
    () => ({ message: 'no error' }),
    (error: unknown) => (error instanceof Error ? error : { message: String(error) }),
  );
}

describe('a rank that ends or stops', () => {
  const pool = new ProcessPool();
  afterAll(() => pool.end());

  /** Has ranks reduce, and sends a signal to rank 1 when all have begun. Returns what the others say of it. */
  const saidAfter = async (
    signal: 'SIGKILL' | 'SIGSTOP',
    { size, elements }: { readonly size: number; readonly elements: number },
  ): Promise<readonly string[]> => {
    const server = await startStoreServer({ secret });
    const world = { port: server.port, secret };
    const store = await connectStore({ host: '127.0.0.1', ...world });
    const culprit = pool.process(1);
    const running = pool.run(size, new URL('./tcp-rank.ts', import.meta.url), {
      name: 'reduceForEver',
      world,
      data: elements,
      // A stopped process ends when another rank has missed it.
      onFailure: () => culprit.kill('SIGKILL'),
    });
    try {
      const reduced = Array.from({ length: size }, (_, rank) => `reduced by ${rank}`);
      // Ranks that end before they have reduced say why.
      await Promise.race([store.wait(reduced), running]);
      culprit.kill(signal);
      const ended = await running;
      return ended
        .toSpliced(1, 1)
        .map((end) => (end.status === 'rejected' ? end.error.message : 'no error'));
    } finally {
      store.close();
      server.close();
    }
  };

  it.each([1, 4 << 20])(
    'killed while all reduce %i elements, is named on every survivor',
    async (elements) => {
      const said = await saidAfter('SIGKILL', { size: 3, elements });
      expect(said).toHaveLength(2);
      for (const each of said) expect(each).toMatch(/allReduce #\d+ .*rank 1 of the world/);
    },
  );

  it('stopped, is named with the limit of its heartbeats', async () => {
    expect(await saidAfter('SIGSTOP', { size: 2, elements: 1 })).toEqual([
      expect.stringMatching(/rank 1 of the world .*no heartbeat for \d+ ms, the limit is 1500 ms/),
    ]);
  });

  it('a rank that computes for longer than the limit is not lost', async () => {
    const store = new MemoryStore();
    const heartbeat = { intervalMs: 20, limitMs: 100 };
    const [first, second] = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ store, rank, size: 2, secret, heartbeat })),
    );
    const until = performance.now() + 400;
    while (performance.now() < until);
    const received = new Uint8Array(1);
    await Promise.all([first?.send(1, 0, Uint8Array.of(7)), second?.recv(0, 0, received)]);
    expect(received[0]).toBe(7);
    first?.close();
    second?.close();
  });
});

describe('ranks that a launcher watches', () => {
  it('send no heartbeats, and learn at once of one that closes', async () => {
    const store = new MemoryStore();
    const options = { store, size: 2, secret, heartbeat: false } as const;
    const [first, second] = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ ...options, rank })),
    );
    const received = new Uint8Array(1);
    await Promise.all([first?.send(1, 0, Uint8Array.of(7)), second?.recv(0, 0, received)]);
    expect(received[0]).toBe(7);
    const late = errorOf(Promise.resolve(second?.recv(0, 1, received)));
    first?.close(new Error('its world is over'));
    expect((await late).message).toContain('rank 0 of the world');
    second?.close();
  });

  it('give up joining when they are told to, and leave the place to others', async () => {
    const store = new MemoryStore();
    const joining = new AbortController();
    const options = { store, size: 2, secret, heartbeat: false } as const;
    const alone = errorOf(tcpTransport({ ...options, rank: 0, signal: joining.signal }));
    joining.abort(new Error('others train'));
    expect((await alone).message).toBe('others train');
    const next = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ ...options, rank, epoch: 1 })),
    );
    for (const transport of next) transport.close();
  });
});

describe('who may join', () => {
  it('a rank with another secret is refused, and told so', async () => {
    const store = new MemoryStore();
    const options = { store, size: 2, timeoutMs: 2000 };
    const [first, second] = await Promise.all([
      errorOf(tcpTransport({ ...options, rank: 0, secret })),
      errorOf(tcpTransport({ ...options, rank: 1, secret: 'another' })),
    ]);
    expect(first.message).toContain('the secrets differ');
    expect(second.message).toContain('the secrets differ');
  });

  it('a client with another secret cannot use the store', async () => {
    const server = await startStoreServer({ secret });
    const { host, port } = server;
    const error = await errorOf(connectStore({ host, port, secret: 'another' }));
    expect(error.message).toContain('the secrets differ');
    server.close();
  });

  it('two processes cannot be one rank of one epoch', async () => {
    const store = new MemoryStore();
    const alone = { store, rank: 0, size: 1, secret };
    const transport = await tcpTransport(alone);
    const error = await errorOf(tcpTransport(alone));
    expect(error).toMatchObject({ code: 'CONFIG' });
    expect(error.message).toMatch(/rank 0 of epoch 0.* is that rank already/);
    const next = await tcpTransport({ ...alone, epoch: 1 });
    transport.close();
    next.close();
  });

  it('a process that finds its rank taken leaves the address of the other one alone', async () => {
    const store = new MemoryStore();
    const transport = await tcpTransport({ store, rank: 0, size: 1, secret });
    const second = { store, rank: 0, size: 1, secret, withdrawAddress: true };
    expect((await errorOf(tcpTransport(second))).message).toContain('is that rank already');
    expect(await store.delete('tcp/0/address/0')).toBe(true);
    transport.close();
  });

  it('ranks that do not join are named with the time limit', async () => {
    const store = new MemoryStore();
    const error = await errorOf(tcpTransport({ store, rank: 1, size: 3, secret, timeoutMs: 200 }));
    expect(error).toMatchObject({ code: 'COLLECTIVE_TIMEOUT' });
    expect(error.message).toMatch(/ranks 0, 2 did not join within 200 ms/);
  });

  it('a rank of another epoch is refused with both epochs', async () => {
    const store = new MemoryStore();
    const stale = new MemoryStore();
    const current = errorOf(
      tcpTransport({ store, rank: 0, size: 2, epoch: 2, secret, timeoutMs: 1000 }),
    );
    await stale.set('tcp/1/address/0', await store.get('tcp/2/address/0'));
    const late = await errorOf(
      tcpTransport({ store: stale, rank: 1, size: 2, epoch: 1, secret, timeoutMs: 1000 }),
    );
    expect(late.message).toMatch(/it is of epoch 1, and rank 0 of epoch 2/);
    expect((await current).message).toContain('rank 1 did not join within 1000 ms');
  });

  it('bytes that are no handshake end that connection only', async () => {
    const server = await startStoreServer({ secret });
    const stranger = connect(server.port, server.host);
    stranger.on('error', () => {});
    const closed = new Promise((resolve) => stranger.once('close', resolve));
    stranger.write('GET / HTTP/1.1\r\n\r\n');
    await closed;
    const store = await connectStore({ host: server.host, port: server.port, secret });
    expect(await store.add('calls', 1)).toBe(1);
    store.close();
    server.close();
  });

  it('a port that is taken is an error with the port', async () => {
    const server = await startStoreServer({ secret });
    const error = await errorOf(startStoreServer({ secret, port: server.port }));
    expect(error).toMatchObject({ code: 'CONFIG' });
    expect(error.message).toContain(`127.0.0.1:${server.port}: another process has that port`);
    server.close();
  });
});

describe('messages', () => {
  it('a receive that times out names its peer and the limit, and the transport goes on', async () => {
    const store = new MemoryStore();
    const [first, second] = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ store, rank, size: 2, secret })),
    );
    const error = await errorOf(
      second?.recv(0, 5, new Uint8Array(1), { timeoutMs: 30 }) ?? Promise.resolve(),
    );
    expect(error.message).toMatch(/recv of 1 bytes on rank 1, tag 5: after 30 ms rank 0/);
    const received = new Uint8Array(1);
    await Promise.all([first?.send(1, 5, Uint8Array.of(9)), second?.recv(0, 5, received)]);
    expect(received[0]).toBe(9);
    first?.close();
    second?.close();
  });

  it('what nobody awaits is kept up to the limit, then the sender waits', async () => {
    const store = new MemoryStore();
    const [first, second] = await Promise.all(
      [0, 1].map((rank) =>
        tcpTransport({ store, rank, size: 2, secret, maxUnexpectedBytes: 1 << 20 }),
      ),
    );
    const big = new Uint8Array(64 << 20).fill(3);
    let isSent = false;
    const sent = first?.send(1, 1, big).finally(() => {
      isSent = true;
    });
    const last = first?.send(1, 2, Uint8Array.of(1));
    await first?.recv(1, 0, new Uint8Array(0), { timeoutMs: 100 }).catch(() => {});
    expect(isSent).toBe(false);
    const received = new Uint8Array(big.byteLength);
    await second?.recv(0, 1, received);
    await Promise.all([sent, last]);
    await second?.recv(0, 2, received.subarray(0, 1));
    expect(received[0]).toBe(1);
    expect(received.subarray(1).every((value) => value === 3)).toBe(true);
    first?.close();
    second?.close();
  });

  it('what was sent before its sender left is still received', async () => {
    const store = new MemoryStore();
    const [first, second] = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ store, rank, size: 2, secret })),
    );
    const big = new Uint8Array(8 << 20).fill(4);
    const sent = first?.send(1, 0, big);
    first?.close();
    const received = new Uint8Array(big.byteLength);
    await Promise.all([sent, second?.recv(0, 0, received)]);
    expect(received.every((value) => value === 4)).toBe(true);
    const error = await errorOf(second?.recv(0, 0, received) ?? Promise.resolve());
    expect(error.message).toContain('rank 0 of the world closed the transport');
    second?.close();
  });

  it('a group of an ended transport says which rank ended it and why', async () => {
    const store = new MemoryStore();
    const [first, second] = await Promise.all(
      [0, 1].map((rank) => tcpTransport({ store, rank, size: 2, secret })),
    );
    const group = createGroup(second!);
    const pending = errorOf(group.barrier());
    first?.close(new Error('the disk is full'));
    expect((await pending).message).toMatch(/barrier #0 .*rank 0 of the world .*the disk is full/);
  });
});
