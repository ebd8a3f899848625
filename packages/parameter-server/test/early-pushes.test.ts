import { cpu } from '@shardwise/backend-cpu';
import { singleGroup } from '@shardwise/collectives';
import { LineMesh, manualSeed, nn, optim, setRank, subscribe, tensor } from '@shardwise/core';
import type { RequestConnection } from '@shardwise/core/extend';
import type { ParameterServers } from '@shardwise/parameter-server';
import { type Consistency, parameterServer } from '@shardwise/parameter-server';
import { parallelize } from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { withHead } from '../src/protocol/message.ts';
import { directServers, startServers } from './direct-servers.ts';

beforeEach(async () => setRank({ device: await cpu(), mesh: new LineMesh('dp', singleGroup()) }));

interface Sent {
  readonly kind: string;
  /** The size of the arrays that were sent. */
  readonly bytes: number;
  /** The number of programs that had been computed before. */
  readonly computed: number;
}

/**
 * Records the messages that workers send, except for requests of values. Messages for which `loses` returns true do not
 * arrive.
 */
function watched(
  servers: ParameterServers,
  sent: Sent[],
  computed: () => number,
  loses: (kind: string) => boolean = () => false,
): ParameterServers {
  const watch = (connection: RequestConnection): RequestConnection => ({
    ...connection,
    request: async (parts, read, options) => {
      const [head = new Uint8Array(0), ...arrays] = parts;
      const { kind } = JSON.parse(new TextDecoder().decode(head));
      const bytes = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
      if (kind !== 'pull') sent.push({ kind, bytes, computed: computed() });
      if (!loses(kind)) return connection.request(parts, read, options);
      options?.onSent?.();
      throw new Error('lost on its way');
    },
  });
  return { ...servers, connect: async (server) => watch(await servers.connect(server)) };
}

const widths = [3, 5, 4, 2];
/** The bytes of weights and biases of each layer, beginning with the last layer. */
const bytesOfLayers = [(4 * 2 + 2) * 4, (5 * 4 + 4) * 4, (3 * 5 + 5) * 4];

function stack(): nn.Sequential {
  manualSeed(5);
  return new nn.Sequential(
    ...widths.slice(1).map((width, index) => new nn.Linear(widths[index] ?? 0, width)),
  );
}

interface Trained {
  readonly values: readonly number[];
  readonly sent: readonly Sent[];
  /** The number of programs of all steps. */
  readonly computed: number;
  readonly earlyBytes: number;
}

interface TrainOptions {
  /** Whether the worker uses servers. If false, it trains on this rank alone. Default: true. */
  readonly isServed?: boolean;
  readonly consistency?: Consistency;
  readonly compress?: 'bf16';
  readonly passes?: number;
  readonly isRead?: boolean;
  readonly clips?: boolean;
  readonly loses?: (kind: string) => boolean;
  readonly bucketBytes?: number;
}

/** Trains for two steps. Returns the messages of the second step. */
async function train(options: TrainOptions): Promise<Trained> {
  const { passes = 1, isRead = false, clips = false, isServed = true } = options;
  const model = stack();
  const sent: Sent[] = [];
  let computed = 0;
  const unsubscribe = subscribe(({ category }) => {
    if (category === 'compute') computed++;
  });
  let earlyBytes = (): number => 0;
  if (isServed) {
    const { consistency = 'asynchronous', compress, loses, bucketBytes = 8 } = options;
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const servers = watched(directServers([server.handler]), sent, () => computed, loses);
    const strategy = { servers, consistency, bucketBytes, ...(compress && { compress }) };
    await parallelize(model, parameterServer(strategy));
    earlyBytes = () => server.statistics.earlyBytes;
  }
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.5 });
  for (let step = 0; step < 2; step++) {
    sent.length = 0;
    computed = 0;
    for (let pass = 0; pass < passes; pass++) {
      const loss = model
        .forward(tensor([[1, step, 2 + pass]]))
        .square()
        .sum();
      loss.backward();
      if (isRead) await loss.item();
    }
    if (clips) optim.clipGradNorm(model.parameters(), 0.01);
    await optimizer.step();
    optimizer.zeroGrad();
  }
  unsubscribe();
  const values: number[] = [];
  for (const parameter of model.parameters()) {
    values.push(...((await parameter.data()) as Float32Array));
  }
  return { values, sent, computed, earlyBytes: earlyBytes() };
}

async function alone(options: TrainOptions = {}): Promise<readonly number[]> {
  return (await train({ ...options, isServed: false })).values;
}

describe('gradients on their way to the servers', () => {
  it('leave in backward, layer by layer, before those of older layers are computed', async () => {
    const { sent, computed, values, earlyBytes } = await train({});
    const parts = sent.filter(({ kind }) => kind === 'part');
    expect(sent.map(({ kind }) => kind).at(-1)).toBe('push');
    expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(
      bytesOfLayers.reduce((sum, bytes) => sum + bytes, 0),
    );
    // The gradients of the last layer are sent while others are still to be computed.
    expect(parts[0]?.computed).toBeLessThan(computed);
    const ahead = parts.filter((part) => part.computed < computed);
    expect(ahead.length).toBeGreaterThanOrEqual(2);
    // The final push does not send anything a second time.
    expect(sent.at(-1)?.bytes).toBe(0);
    expect(earlyBytes).toBe(2 * bytesOfLayers.reduce((sum, bytes) => sum + bytes, 0));
    expect(values).toEqual(await alone());
  });

  it('are one message where they are small', async () => {
    const { sent } = await train({ bucketBytes: 1 << 20 });
    expect(sent.map(({ kind }) => kind)).toEqual(['part', 'push']);
  });

  it.each([
    ['of a synchronous step', { consistency: 'synchronous' }],
    ['in 16 bits', { compress: 'bf16' }],
  ] as const)('leave early %s', async (_, options) => {
    const { sent, computed } = await train(options);
    expect(sent[0]?.kind).toBe('part');
    expect(sent[0]?.computed).toBeLessThan(computed);
    expect(sent.at(-1)?.bytes).toBe(0);
  });

  it('leave once, as a sum, where several passes add up', async () => {
    const { sent, values } = await train({ passes: 3 });
    const bytes = sent.reduce((sum, each) => sum + each.bytes, 0);
    expect(bytes).toBe(bytesOfLayers.reduce((sum, each) => sum + each, 0));
    expect(values).toEqual(await alone({ passes: 3 }));
  });

  it('are those of the push where the loss was read, or gradients clipped, before the step', async () => {
    const read = await train({ isRead: true });
    expect(read.sent.map(({ kind }) => kind)).toEqual(['push']);
    expect(read.values).toEqual(await alone());
    const clipped = await train({ clips: true });
    expect(clipped.sent.map(({ kind }) => kind)).toEqual(['push']);
    expect(clipped.values).toEqual(await alone({ clips: true }));
  });

  it('come with the push where they were lost on their way', async () => {
    let count = 0;
    const loses = (kind: string): boolean => kind === 'part' && count++ % 2 === 0;
    const { values, sent } = await train({ loses });
    expect(sent.at(-1)?.bytes).toBeGreaterThan(0);
    expect(values).toEqual(await alone());
  });
});

describe('a server that is sent gradients before their push', () => {
  const job = {
    workers: 1,
    consistency: { kind: 'bounded', staleness: null },
    parameters: [
      { name: 'a', shape: [1] },
      { name: 'b', shape: [1] },
    ],
  };
  const recipe = { optimizer: 'SGD', groups: [{ params: [0, 1], settings: { lr: 1 } }] };
  const one = new Uint8Array(Float32Array.of(1).buffer);

  async function joined(): Promise<{
    readonly ask: (head: object, arrays?: readonly Uint8Array[]) => Promise<readonly number[]>;
    readonly close: () => void;
  }> {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const connection = await directServers([server.handler]).connect(0);
    const from = { shard: 0, worker: 0, session: 1 };
    const ask = (head: object, arrays: readonly Uint8Array[] = []): Promise<readonly number[]> =>
      connection.request(withHead({ ...from, ...head }, arrays), ([, ...values]) =>
        values.flatMap((bytes) => [...new Float32Array(bytes.slice().buffer)]),
      );
    await connection.request(withHead({ kind: 'join', shard: 0, worker: 0, job }), () => undefined);
    await ask({ kind: 'initialise' }, [one, one]);
    return { ask, close: () => connection.close() };
  }
  const part = { kind: 'part', number: 0, parameters: [1], dtype: 'f32' };
  const push = {
    kind: 'push',
    sequence: 1,
    step: 0,
    recipe,
    present: [true, true],
    parts: [0],
    dtype: 'f32',
  };

  it('takes them into the push that names them, and answers both together', async () => {
    const { ask } = await joined();
    const order: string[] = [];
    const early = ask(part, [new Uint8Array(Float32Array.of(3).buffer)]).then(() =>
      order.push('part'),
    );
    const values = ask(push, [one]).then((found) => {
      order.push('push');
      return found;
    });
    expect(await values).toEqual([]);
    await early;
    expect(await ask({ kind: 'pull', parameters: [0, 1] })).toEqual([0, -2]);
    expect(order.toSorted()).toEqual(['part', 'push']);
  });

  it('refuses by name what it does not have, what is too long, and what is not there', async () => {
    const { ask } = await joined();
    await expect(ask(push, [one])).rejects.toMatchObject({ fields: { refusal: 'no-part' } });
    await expect(ask(part, [new Uint8Array(8)])).rejects.toMatchObject({
      fields: { refusal: 'oversized' },
    });
    for (const parameters of [[2], [0, 0]]) {
      await expect(
        ask(
          { ...part, parameters },
          parameters.map(() => one),
        ),
      ).rejects.toMatchObject({ fields: { refusal: 'malformed' } });
    }
    await expect(ask({ ...part, session: 0 }, [one])).rejects.toMatchObject({
      fields: { refusal: 'stale' },
    });
    // The session of a worker that started after the older snapshot from which this server was restarted.
    await expect(ask({ ...part, session: 7 }, [one])).rejects.toMatchObject({
      fields: { refusal: 'unknown-worker' },
    });
  });

  it('forgets them when their connection ends, or when they come anew', async () => {
    const { ask, close } = await joined();
    const replaced = ask(part, [one]);
    const kept = ask({ ...part, number: 1 }, [one]);
    expect(await replaced).toEqual([]);
    close();
    expect(await kept).toEqual([]);
    await expect(ask({ ...push, parts: [1] }, [one])).rejects.toMatchObject({
      fields: { refusal: 'no-part' },
    });
  });
});
