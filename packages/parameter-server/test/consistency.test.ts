import { cpu } from '@shardwise/backend-cpu';
import { nn, optim, setRank, tensor } from '@shardwise/core';
import {
  parameterServer,
  type Consistency,
  type ConsistencyRule,
} from '@shardwise/parameter-server';
import { parallelize } from '@shardwise/strategies';
import { LineMesh } from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import { beforeEach, describe, expect, it } from 'vitest';
import { checkRequest } from '../src/protocol/check-request.ts';
import { ShardLink } from '../src/client/shard-link.ts';
import { directServers, startServers, type Way } from './direct-servers.ts';

beforeEach(async () => setRank({ device: await cpu(), mesh: new LineMesh('dp', singleGroup()) }));

const sgd = { optimizer: 'SGD', groups: [{ params: [0], settings: { lr: 1 } }] };
const floats = (...values: readonly number[]): Uint8Array =>
  new Uint8Array(Float32Array.from(values).buffer);
const numbers = (bytes: Uint8Array | undefined): readonly number[] =>
  bytes === undefined ? [] : [...new Float32Array(bytes.slice().buffer)];

/** Creates workers of one parameter with two elements, which are zero at first. */
async function workers(
  count: number,
  consistency: ConsistencyRule,
  way: Way = {},
  leaseMs = 5000,
  waitMs = 600_000,
) {
  const [server] = await startServers(1, leaseMs, waitMs);
  if (server === undefined) throw new Error('no server');
  const servers = directServers([server.handler], way);
  const job = { workers: count, consistency, parameters: [{ name: 'w', shape: [2] }] };
  const links = Array.from(
    { length: count },
    (_, worker) => new ShardLink({ servers, shard: 0, worker, job, timeoutMs: 2000 }),
  );
  for (const link of links) await link.join();
  await links[0]?.initialise([floats(0, 0)]);
  const push = async (worker: number, ...gradient: readonly number[]) => {
    const link = links[worker];
    if (link === undefined) throw new Error('no such worker');
    const given = { recipe: sgd, present: [true], dtype: 'f32' } as const;
    const answer = await link.push(given, [floats(...gradient)]);
    return { ...answer, values: await link.pull([0], ([value]) => numbers(value)) };
  };
  return { server, links, push };
}

const settled = async (promise: Promise<unknown>): Promise<boolean> => {
  let isSettled = false;
  void promise.then(
    () => (isSettled = true),
    () => (isSettled = true),
  );
  await new Promise((resolve) => setTimeout(resolve, 30));
  return isSettled;
};

describe('a synchronous step', () => {
  const synchronous = { kind: 'synchronous', backupWorkers: 0 } as const;

  it('is the mean of all workers, in whichever order they arrive', async () => {
    const { push } = await workers(3, synchronous);
    const answers = await Promise.all([push(2, 6, 3), push(0, 3, 3), push(1, 0, 3)]);
    for (const { values } of answers) expect(values).toEqual([-3, -3]);
  });

  it('waits for the last worker', async () => {
    const { push } = await workers(2, synchronous);
    const first = push(0, 1, 1);
    expect(await settled(first)).toBe(false);
    await push(1, 3, 3);
    expect((await first).values).toEqual([-2, -2]);
  });

  it('says for which worker it has waited too long', async () => {
    const { push } = await workers(2, synchronous, {}, 5000, 40);
    await expect(push(1, 1, 1)).rejects.toThrow(/waited 40 ms for worker 0/);
  });

  it('goes on with the others when a worker leaves', async () => {
    const { push, links } = await workers(2, synchronous);
    const first = push(0, 1, 1);
    await links[1]?.leave();
    expect((await first).values).toEqual([-1, -1]);
  });

  it('fails with the name of a worker that is lost', async () => {
    const { push, links } = await workers(2, synchronous, {}, 20);
    const first = push(0, 1, 1);
    links[1]?.drop();
    await expect(first).rejects.toThrow(/worker 1 is gone/);
  });

  it('does not wait for backup workers, and drops what they send too late', async () => {
    const { push, server } = await workers(3, { kind: 'synchronous', backupWorkers: 1 });
    const [first] = await Promise.all([push(0, 1, 1), push(1, 3, 3)]);
    expect(first?.values).toEqual([-2, -2]);
    const late = await push(2, 100, 100);
    expect([late.isLate, late.values, late.step]).toEqual([true, [-2, -2], 1]);
    expect(server.statistics.late).toBe(1);
    // The late worker takes part in the step that the other workers are at.
    const next = await Promise.all([push(2, 1, 1), push(0, 1, 1)]);
    expect(next.map(({ values }) => values[0])).toEqual([-3, -3]);
  });
});

describe('an asynchronous step', () => {
  const asynchronous = { kind: 'bounded', staleness: null } as const;

  it('adds up exactly whatever is lost on the way: what is sent again counts once', async () => {
    let messages = 0;
    const fates = ['request', 'answer'] as const;
    // Every tenth message is lost: the request and the answer in turn.
    const loses = () => (++messages % 10 === 0 ? fates[(messages / 10) % 2] : undefined);
    const { push, server } = await workers(2, asynchronous, { loses });
    let last: readonly number[] = [];
    for (let step = 0; step < 30; step++) {
      await push(0, 1, 0);
      last = (await push(1, 0, 2)).values;
    }
    expect(last).toEqual([-30, -60]);
    expect(server.statistics.duplicates).toBeGreaterThan(0);
  });

  it('does not wait for a worker that is stalled, and counts how stale its gradient is', async () => {
    const { push, server } = await workers(2, asynchronous);
    for (let step = 0; step < 5; step++) await push(0, 1, 1);
    const { staleness } = await push(1, 1, 1);
    expect(staleness).toBe(5);
    expect(server.statistics.staleness).toEqual({ 0: 5, 5: 1 });
  });

  it('shows a worker its own updates at once', async () => {
    const { push } = await workers(2, asynchronous);
    expect((await push(0, 1, 2)).values).toEqual([-1, -2]);
  });
});

describe('bounded staleness', () => {
  it('of 2 stops a worker at step 5 while the slowest is at 2, and lets it go on when that one is at 3', async () => {
    const { push, server } = await workers(2, { kind: 'bounded', staleness: 2 });
    for (let step = 0; step < 2; step++) await push(1, 1, 1);
    for (let step = 0; step < 4; step++) await push(0, 1, 1);
    const fifth = push(0, 1, 1);
    expect(await settled(fifth)).toBe(false);
    await push(1, 1, 1);
    expect((await fifth).lead).toBe(2);
    expect(Math.max(...Object.keys(server.statistics.lead).map(Number))).toBe(2);
  });

  it('lets a worker go on when the one that it waits for leaves, or is lost', async () => {
    const { push, links } = await workers(3, { kind: 'bounded', staleness: 0 }, {}, 20);
    const first = push(0, 1, 1);
    expect(await settled(first)).toBe(false);
    await links[1]?.leave();
    links[2]?.drop();
    expect((await first).values).toEqual([-1, -1]);
  });

  it('says for which worker a step has waited too long', async () => {
    const { push } = await workers(2, { kind: 'bounded', staleness: 0 }, {}, 5000, 40);
    await expect(push(0, 1, 1)).rejects.toThrow(/waited 40 ms for worker 1/);
  });

  it('counts a worker that has not come yet as one that has made no step', async () => {
    const { push, links } = await workers(2, { kind: 'bounded', staleness: 1 });
    await push(0, 1, 1);
    expect(await settled(push(0, 1, 1))).toBe(false);
    await links[1]?.leave();
  });
});

describe('elastic averaging of x²/2', () => {
  /** Returns the centre after `steps` exchanges of one worker that uses gradient descent with the rate eta. */
  const train = async (eta: number, movingRate: number, steps: number): Promise<number> => {
    const [server] = await startServers(1);
    if (server === undefined) throw new Error('no server');
    const servers = directServers([server.handler]);
    const model = new Quadratic();
    const consistency: Consistency = { elastic: { everySteps: 1, movingRate } };
    const parallel = await parallelize(model, parameterServer({ servers, consistency }));
    const optimizer = new optim.SGD(model.parameters(), { lr: eta });
    for (let step = 0; step < steps; step++) {
      parallel.forward(tensor([1])).backward();
      await optimizer.step();
      optimizer.zeroGrad();
    }
    return Math.abs((await model.x.data())[0] as number);
  };

  // The iteration is stable for a moving rate up to (4 - 2·eta) / (4 - eta), which is 2/3 for eta = 1.
  it('converges within the bound of stability', async () => {
    expect(await train(1, 0.6, 80)).toBeLessThan(1e-3);
  });

  it('diverges beyond it', async () => {
    expect(await train(1, 0.75, 80)).toBeGreaterThan(1e3);
  });
});

class Quadratic extends nn.Module {
  readonly x = new nn.Parameter(Float32Array.of(1), [1]);
  forward(one: ReturnType<typeof tensor>) {
    return this.x.mul(this.x).mul(one).sum().mul(0.5);
  }
}

describe('what a server refuses', () => {
  const asynchronous = { kind: 'bounded', staleness: null } as const;
  const refusals = async (change: object, array = floats(1, 1)): Promise<unknown> => {
    const { server } = await workers(1, asynchronous);
    const head = {
      kind: 'push',
      shard: 0,
      worker: 0,
      session: 1,
      sequence: 1,
      step: 0,
      recipe: sgd,
      present: [true],
      parts: [],
      dtype: 'f32',
      ...change,
    };
    const client = { number: 0, closed: new AbortController().signal };
    const text = new TextEncoder().encode(JSON.stringify(head));
    return server.handler([text, array], client).then(
      () => 'taken',
      (error: { fields: { refusal: unknown } }) => error.fields.refusal,
    );
  };

  it.each([
    ['oversized', {}, floats(1, 1, 1)],
    ['malformed', {}, floats(1)],
    ['malformed', { kind: 'eval' }, floats(1, 1)],
    ['malformed', { sequence: -1 }, floats(1, 1)],
    ['malformed', { more: 1 }, floats(1, 1)],
    ['malformed', { present: [true, true] }, floats(1, 1)],
    ['malformed', { shard: 1 }, floats(1, 1)],
    ['gap', { sequence: 3 }, floats(1, 1)],
    ['stale', { session: 0 }, floats(1, 1)],
    ['unknown-worker', { worker: 7 }, floats(1, 1)],
    ['unknown-optimizer', { recipe: { ...sgd, optimizer: 'constructor' } }, floats(1, 1)],
    [
      'malformed',
      { recipe: { optimizer: 'SGD', groups: [{ params: [0], settings: { lr: 1, x: 1 } }] } },
      floats(1, 1),
    ],
    [
      'malformed',
      { recipe: { ...sgd, groups: [{ params: [5], settings: { lr: 1 } }] } },
      floats(1, 1),
    ],
  ])('is called %s', async (name, change, array) => {
    expect(await refusals(change, array)).toBe(name);
  });

  it('names the field that is wrong', () => {
    const head = { kind: 'push', shard: 0, worker: 0, session: 1, sequence: 1, step: 0 };
    const whole = { ...head, recipe: sgd, present: [true], parts: [], dtype: 'f32' };
    const wrong = (change: object): unknown => {
      try {
        checkRequest({ ...whole, ...change });
        return undefined;
      } catch (error) {
        return error instanceof Error ? error.message : error;
      }
    };
    expect(wrong({})).toBeUndefined();
    expect(wrong({ sequence: -1 })).toMatch(/push\.sequence: expected a whole number from 0/);
    expect(wrong({ present: [true, 1] })).toMatch(/push\.present\[1\]: expected true or false/);
    expect(wrong({ more: 1 })).toMatch(/push\.more: expected no such field/);
    expect(wrong({ recipe: { optimizer: 'SGD' } })).toMatch(
      /push\.recipe\.groups: expected a list/,
    );
    expect(wrong({ dtype: 'f64' })).toMatch(/push\.dtype: expected one of f32, f16, bf16/);
    expect(wrong({ kind: 'eval' })).toMatch(/kind: expected one of join, initialise, push/);
  });

  it('lets the next push through', async () => {
    expect(await refusals({})).toBe('taken');
  });
});
