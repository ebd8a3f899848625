import type { Rendezvous } from '../rendezvous/rendezvous.ts';
import {
  hostsOf,
  nodeLabel,
  type Round,
  type RoundEnd,
  type RoundFailure,
} from '../rendezvous/round.ts';
import type { RunMessage } from '../run-state/message.ts';
import { describeEnd } from './failure.ts';
import { failureKind } from './failure-kind.ts';
import type { LaunchResult, RankEnd } from './rank-handle.ts';
import { isAborted, launch, type LaunchEnd, type LaunchOptions } from './launch.ts';
import { createRankTransport, type RankTransport } from './transports/create-rank-transport.ts';
import type { TransportChoice } from './transports/transport-choice.ts';

export interface RunRoundsOptions extends Omit<
  LaunchOptions,
  'round' | 'transport' | 'ended' | 'onFailure'
> {
  readonly rendezvous: Rendezvous;
  /** Whether the next round may have other hosts. A failure on one of them may then not occur again. */
  readonly isElastic: boolean;
  /** How long ranks may take to connect by the transport of a module. Default: 60 s. */
  readonly transportTimeoutMs?: number | undefined;
  /**
   * Called before the ranks start. The function that it returns is called when the round is over and the ranks have
   * ended.
   */
  readonly onRound: (start: RoundStart) => Promise<() => Promise<void>>;
}

export interface RoundStart {
  readonly round: Round;
  readonly choice: TransportChoice;
  /** How the previous round ended. */
  readonly before: RoundEnd | undefined;
}

/** How a run ended, as this host sees it. */
export interface RunEnd {
  /** How this host's last ranks ended. Undefined if none were started. */
  readonly result: LaunchResult | undefined;
  readonly end: RoundEnd;
  /** How many restarts of the budget have been used up. */
  readonly restarts: number;
}

/** Starts this host's ranks, round after round, until the run is over. */
export async function runRounds(options: RunRoundsOptions): Promise<RunEnd> {
  const { rendezvous, signal, stop } = options;
  let result: LaunchResult | undefined;
  let before: RoundEnd | undefined;
  let restarts = 0;
  for (;;) {
    const next = await nextRound(rendezvous, AbortSignal.any([signal, stop]));
    if (next.kind === 'over') return { result, end: next.end, restarts };
    restarts = next.round.restarts;
    const ran = await runRound(options, next.round, before);
    result = ran.result;
    before = ran.end;
    if (ran.end.kind === 'finished' || ran.end.kind === 'stopped') return ran;
  }
}

/** Waits for the next round. A user who ends the run does not have to wait for other hosts. */
async function nextRound(
  rendezvous: Rendezvous,
  signal: AbortSignal,
): ReturnType<Rendezvous['next']> {
  try {
    return await rendezvous.next(signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    return { kind: 'over', end: { kind: 'stopped', node: 'this host' } };
  }
}

/**
 * The failure of a rank that failed because of another one may be noticed first. A host waits this long for the host
 * where the failure began to report it, unless that host has gone quiet.
 */
const CONSEQUENCE_MS = 700;

async function runRound(
  options: RunRoundsOptions,
  round: Round,
  before: RoundEnd | undefined,
): Promise<RunEnd> {
  const { rendezvous, signal } = options;
  const node = nodeLabel(round.nodes, round.nodeRank);
  const ended = Promise.withResolvers<LaunchEnd>();
  let isEnded = false;
  const said: Promise<void>[] = [];
  const say = (end: RoundEnd): void => void said.push(rendezvous.end(round, end));
  const over = rendezvous.ended(round).then((end) => {
    if (end.kind !== 'finished') ended.resolve(launchEndOf(end));
    isEnded = end.kind !== 'finished';
    return end;
  });
  let consequence: NodeJS.Timeout | undefined;
  let hasStepped = false;
  const onMessage = (message: RunMessage): void => {
    hasStepped ||= message.kind === 'step';
    options.onMessage(message);
  };
  const onFailure = (rank: number, end: RankEnd): void => {
    const { failure: found, place } = failureOf(round, rank, end);
    const kind = hasStepped ? undefined : failureKind(end.error);
    const isKept = kind === 'mistake' && options.isElastic && round.epoch > 0;
    const failure = isKept || kind === undefined ? found : { ...found, kind };
    const failed: RoundEnd = { kind: 'failed', failure };
    if (!isAborted(end.error) || rendezvous.isQuiet(round, place)) say(failed);
    else consequence ??= setTimeout(() => say(failed), CONSEQUENCE_MS);
  };
  const onForced = (): void => say({ kind: 'stopped', node });
  signal.addEventListener('abort', onForced, { once: true });
  let transport: RankTransport | undefined;
  let settle: (() => Promise<void>) | undefined;
  try {
    transport = await createRankTransport(round, options.form, {
      areApart: options.apart !== undefined,
      moduleTimeoutMs: options.transportTimeoutMs,
    });
    settle = await options.onRound({ round, choice: transport.choice, before });
    const result = await launch({
      ...options,
      onMessage,
      round,
      transport,
      ended: ended.promise,
      onFailure,
    });
    if (result.culprit === undefined && !isEnded && !signal.aborted) await rendezvous.finish(round);
    return { result, end: await over, restarts: round.restarts };
  } catch (error) {
    // Other hosts must not wait for ranks that have never started.
    const reason = error instanceof Error ? error.message : String(error);
    say({ kind: 'failed', failure: { node, reason } });
    throw error;
  } finally {
    clearTimeout(consequence);
    signal.removeEventListener('abort', onForced);
    await Promise.all(said);
    transport?.close();
    await settle?.();
  }
}

function launchEndOf(end: RoundEnd): LaunchEnd {
  switch (end.kind) {
    case 'failed':
      return { rank: end.failure.rank, reason: end.failure.reason };
    case 'joined':
      return { rank: undefined, reason: `the group takes in ${end.nodes.join(', ')}` };
    case 'stopped':
      return { rank: undefined, reason: `the user ended the run on ${end.node}` };
    case 'finished':
      return { rank: undefined, reason: 'all ranks have finished' };
    default:
      return end satisfies never;
  }
}

/**
 * Returns the rank that a failure is blamed on, and the place of its host. If a rank failed because another one was
 * gone, that other rank is blamed, if the error names it.
 */
function failureOf(
  round: Round,
  rank: number,
  end: RankEnd,
): { readonly failure: RoundFailure; readonly place: number } {
  const culprit = isAborted(end.error) ? abortedBy(end.error) : undefined;
  const place = hostsOf(round)[culprit ?? rank] ?? round.nodeRank;
  const node = nodeLabel(round.nodes, place);
  return { failure: { rank: culprit ?? rank, node, reason: describeEnd(end) }, place };
}

function abortedBy(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('fields' in error)) return undefined;
  const { fields } = error;
  if (typeof fields !== 'object' || fields === null || !('abortedBy' in fields)) return undefined;
  return typeof fields.abortedBy === 'number' ? fields.abortedBy : undefined;
}
