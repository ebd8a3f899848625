import { connectStore, startStoreServer } from '@shardwise/collectives/node';
import { ConfigError } from '@shardwise/core/extend';
import { readSecret } from '../../rendezvous/read-secret.ts';
import type { RankLaunch } from '../../environment/launch.ts';
import { addressTowards } from '../../rendezvous/node-address.ts';
import { joinTcp } from './join-tcp.ts';
import type { JoinedRank } from './joined-rank.ts';

/** Joins ranks that another launcher has started, by TCP. Rank 0 serves their store. */
export async function joinByEnvironment(
  launch: RankLaunch,
  environment: NodeJS.ProcessEnv,
): Promise<JoinedRank> {
  const { rank, worldSize: size, restartCount: epoch = 0 } = launch;
  const at = addressOf(launch);
  const secret = await readSecret(undefined, environment);
  const server = rank === 0 ? await startStoreServer({ ...at, secret }) : undefined;
  try {
    // The client waits, because rank 0 may start later.
    const store = await connectStore({ ...at, secret });
    const host = rank === 0 ? at.host : await addressTowards(at.host, at.port);
    const joined = await joinTcp({ store: at, secret, epoch, host }, { rank, size });
    // Rank 0 keeps the store until all ranks have joined, because some may still have to read the addresses of others.
    const keyOf = (member: number): string => `joined/${epoch}/${member}`;
    await store.set(keyOf(rank), new Uint8Array(1));
    if (rank === 0) {
      for (let member = 1; member < size; member += 1) await store.wait([keyOf(member)]);
    }
    store.close();
    return joined;
  } finally {
    server?.close();
  }
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

function addressOf({ address, port, launcher }: RankLaunch): Endpoint {
  if (address !== undefined && port !== undefined) return { host: address, port };
  throw new ConfigError(
    {
      asked: `Joining the ranks that ${launcher} has started, by TCP`,
      found: 'nothing says where they meet',
      todo: 'Set MASTER_ADDR and MASTER_PORT to an address of rank 0',
    },
    { launcher },
  );
}
