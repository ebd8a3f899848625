import { createGroup, type WatchedTransport } from '@shardwise/collectives';
import { connectStore, tcpTransport } from '@shardwise/collectives/node';
import type { TcpMeeting } from '../../launcher/transports/join-way.ts';
import { countTraffic } from './count-traffic.ts';
import type { JoinedRank } from './joined-rank.ts';

export interface TcpPlace {
  readonly rank: number;
  readonly size: number;
  /** The ranks to connect with. Default: all. */
  readonly peers?: readonly number[];
  /** Gives up joining. */
  readonly signal?: AbortSignal;
  /** False: the launcher notices ranks that are stopped. */
  readonly heartbeat?: false;
  /** Whether nothing is left in the store of this rank. */
  readonly withdrawAddress?: boolean;
}

/**
 * Makes the group of ranks that talk by TCP. `hosts` has the host of each rank, if it is known. Rejects with a
 * CollectiveError that names the ranks that did not come.
 */
export async function joinTcp(
  meeting: TcpMeeting,
  place: TcpPlace,
  hosts?: readonly number[],
): Promise<JoinedRank> {
  const transport = await meetByTcp(meeting, place);
  const traffic = { sentBytes: 0, receivedBytes: 0 };
  const counted = countTraffic(transport, traffic);
  const group = createGroup(counted, hosts === undefined ? {} : { hosts });
  return { group, arena: undefined, traffic };
}

/** Connects this rank with all others. After that, the store is no longer needed. */
export async function meetByTcp(
  { store: at, secret, epoch, host }: TcpMeeting,
  place: TcpPlace,
): Promise<WatchedTransport> {
  const store = await connectStore({ ...at, secret });
  try {
    return await tcpTransport({ store, ...place, epoch, secret, host });
  } finally {
    store.close();
  }
}
