import {
  BackendError,
  CollectiveAbortedError,
  CollectiveTimeoutError,
  CollectiveMismatchError,
  ConfigError,
  TensorStateError,
} from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import type { LauncherOrder, Membership } from '../src/launcher/ranks/rank-data.ts';
import { rankDataMarker } from '../src/launcher/ranks/rank-data.ts';
import type { MemberMessage } from '../src/launcher/ranks/member-message.ts';
import type { LauncherLink } from '../src/rank/launcher-link.ts';
import { MemberLink, MembershipChange } from '../src/rank/members/member-link.ts';

const words = { asked: 'a call', found: 'rank 1 is gone', todo: 'look there' };

function linked(): {
  readonly members: MemberLink;
  readonly order: (order: LauncherOrder) => void;
  readonly sent: readonly unknown[];
} {
  const sent: unknown[] = [];
  let order: (order: LauncherOrder) => void = () => undefined;
  const meeting = {
    store: { host: '127.0.0.1', port: 1 },
    secret: 's',
    epoch: 0,
    host: '127.0.0.1',
  };
  const link: LauncherLink = {
    data: {
      marker: rankDataMarker,
      rank: 0,
      worldSize: 2,
      localRank: 0,
      runDirectory: 'runs/x',
      checkpointDirectory: undefined,
      resumeDirectory: undefined,
      way: { kind: 'members', meeting },
      transport: { kind: 'tcp', reason: 'two' },
      servers: undefined,
      stop: undefined,
    },
    send: (message) => void sent.push(message),
    listen: (listener) => {
      order = listener;
    },
    close: () => undefined,
  };
  return { members: new MemberLink(link, 2), order: (given) => order(given), sent };
}

const membership = (epoch: number, lost?: string): Membership => ({
  kind: 'membership',
  epoch,
  place: { rank: 0, worldSize: 2, replicaSize: 2, hosts: [0, 0] },
  lost,
});

describe('what a rank hears of who trains with it', () => {
  it('begins when it says that it is ready', async () => {
    const { members, order, sent } = linked();
    expect(sent).toEqual([{ kind: 'ready', replicaSize: 2 } satisfies MemberMessage]);
    const first = members.after(-1);
    order(membership(0));
    expect(await first).toEqual(membership(0));
  });

  it('is the latest membership, and ends calls if a rank of the one before is lost', () => {
    const { members, order } = linked();
    order(membership(0));
    const { signal } = members.watch(0);
    order(membership(1));
    expect(signal.aborted).toBe(false);
    expect(members.hasChanged(0)).toBe(true);
    order(membership(2, 'ended by SIGKILL'));
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ fields: { reason: 'ended by SIGKILL' } });
    // A rank that goes over only now learns nothing bad of the latest one.
    expect(members.watch(2).signal.aborted).toBe(false);
  });

  it.each([
    ['a call that was ended', new CollectiveAbortedError(words), true],
    [
      'what such a call causes',
      new Error('the step', { cause: new CollectiveAbortedError(words) }),
      true,
    ],
    ['a commit in which others go over', new MembershipChange(), true],
    ['ranks that call different things', new CollectiveMismatchError(words), false],
    ['an error of its own', new TensorStateError(words), false],
  ])('lets it go on after %s or not', async (_, error, goesOn) => {
    const { members, order } = linked();
    order(membership(0));
    const answer = members.goesOnAfter(0, error, false);
    order(membership(1));
    expect(await answer).toBe(goesOn);
  });

  it('lets it go on after any error that comes of a lost rank, or while ranks join', async () => {
    const { members, order } = linked();
    order(membership(0));
    const joining = members.goesOnAfter(0, new Error('read ECONNRESET'), true);
    order(membership(1, 'lost'));
    expect(await joining).toBe(true);
    expect(await members.goesOnAfter(0, new TypeError('a value that is not there'), false)).toBe(
      true,
    );
  });

  it.each([
    [
      'the rank of which a call says it',
      new CollectiveAbortedError(words, { abortedBy: 1, reason: 'it broke' }),
      { ranks: [1], reason: 'it broke' },
    ],
    [
      'the rank of which a cause says it',
      new Error('outer', {
        cause: new CollectiveAbortedError(words, { abortedBy: 1, reason: 'it broke' }),
      }),
      { ranks: [1], reason: 'it broke' },
    ],
    [
      'all ranks that did not join',
      new CollectiveTimeoutError(words, { missing: [0, 2] }),
      { ranks: [0, 2], reason: expect.stringContaining('rank 1 is gone') },
    ],
    ['nobody', new Error('read ECONNRESET'), { ranks: [], reason: 'Error: read ECONNRESET' }],
  ])('is asked for by a rank that could not reach others, naming %s', async (_, error, said) => {
    const { members, order, sent } = linked();
    order(membership(0));
    const answer = members.goesOnAfter(0, error, true);
    expect(sent.at(-1)).toEqual({ kind: 'broken', epoch: 0, ...said });
    order(membership(1, 'it broke'));
    expect(await answer).toBe(true);
    // What comes of the former membership asks for nothing more.
    await members.goesOnAfter(0, error, true);
    expect(sent).toHaveLength(2);
  });

  it.each([
    ['a device that is missing', new BackendError(words)],
    ['an option that does not fit', new ConfigError(words)],
    ['a mistake of the script', new TypeError('a value that is not there')],
  ])('is not asked for because of %s, which new connections do not mend', async (_, error) => {
    const { members, order, sent } = linked();
    order(membership(0));
    const answer = members.goesOnAfter(0, error, true);
    expect(sent).toHaveLength(1);
    // Another rank may be lost meanwhile.
    order(membership(1, 'it broke'));
    expect(await answer).toBe(true);
  });

  it('does not let it go on if ranks that join have different states', async () => {
    const { members, order } = linked();
    order(membership(0));
    expect(await members.goesOnAfter(0, new TensorStateError(words), true)).toBe(false);
  });

  it('does not let it go on if the launcher ends all ranks', async () => {
    const { members, order } = linked();
    order(membership(0));
    const answer = members.goesOnAfter(0, new CollectiveAbortedError(words), false);
    order({ kind: 'abort', rank: 1, reason: 'too few are left' });
    expect(await answer).toBe(false);
    await expect(members.after(0)).rejects.toThrow('too few are left');
  });
});
