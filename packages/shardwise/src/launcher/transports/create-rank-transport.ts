import { randomBytes } from 'node:crypto';
import {
  shmAvailability,
  type ShmAvailability,
  startStoreServer,
} from '@shardwise/collectives/node';
import { firstRankOf, hostsOf, type Round } from '../../rendezvous/round.ts';
import type { JoinWay, TcpMeeting } from '../rank-data.ts';
import { localTransport } from './local-transport.ts';
import { chooseTransport, type RankForm, type TransportChoice } from './transport-choice.ts';
import { findTransportModule } from './transport-module.ts';

export interface RankTransportOptions {
  /** Whether ranks are started again one by one. Default: false. */
  readonly areApart?: boolean;
  /** How long ranks may take to connect by a module's transport. Default: 60 s. */
  readonly moduleTimeoutMs?: number | undefined;
  /** Whether this machine offers shared memory between processes. Default: it is looked up. */
  readonly shm?: () => ShmAvailability;
}

/** Makes what the ranks of one start need to reach each other. Throws ConfigError. */
export async function createRankTransport(
  round: Round,
  form: RankForm,
  { areApart = false, moduleTimeoutMs, shm = shmAvailability }: RankTransportOptions = {},
): Promise<RankTransport> {
  const ranksPerHost = round.nodes.map(({ ranks }) => ranks);
  const choice = chooseTransport({ form, areApart, module: round.transport, ranksPerHost, shm });
  const own = ranksPerHost[round.nodeRank] ?? 1;
  switch (choice.kind) {
    case 'threads':
    case 'shm': {
      const local = localTransport(form, own);
      return {
        choice,
        way: local.way,
        abort: (rank, reason) => local.abort(rank, reason),
        close: () => local.close(),
      };
    }
    case 'apart':
      return { choice, way: { kind: 'apart' }, abort: () => undefined, close: () => undefined };
    case 'hosted':
      return hosted(round, choice, form, own);
    case 'tcp':
      return overTcp(round, choice);
    case 'module':
      return byModule(round, choice, form, moduleTimeoutMs);
    default:
      return choice.kind satisfies never;
  }
}

async function overTcp(round: Round, choice: TransportChoice): Promise<RankTransport> {
  const { meeting, close } = await meetingOf(round);
  return {
    choice,
    way: { kind: 'tcp', hosts: hostsOf(round), meeting },
    abort: () => undefined,
    close,
  };
}

async function byModule(
  round: Round,
  choice: TransportChoice,
  form: RankForm,
  timeoutMs: number | undefined,
): Promise<RankTransport> {
  const module = await findTransportModule(round.transport ?? '', form, timeoutMs);
  const { meeting, close } = await meetingOf(round);
  return {
    choice,
    way: { kind: 'module', module, hosts: hostsOf(round), meeting },
    abort: () => undefined,
    close,
  };
}

async function hosted(
  round: Round,
  choice: TransportChoice,
  form: RankForm,
  size: number,
): Promise<RankTransport> {
  const { meeting, close } = await meetingOf(round);
  const local = localTransport(form, size);
  const first = firstRankOf(round, round.nodeRank);
  // The ranks are numbered as in hostedTransport: those of this host from 0, then those of the world.
  const inLocalWorld = (rank: number): number =>
    rank >= first && rank < first + size ? rank - first : size + rank;
  return {
    choice,
    way: { kind: 'hosted', local: local.way, hosts: hostsOf(round), meeting },
    abort: (rank, reason) =>
      local.abort(rank === undefined ? undefined : inLocalWorld(rank), reason),
    close: () => {
      local.close();
      close();
    },
  };
}

/** Returns where ranks meet. Several hosts have a store already. The ranks of a single host get a new one. */
async function meetingOf({
  epoch,
  nodes,
  nodeRank,
  store,
}: Round): Promise<{ readonly meeting: TcpMeeting; readonly close: () => void }> {
  const host = nodes[nodeRank]?.address ?? '127.0.0.1';
  if (store !== undefined) {
    const { secret, ...address } = store;
    return { meeting: { store: address, secret, epoch, host }, close: () => undefined };
  }
  const secret = randomBytes(32).toString('hex');
  const server = await startStoreServer({ secret });
  const address = { host: server.host, port: server.port };
  return {
    meeting: { store: address, secret, epoch, host: server.host },
    close: () => server.close(),
  };
}

/** How the ranks of one start reach each other, as the launcher of one host sees it. */
export interface RankTransport {
  readonly choice: TransportChoice;
  readonly way: JoinWay;
  /** Makes every pending and future call in memory of this host fail, with `rank` as the culprit. */
  abort(rank: number | undefined, reason: string): void;
  /** Call this when the ranks have ended. */
  close(): void;
}
