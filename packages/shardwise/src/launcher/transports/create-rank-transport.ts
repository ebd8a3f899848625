import { randomBytes } from 'node:crypto';
import {
  abortShmWorld,
  closeShmWorld,
  createShmWorld,
  shmAvailability,
  type ShmAvailability,
  startStoreServer,
} from '@shardwise/collectives/node';
import { abortThreadsWorld, createThreadsWorld } from '@shardwise/collectives';
import { firstRankOf, hostsOf, type Generation } from '../../rendezvous/generation.ts';
import type { JoinWay, LocalWay, MembersWay, TcpMeeting } from './join-way.ts';
import { chooseTransport, type RankForm, type TransportChoice } from './transport-choice.ts';
import { findTransportModule } from './transport-module.ts';

export interface RankTransportOptions {
  /** Whether ranks are started again one by one. Default: false. */
  readonly areApart?: boolean;
  /** Whether ranks go on if one is lost. Default: false. */
  readonly areMembers?: boolean;
  /** How long ranks may take to connect by a module's transport. Default: 60 s. */
  readonly moduleTimeoutMs?: number | undefined;
  /** Whether this machine offers shared memory between processes. Default: it is looked up. */
  readonly shm?: () => ShmAvailability;
}

/** Makes what the ranks of one start need to reach each other. Throws ConfigError. */
export async function createRankTransport(
  generation: Generation,
  form: RankForm,
  {
    areApart = false,
    areMembers = false,
    moduleTimeoutMs,
    shm = shmAvailability,
  }: RankTransportOptions = {},
): Promise<RankTransport> {
  const ranksPerHost = generation.nodes.map(({ ranks }) => ranks);
  const choice = chooseTransport({
    form,
    areApart,
    areMembers,
    module: generation.transport,
    ranksPerHost,
    shm,
  });
  const own = ranksPerHost[generation.nodeRank] ?? 1;
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
      return hosted(generation, choice, form, own);
    case 'tcp':
      return overTcp(generation, choice, areMembers);
    case 'module':
      return byModule(generation, choice, form, moduleTimeoutMs);
    default:
      return choice.kind satisfies never;
  }
}

async function overTcp(
  generation: Generation,
  choice: TransportChoice,
  areMembers: boolean,
): Promise<RankTransport> {
  const { meeting, close } = await meetingOf(generation);
  return {
    choice,
    way: areMembers
      ? { kind: 'members', meeting }
      : { kind: 'tcp', hosts: hostsOf(generation), meeting },
    abort: () => undefined,
    close,
  };
}

async function byModule(
  generation: Generation,
  choice: TransportChoice,
  form: RankForm,
  timeoutMs: number | undefined,
): Promise<RankTransport> {
  const module = await findTransportModule(generation.transport ?? '', form, timeoutMs);
  const { meeting, close } = await meetingOf(generation);
  return {
    choice,
    way: { kind: 'module', module, hosts: hostsOf(generation), meeting },
    abort: () => undefined,
    close,
  };
}

async function hosted(
  generation: Generation,
  choice: TransportChoice,
  form: RankForm,
  size: number,
): Promise<RankTransport> {
  const { meeting, close } = await meetingOf(generation);
  const local = localTransport(form, size);
  const first = firstRankOf(generation, generation.nodeRank);
  // The ranks are numbered as in hostedTransport: those of this host from 0, then those of the world.
  const inLocalWorld = (rank: number): number =>
    rank >= first && rank < first + size ? rank - first : size + rank;
  return {
    choice,
    way: { kind: 'hosted', local: local.way, hosts: hostsOf(generation), meeting },
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
}: Generation): Promise<{ readonly meeting: TcpMeeting; readonly close: () => void }> {
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
  readonly way: JoinWay | MembersWay;
  /** Makes every pending and future call in memory of this host fail, with `rank` as the culprit. */
  abort(rank: number | undefined, reason: string): void;
  /** Call this when the ranks have ended. */
  close(): void;
}

/** Memory that the ranks of this host share. */
interface LocalTransport {
  readonly way: LocalWay;
  abort(rank: number | undefined, reason: string): void;
  close(): void;
}

/**
 * Makes memory that the ranks of this host share. Pass 'processes' only if shmAvailability allows it. Throws
 * ConfigError.
 */
function localTransport(form: RankForm, size: number): LocalTransport {
  if (form === 'threads') {
    const world = createThreadsWorld({ size });
    return {
      way: { kind: 'threads', world },
      abort: (rank, reason) => abortThreadsWorld(world, { rank, reason }),
      close: () => undefined,
    };
  }
  const world = createShmWorld({ size });
  return {
    way: { kind: 'shm', world },
    abort: (rank, reason) => abortShmWorld(world, { rank, reason }),
    close: () => closeShmWorld(world),
  };
}
