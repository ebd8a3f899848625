import type { ShmAvailability } from '@shardwise/collectives/node';

/** The transports that `shardwise run` can choose from. */
export type LaunchedTransport = 'threads' | 'shm' | 'tcp' | 'hosted' | 'module' | 'apart';

/**
 * How ranks reach each other. In addition to those of `shardwise run`: `mpi` for ranks that mpirun or srun has started,
 * `own` for a group that the script has made, and `none` for a rank that is alone.
 */
type TransportKind = LaunchedTransport | 'mpi' | 'own' | 'none';

/** How the ranks of a world reach each other, and why. */
export interface TransportChoice<Kind extends TransportKind = TransportKind> {
  readonly kind: Kind;
  readonly reason: string;
}

export type RankForm = 'threads' | 'processes';

export interface TransportSituation {
  /** Whether the ranks of this host are threads or processes. */
  readonly form: RankForm;
  /** Whether ranks are started again one by one. Default: false. */
  readonly areApart?: boolean;
  /** Whether ranks go on if one is lost. Default: false. */
  readonly areMembers?: boolean;
  /** The name of the module that makes the transport. Default: none does. */
  readonly module?: string | undefined;
  /** The number of ranks of each host, by the host's place. */
  readonly ranksPerHost: readonly number[];
  readonly shm: () => ShmAvailability;
}

/**
 * Chooses the transport of ranks that `shardwise run` starts. No other code decides this. In a run on several hosts,
 * each host decides for itself whether its own ranks share memory. Between hosts it is TCP, unless a module of the user
 * makes the transport.
 */
export function chooseTransport(situation: TransportSituation): TransportChoice<LaunchedTransport> {
  const { form, areApart = false, areMembers = false, module, ranksPerHost, shm } = situation;
  const ranks = ranksPerHost.reduce((sum, count) => sum + count, 0);
  const hosts = ranksPerHost.length;
  const where = hosts === 1 ? 'one host' : `${hosts} hosts`;
  const many =
    form === 'threads' ? amount(ranks, 'thread', 'threads') : amount(ranks, 'process', 'processes');
  if (areApart) return { kind: 'apart', reason: `${many}, which share parameter servers alone` };
  if (areMembers) return { kind: 'tcp', reason: `${many}, each of which the others can lose` };
  if (module !== undefined) return { kind: 'module', reason: `${module}, ${many} of ${where}` };
  if (hosts > 1 && ranksPerHost.every((count) => count === 1)) {
    return { kind: 'tcp', reason: `${many}, one on each of ${hosts} hosts` };
  }
  if (form === 'processes') {
    const found = shm();
    if (!found.available) {
      return { kind: 'tcp', reason: `${many} of ${where}, no shared memory: ${found.reason}` };
    }
  }
  if (hosts > 1) return { kind: 'hosted', reason: `${many} of ${where}` };
  return form === 'threads'
    ? { kind: 'threads', reason: `${many} of one process` }
    : { kind: 'shm', reason: `${many} of one host` };
}

function amount(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Describes a choice, such as `shm (2 processes of one host)`. */
export function describeTransport({ kind, reason }: TransportChoice): string {
  return `${kind} (${reason})`;
}
