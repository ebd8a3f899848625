import { reasonText } from '@shardwise/core/spec';
import { BatchSender, receiveBatches } from '../../relay/batches.ts';
import { heedSignals } from '../heed-signals.ts';
import { GRACE_MS, type LaunchEnd, type LaunchOptions } from '../launch.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { LaunchResult, RankHandle, RankOutcome } from '../ranks/rank-handle.ts';
import {
  delayOf,
  type Dismissal,
  type FromHost,
  parseToHost,
  plainFromHost,
  type ToHost,
} from './host-message.ts';
import { memberStarts } from './member-start.ts';
import { fromHostRoute, type HostLink, NO_DELAY_MS, toHostRoute } from './remote-host.ts';

/** How the ranks of a host ended that another one leads. */
export interface FollowedResult extends LaunchResult {
  /** Why this host counted as lost, while the others go on. Undefined if the generation is over. */
  readonly dismissed: Omit<Dismissal, 'kind'> | undefined;
}

/**
 * Starts and ends ranks of this host as the launcher that leads says, and passes on what they tell it. Waits until the
 * generation is over, or until this host counts as lost, and for all its ranks.
 */
export async function followLeader(
  options: LaunchOptions,
  link: HostLink,
  over: Promise<LaunchEnd>,
): Promise<FollowedResult> {
  const { stop } = options;
  const starts = await memberStarts(options);
  const sender = new BatchSender(fromHostRoute(link), NO_DELAY_MS);
  let isGivenUp = false;
  const send = (message: FromHost): void => {
    if (!isGivenUp) sender.send(plainFromHost(message), delayOf(message));
  };
  const handles = new Map<number, RankHandle>();
  const outcomes = new Map<number, RankOutcome>();
  const dismissed = Promise.withResolvers<Dismissal>();
  const comeAnew = (reason: string): void =>
    dismissed.resolve({ kind: 'dismiss', reason, isFinal: false });
  let isOver = false;

  const begin = (rank: number, restarts: number): void => {
    const start = starts.get(rank);
    if (start === undefined || isOver) return;
    const handle = start({
      restarts,
      onMessage: (message) => send({ rank, restarts, told: { kind: 'message', message } }),
      onMember: (message) => send({ rank, restarts, told: { kind: 'member', message } }),
      onDoomed: (reason) => send({ rank, restarts, told: { kind: 'doomed', reason } }),
      onEnd: (end) => send({ rank, restarts, told: { kind: 'end', end } }),
    });
    handles.set(rank, handle);
    const awaitEnd = async (): Promise<void> => {
      outcomes.set(rank, await handle.outcome);
      send({ rank, restarts, told: { kind: 'closed' } });
    };
    void awaitEnd();
    if (stop.aborted) handle.order({ kind: 'stop' });
  };
  const obey = (message: ToHost): void => {
    switch (message.kind) {
      case 'start':
        begin(message.rank, message.restarts);
        return;
      case 'order':
        handles.get(message.rank)?.order(message.order);
        return;
      case 'terminate':
        // Its outcome says that it has ended.
        void handles.get(message.rank)?.terminate();
        return;
      case 'dismiss':
        dismissed.resolve(message);
        return;
      default:
        message satisfies never;
    }
  };
  const orderAll = (order: LauncherOrder): void => {
    for (const handle of handles.values()) handle.order(order);
  };
  const force = async (): Promise<void> => {
    await Promise.all([...handles.values()].map((handle) => handle.terminate()));
  };
  const heedNoMore = heedSignals(options, {
    onStop: () => orderAll({ kind: 'stop' }),
    onForce: () => void force(),
  });
  const heard = new AbortController();
  const listen = async (): Promise<void> => {
    const end = await receiveBatches(toHostRoute(link), heard.signal, (value) => {
      const message = parseToHost(value);
      if (message !== undefined) obey(message);
    });
    if (end === 'broken') comeAnew('the host that leads sent what is no batch of messages');
  };
  const receiving = listen();
  // The leader would wait for this host, and hear nothing.
  void sender.failed.then((error) =>
    comeAnew(`the store has refused a message of it: ${reasonText(error)}`),
  );
  try {
    const end = await Promise.race([over, dismissed.promise]);
    isOver = true;
    const dismissal = 'kind' in end ? end : undefined;
    const { rank, reason, isCutOff = false }: LaunchEnd = end;
    // The ranks are lost with this host, all at once. If the leader heard of their ends one by one when it can be reached
    // again, it would make memberships of those that are about to end.
    isGivenUp = isCutOff || dismissal !== undefined;
    orderAll({ kind: 'abort', rank, reason });
    const grace = setTimeout(() => void force(), options.graceMs ?? GRACE_MS);
    await Promise.all([...handles.values()].map(({ outcome }) => outcome));
    clearTimeout(grace);
    const ended = [...outcomes.values()];
    const failed = ended.findLast(({ exitCode }) => exitCode !== 0);
    // Ranks that are ended because of others say nothing of the failure.
    const culprit = dismissal?.isFinal === true ? failed?.rank : undefined;
    return { outcomes: ended, culprit, dismissed: dismissal };
  } finally {
    isOver = true;
    heedNoMore();
    heard.abort();
    await receiving;
    // Nobody receives what a host says that counts as lost.
    await (isGivenUp ? sender.discard() : sender.close());
  }
}
