import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { GenerationNode } from '../src/rendezvous/generation.ts';
import { generationOf, type LedHost, LedRun, node } from './led-hosts.ts';
import { stepReport } from './run-fixture.ts';

let run: LedRun | undefined;
afterEach(async () => {
  // What is under way waits for timers of the kind that was there when it began.
  await run?.close();
  vi.useRealTimers();
});

async function start(
  nodes: readonly GenerationNode[],
  options: ConstructorParameters<typeof LedRun>[1] = {},
): Promise<LedRun> {
  const started = new LedRun(await generationOf([node(0, 0), ...nodes]), options);
  run = started;
  await expect.poll(() => started.isListening).toBe(true);
  return started;
}

/** Has the ranks of two hosts with one rank each join each other. */
async function trained(led: LedRun): Promise<readonly [LedHost, LedHost]> {
  const hosts = [led.host(1), led.host(2)] as const;
  for (const [rank, host] of hosts.entries()) {
    host.ready(rank);
    await expect.poll(() => host.starts(rank)).toBe(1);
  }
  for (const [rank, host] of hosts.entries()) {
    await expect.poll(() => host.membership(rank, 0)).toBeDefined();
    host.enter(rank, 0);
    host.commit(rank);
    host.tell(rank, { kind: 'message', message: stepReport(rank, 1) });
  }
  await expect.poll(() => led.messages).toHaveLength(2);
  return hosts;
}

const came = (place: number, admission: number, ranks = 1) =>
  ({ kind: 'came', place, node: node(admission, ranks) }) as const;

describe('the first membership', () => {
  it('counts a host that came before it in each step and in how the ranks ended', async () => {
    const led = await start([node(1, 1)]);
    const [first, second] = [led.host(1), led.host(2)];
    led.change(came(2, 2));
    await expect.poll(() => first.starts(0) + second.starts(1)).toBe(2);
    first.ready(0);
    second.ready(1);
    await expect.poll(() => second.membership(1, 0)).toBeDefined();
    await expect.poll(() => first.membership(0, 0)).toBeDefined();
    first.enter(0, 0);
    second.enter(1, 0);
    await expect.poll(() => led.notices).toEqual(['Rank 1 came. 2 ranks go on after step 0.']);
    for (const [rank, host] of [first, second].entries()) {
      host.tell(rank, { kind: 'message', message: stepReport(rank, 1) });
      host.end(rank);
    }
    expect(await led.result).toMatchObject({ culprit: undefined });
    expect(led.messages).toContainEqual({
      kind: 'membership',
      worldSize: 2,
      step: 0,
      reason: 'Rank 1 came',
    });
    const { latest, history, exitCodes, head } = led.state(1);
    expect(head.worldSize).toBe(2);
    expect(latest).toMatchObject({ step: 1, tokens: 2000 });
    expect(history.points).toHaveLength(1);
    expect(exitCodes).toEqual([0, 0]);
  });

  it('counts it also if the ranks do not say that they have joined, because they call init()', async () => {
    const led = await start([node(1, 1)]);
    const [first, second] = [led.host(1), led.host(2)];
    led.change(came(2, 2));
    first.ready(0, null);
    second.ready(1, null);
    await expect.poll(() => first.membership(0, 0)).toBeDefined();
    for (const [rank, host] of [first, second].entries()) {
      host.tell(rank, { kind: 'message', message: stepReport(rank, 1) });
      host.end(rank);
    }
    await led.result;
    expect(led.notices).toEqual(['Rank 1 came. 2 ranks go on.']);
    expect(led.state(1).history.points).toHaveLength(1);
    expect(led.state(1)).toMatchObject({ latest: { tokens: 2000 }, exitCodes: [0, 0] });
  });

  it('is without a host that was lost before the launcher learned of the generation, and says so', async () => {
    const led = await start([node(1, 1), node(2, 2, true)]);
    const host = led.host(1);
    host.ready(0);
    await expect.poll(() => host.membership(0, 0)).toBeDefined();
    host.enter(0, 0);
    host.tell(0, { kind: 'message', message: stepReport(0, 1) });
    host.end(0);
    await led.result;
    const reason = 'Ranks 1, 2 were lost: node 2 (host-2) was lost before they were started';
    expect(led.notices).toEqual([`${reason}. 1 rank goes on after step 0.`]);
    expect(led.state(3)).toMatchObject({ latest: { tokens: 1000 }, exitCodes: [0] });
  });

  it('is not made of fewer ranks than go on, if a host was lost before the launcher learned of the generation', async () => {
    const led = await start([node(1, 1), node(2, 2, true)], { min: 2 });
    const host = led.host(1);
    host.ready(0);
    const fate = 'node 2 (host-2) was lost before they were started';
    await expect.poll(() => led.failures).toMatchObject([{ fate }]);
    expect(led.notices).toEqual([
      '1 rank is left, and --min-nproc asks for 2 ranks, so all of them end.',
    ]);
    host.end(0, { exitCode: 1 });
    expect(await led.result).toMatchObject({ culprit: 1 });
    expect(host.membership(0, 0)).toBeUndefined();
  });

  it('is not made of fewer ranks than go on, if only so many make up replicas', async () => {
    const led = await start([node(1, 3)], { min: 3 });
    const host = led.host(1);
    for (const rank of [0, 1, 2]) host.ready(rank, 2);
    const lack =
      'The ranks that are left make up 1 replicas of 2 ranks, and --min-nproc asks for 3 ranks, so all of them end.';
    await expect.poll(() => led.failures).toMatchObject([{ fate: lack }]);
    for (const rank of [0, 1, 2]) host.end(rank, { exitCode: 1 });
    await led.result;
  });

  it('says which ranks make up whole replicas if others wait', async () => {
    const led = await start([node(1, 3)]);
    const host = led.host(1);
    for (const rank of [0, 1, 2]) host.ready(rank, 2);
    await expect.poll(() => host.membership(1, 0)).toBeDefined();
    for (const rank of [0, 1]) host.enter(rank, 0);
    await expect
      .poll(() => led.notices)
      .toEqual([
        '2 ranks make up whole replicas. 2 ranks go on after step 0. Rank 2 waits for the rest of a replica.',
      ]);
    expect(led.state(3).head.worldSize).toBe(2);
  });
});

describe('hosts that have gone and come before the launcher listens', () => {
  const lost = (place: number, admission: number) =>
    ({ kind: 'lost', place, admission, reason: 'it was cut off' }) as const;

  it('are those of the generation that it has learned of', async () => {
    const led = await start([node(3, 1)]);
    const host = led.host(3);
    // The conductor tells all changes since the generation began. The launcher learned of it after them.
    for (const change of [lost(1, 1), came(1, 2), lost(1, 2), came(1, 3)]) led.change(change);
    host.ready(0);
    await expect.poll(() => host.membership(0, 0)).toBeDefined();
    host.enter(0, 0);
    host.end(0);
    expect(await led.result).toMatchObject({ culprit: undefined });
    expect(host.starts(0)).toBe(1);
    expect(led.notices).toEqual([]);
  });

  it('do not come again if they are lost in it', async () => {
    const led = await start([node(1, 1), node(3, 1, true)]);
    const [host, other] = [led.host(1), led.host(3)];
    for (const change of [came(2, 3), lost(2, 3)]) led.change(change);
    host.ready(0);
    await expect.poll(() => host.membership(0, 0)).toBeDefined();
    host.end(0);
    await led.result;
    expect(other.starts(1)).toBe(0);
  });
});

describe('ranks that the launcher of their host has ended by itself', () => {
  it('are lost to the others, and take no restart', async () => {
    const led = await start([node(1, 1), node(2, 1)], { maxRestarts: 3 });
    const [first, second] = await trained(led);
    second.end(1, { exitCode: 1, terminated: true });
    await expect.poll(() => first.membership(0, 1)).toBeDefined();
    expect(led.restarts).toBe(0);
    expect(second.starts(1)).toBe(1);
  });

  it('make the generation fail if nobody is left, which is not finished', async () => {
    const led = await start([node(1, 1), node(2, 1)]);
    const [first, second] = await trained(led);
    first.end(0, { exitCode: 1, terminated: true });
    second.end(1, { exitCode: 1, terminated: true });
    expect(await led.result).toMatchObject({ culprit: expect.any(Number) });
    expect(led.failures).toHaveLength(1);
  });
});

describe('the restarts of lost ranks', () => {
  const broken = { exitCode: 1, error: new Error('it broke') };

  it('are taken once the others have joined each other', async () => {
    const led = await start([node(1, 1), node(2, 1)], { maxRestarts: 3 });
    const [first, second] = await trained(led);
    second.end(1, broken);
    await expect.poll(() => first.membership(0, 1)).toBeDefined();
    expect(led.restarts).toBe(0);
    first.enter(0, 1, 1);
    await expect.poll(() => second.starts(1)).toBe(2);
    expect(led.restarts).toBe(1);
  });

  it('are not taken if so many ranks are lost that all start again', async () => {
    const led = await start([node(1, 4)], { min: 2, maxRestarts: 3 });
    const host = led.host(1);
    const ranks = [0, 1, 2, 3];
    for (const rank of ranks) host.ready(rank);
    await expect.poll(() => host.membership(3, 0)).toBeDefined();
    for (const rank of ranks) {
      host.enter(rank, 0);
      host.tell(rank, { kind: 'message', message: stepReport(rank, 1) });
    }
    for (const rank of ranks) host.end(rank, broken);
    expect(await led.result).toMatchObject({ culprit: 2 });
    expect(led.restarts).toBe(0);
  });

  it.each([
    ['at each start', false],
    ['each time when it has joined the others', true],
  ])('end for a rank that fails %s, which does not take those of others', async (_, enters) => {
    const led = await start([node(1, 1), node(2, 1)], { maxRestarts: 9 });
    const [first, second] = await trained(led);
    second.end(1, broken);
    await expect.poll(() => first.membership(0, 1)).toBeDefined();
    first.enter(0, 1, 1);
    for (const [time, starts] of [2, 3].entries()) {
      await expect.poll(() => second.starts(1)).toBe(starts);
      if (enters) {
        const epoch = 2 + 2 * time;
        second.ready(1);
        await expect.poll(() => second.membership(1, epoch)).toBeDefined();
        await expect.poll(() => first.membership(0, epoch)).toBeDefined();
        second.enter(1, epoch, 1);
        first.enter(0, epoch, 1);
        await expect.poll(() => led.notices.at(-1)).toContain('2 ranks go on');
        second.end(1, broken);
        await expect.poll(() => first.membership(0, epoch + 1)).toBeDefined();
        first.enter(0, epoch + 1, 1);
      } else second.end(1, broken);
    }
    await expect
      .poll(() => led.notices)
      .toContain(
        'Rank 1 has failed 2 times before its first commit, so it is not started again: Error: it broke',
      );
    // Its host has no rank that starts again, and leaves the run, so that another one can have the place.
    const reason = 'none of its ranks is started again (Error: it broke)';
    await expect
      .poll(() => second.heard.at(-1))
      .toEqual({ kind: 'dismiss', reason, isFinal: true });
    expect(led.notices).toContain(`node 2 (host-2) gives up its place: ${reason}`);
    expect(led.restarts).toBe(2);
    // A host that comes to this place waits, as its ranks may fail again.
    led.change(came(2, 4));
    expect(led.notices.at(-1)).toBe(
      'node 2 (host-4) has come, and starts its ranks in 10 s, because its place was given up once.',
    );
    first.end(0);
    expect(await led.result).toMatchObject({ culprit: undefined });
  });
});

describe('a place that was given up', () => {
  it('is not given up again because the host that came to it was cut off, and comes anew', async () => {
    vi.useFakeTimers({ shouldAdvanceTime: true, toFake: ['setTimeout', 'clearTimeout'] });
    const led = await start([node(1, 1), node(2, 1)]);
    const [first, second] = await trained(led);
    second.end(1, { exitCode: 1, error: new Error('it broke') });
    await expect.poll(() => first.membership(0, 1)).toBeDefined();
    first.enter(0, 1, 1);
    await expect.poll(() => second.heard.at(-1)?.kind).toBe('dismiss');
    const third = led.host(3);
    led.change(came(2, 3));
    vi.advanceTimersByTime(10_000);
    await expect.poll(() => third.starts(1)).toBe(1);
    const fourth = led.host(4);
    led.change({ kind: 'lost', place: 2, admission: 3, reason: 'its launcher was cut off' });
    led.change(came(2, 4));
    // It waits as the one before has, because its ranks have made no update.
    expect(led.notices.at(-1)).toContain('(host-4) has come, and starts its ranks in 10 s');
    await expect.poll(() => third.heard.at(-1)?.kind).toBe('dismiss');
    vi.advanceTimersByTime(10_000);
    await expect.poll(() => fourth.starts(1)).toBe(1);
    expect(led.notices.filter((text) => text.includes('gives up its place'))).toHaveLength(1);
  });
});

describe('connections that break between members that are there', () => {
  const broken = (epoch: number, ranks: readonly number[]) =>
    ({
      kind: 'member',
      message: { kind: 'broken', epoch, ranks, reason: 'it broke' },
    }) as const;

  it('cost a membership of the same ranks, and none of them ends', async () => {
    const led = await start([node(1, 1), node(2, 1)]);
    const [first, second] = await trained(led);
    first.tell(0, broken(0, [1]));
    second.tell(1, broken(0, [1]));
    await expect
      .poll(() => first.membership(0, 1))
      .toMatchObject({
        order: { place: { rank: 0, worldSize: 2 }, lost: expect.stringContaining('it broke') },
      });
    await expect.poll(() => second.membership(1, 1)).toBeDefined();
    first.enter(0, 1, 1);
    second.enter(1, 1, 1);
    await expect
      .poll(() => led.notices)
      .toEqual([
        'Rank 1 has not ended, but could not be reached: it broke. 2 ranks go on after step 1.',
      ]);
    expect(led.state(2)).toMatchObject({ latest: { step: 1 }, head: { worldSize: 2 } });
    expect(first.starts(0) + second.starts(1)).toBe(2);
    expect(led.restarts).toBe(0);
  });

  it('end the rank that is not reached for the third time, in whose place another one comes', async () => {
    const led = await start([node(1, 1), node(2, 1)], { maxRestarts: 1 });
    const [first, second] = await trained(led);
    for (const epoch of [0, 1, 2]) {
      await expect.poll(() => first.membership(0, epoch)).toBeDefined();
      await expect.poll(() => second.membership(1, epoch)).toBeDefined();
      first.tell(0, broken(epoch, [1]));
      second.tell(1, broken(epoch, [1]));
    }
    await expect
      .poll(() => first.membership(0, 3))
      .toMatchObject({
        order: { place: { rank: 0, worldSize: 1 } },
      });
    await expect.poll(() => second.heard.some(({ kind }) => kind === 'terminate')).toBe(true);
    second.end(1, { exitCode: 1, terminated: true });
    first.enter(0, 3, 1);
    await expect.poll(() => second.starts(1)).toBe(2);
    expect(led.notices.at(-1)).toContain(
      'Rank 1 was lost: others could not reach it 3 times in ten minutes, the last time because of this: it broke. Rank 1 has not ended, but could not be reached: it broke. 1 rank goes on',
    );
  });

  it('end all for the third time if nobody is to blame', async () => {
    const led = await start([node(1, 1), node(2, 1)]);
    const [first, second] = await trained(led);
    for (const epoch of [0, 1, 2]) {
      await expect.poll(() => first.membership(0, epoch)).toBeDefined();
      await expect.poll(() => second.membership(1, epoch)).toBeDefined();
      first.tell(0, broken(epoch, []));
      second.tell(1, broken(epoch, []));
    }
    await expect
      .poll(() => led.failures)
      .toMatchObject([
        {
          fate: expect.stringContaining('ranks could not reach each other 3 times in ten minutes'),
        },
      ]);
    first.end(0, { exitCode: 1 });
    second.end(1, { exitCode: 1 });
    await led.result;
  });

  it('are made anew also if the user ends the run meanwhile, after the same step', async () => {
    const stop = new AbortController();
    const led = await start([node(1, 1), node(2, 1)], { stop: stop.signal });
    const [first] = await trained(led);
    // The other rank computes, and reports nothing.
    first.tell(0, broken(0, [1]));
    await delay(100);
    stop.abort();
    await expect.poll(() => first.membership(0, 1), { timeout: 5000 }).toBeDefined();
  });

  it('are not made anew when one of them has finished, and closed its own', async () => {
    const led = await start([node(1, 1), node(2, 1)]);
    const [first, second] = await trained(led);
    second.end(1);
    first.tell(0, broken(0, [1]));
    first.end(0, { exitCode: 1, error: new Error('rank 1 closed the group') });
    await led.result;
    expect(first.membership(0, 1)).toBeUndefined();
  });
});
