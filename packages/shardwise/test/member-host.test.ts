import { connectStore, type Server, startStoreServer } from '@shardwise/collectives/node';
import type { Store } from '@shardwise/core/extend';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { rankDataMarker } from '../src/launcher/ranks/rank-data.ts';
import type { LauncherLink } from '../src/rank/launcher-link.ts';
import { memberHost } from '../src/rank/members/member-host.ts';
import { MemberLink } from '../src/rank/members/member-link.ts';
import type { JoinedRank } from '../src/rank/join/joined-rank.ts';

const secret = 'a secret';
const never = new AbortController().signal;

describe('the store of ranks that go over from one membership to the next', () => {
  let server: Server;
  let store: Store;
  beforeEach(async () => {
    server = await startStoreServer({ secret });
    store = await connectStore({ host: server.host, port: server.port, secret });
  });
  afterEach(() => {
    store.close();
    server.close();
  });

  /** Joins as a rank of a membership of two ranks. */
  const join = (rank: number, epoch: number, signal: AbortSignal): Promise<JoinedRank> => {
    const { host, port } = server;
    const meeting = { store: { host, port }, secret, epoch: 1, host };
    const way = { kind: 'members', meeting } as const;
    const link: LauncherLink = {
      data: {
        marker: rankDataMarker,
        rank,
        localRank: rank,
        worldSize: 2,
        transport: { kind: 'tcp', reason: 'ranks may be lost' },
        way,
        runDirectory: 'runs/x',
        checkpointDirectory: undefined,
        resumeDirectory: undefined,
        servers: undefined,
        stop: undefined,
      },
      send: () => undefined,
      listen: () => undefined,
      close: () => undefined,
    };
    return memberHost({
      link,
      way,
      members: new MemberLink(link, 1),
      epoch,
      place: { rank, worldSize: 2, replicaSize: 1, hosts: [0, 1] },
      signal,
      isRecorded: false,
    }).join();
  };
  const addressKey = (epoch: number, rank: number): string =>
    `tcp/${2 ** 32 + epoch}/address/${rank}`;

  it('keeps no address of memberships whose ranks have joined each other', async () => {
    const epochs = Array.from({ length: 8 }, (_, epoch) => epoch);
    for (const epoch of epochs) {
      const joined = await Promise.all([0, 1].map((rank) => join(rank, epoch, never)));
      for (const { group } of joined) group.close();
    }
    const left = epochs.flatMap((epoch) =>
      [0, 1].map((rank) => store.delete(addressKey(epoch, rank))),
    );
    expect(await Promise.all(left)).toEqual(left.map(() => false));
  });

  it('keeps no address of a rank that gives a membership up, because others train', async () => {
    const over = new AbortController();
    const joining = join(0, 0, over.signal);
    await store.wait([addressKey(0, 0)]);
    over.abort(new Error('rank 1 is lost'));
    await expect(joining).rejects.toThrow('rank 1 is lost');
    expect(await store.delete(addressKey(0, 0))).toBe(false);
  });
});
