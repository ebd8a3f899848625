import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { CollectiveTimeoutError, ConfigError, RefusedError } from '@shardwise/core/spec';
import { join, type RunMember } from 'shardwise/together';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { WebSocket as Socket } from 'ws';
import { MAX_FRAME_BYTES } from '../../src/together/protocol/limits.ts';
import {
  type ListeningCoordinator,
  startCoordinator,
} from '../../src/together/coordinator/start-coordinator.ts';
import { PlainTrainer } from './plain-trainer.ts';

const token = 'a token that members know';
let coordinator: ListeningCoordinator;

beforeEach(async () => {
  coordinator = await startCoordinator({
    host: '127.0.0.1',
    port: 0,
    tokens: [token],
    audit: 0,
    maxMembers: 3,
    roundTimeoutMs: 60_000,
    bytesPerSecond: 1e8,
    maxBufferedBytes: 1e8,
    onNotice: () => undefined,
  });
});

afterEach(() => coordinator.close());

const joined = (name: string): ReturnType<typeof join> =>
  join({ url: coordinator.url, token, name, onNotice: () => undefined });

describe('a coordinator that listens', () => {
  it('lets members train together, and shows who is there', async () => {
    const [first, second] = [await joined('first'), await joined('second')];
    const [one, other] = [new PlainTrainer(first, 0), new PlainTrainer(second, 5)];
    await one.enter();
    const isIn = new AbortController();
    const entering = other.enter().then(() => isIn.abort());
    first.report({ loss: 1.5, samples: 30 });
    while (!isIn.signal.aborted) await one.update(1);
    await entering;
    for (let round = 0; round < 3; round++) await Promise.all([one.update(2), other.update(4)]);
    expect(one.completed).toBe(other.completed);
    const status = await fetch(`${coordinator.pageUrl}status`).then((answer) => answer.json());
    expect(status).toMatchObject({
      completed: one.completed,
      members: [
        { name: 'first', place: 'training', updates: one.completed, share: 1, loss: 1.5 },
        { name: 'second', place: 'training', share: 0, loss: null },
      ],
    });
    const page = await fetch(coordinator.pageUrl);
    expect(await page.text()).toContain('first (1)');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    for (const member of [first, second]) member.close();
    await expect(one.update(1)).rejects.toThrow('a member that has left by close()');
  });

  it('refuses another token, and more members than may be', async () => {
    const wrong = join({ url: coordinator.url, token: 'another' });
    await expect(wrong).rejects.toMatchObject({ code: 'REFUSED', fields: { refusal: 'token' } });
    const members = [await joined('a'), await joined('b'), await joined('c')];
    await expect(joined('d')).rejects.toThrow(RefusedError);
    for (const member of members) member.close();
    await expect.poll(() => coordinator.status.members).toHaveLength(0);
  });

  it('lets in the ranks of one member as one', async () => {
    const groups = createLoopbackTransports(2).map((transport) => createGroup(transport));
    const common = { url: coordinator.url, name: 'both' };
    const joinAll = (by: string): Promise<readonly PromiseSettledResult<RunMember>[]> =>
      Promise.allSettled(groups.map((group) => join({ ...common, token: by, group })));
    const refused = await joinAll('another token');
    expect(refused.map((each) => each.status === 'rejected' && each.reason.code)).toEqual([
      'REFUSED',
      'COLLECTIVE_ABORTED',
    ]);
    const members = (await joinAll(token)).flatMap((each) =>
      each.status === 'fulfilled' ? [each.value] : [],
    );
    expect(members.map(({ number }) => number)).toEqual([members[0]?.number, members[0]?.number]);
    expect(coordinator.status.members).toHaveLength(1);
    for (const each of [...members, ...groups]) each.close();
  });

  it('does not keep the ranks of a member waiting whose first rank fails before it connects', async () => {
    // A worker whose page takes no messages.
    vi.stubGlobal('WorkerGlobalScope', Object);
    vi.stubGlobal('addEventListener', () => undefined);
    vi.stubGlobal('postMessage', () => {
      throw new Error('no page');
    });
    const groups = createLoopbackTransports(2).map((transport) => createGroup(transport));
    const { url } = coordinator;
    const ended = await Promise.allSettled(groups.map((group) => join({ url, token, group })));
    vi.unstubAllGlobals();
    expect(ended.map((each) => each.status === 'rejected' && String(each.reason))).toEqual([
      'Error: no page',
      expect.stringContaining('rank 0, which speaks for this one, was not let in'),
    ]);
    for (const group of groups) group.close();
  });

  it('ends a connection whose frame is too long', async () => {
    const socket = new Socket(coordinator.url);
    const closed = new Promise((resolve) => socket.on('close', resolve));
    await new Promise((resolve) => socket.on('open', resolve));
    socket.send(new Uint8Array(MAX_FRAME_BYTES + 1));
    expect(await closed).toBe(1009);
    expect(coordinator.status.members).toEqual([]);
  });
});

describe('join() says what is wrong with', () => {
  it.each([
    ['an address of a page', { url: 'http://127.0.0.1:1', token }],
    ['a name that cannot be seen', { url: 'ws://127.0.0.1:1', token, name: ' \n' }],
    ['a token that is too long', { url: 'ws://127.0.0.1:1', token: 'a'.repeat(2000) }],
    ['a STUN server that is none', { url: 'ws://127.0.0.1:1', token, stun: ['example.org'] }],
    ['an unknown option', { url: 'ws://127.0.0.1:1', token, key: 1 }],
  ])('%s', async (_, options) => {
    await expect(join(options)).rejects.toThrow(ConfigError);
  });

  it('an address at which nobody answers', async () => {
    await expect(join({ url: 'ws://127.0.0.1:1', token })).rejects.toThrow(CollectiveTimeoutError);
  });
});
