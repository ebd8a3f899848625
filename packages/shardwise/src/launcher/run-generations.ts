import type { Rendezvous } from '../rendezvous/rendezvous.ts';
import {
  describeFailure,
  hostsOf,
  nodeLabel,
  type Generation,
  type GenerationEnd,
  type GenerationFailure,
} from '../rendezvous/generation.ts';
import type { RunMessage } from '../run-state/run-message.ts';
import { describeEnd } from './failure.ts';
import { failureKind } from './failure-kind.ts';
import type { LaunchResult, RankEnd } from './ranks/rank-handle.ts';
import { isAborted, launch, type LaunchEnd, type LaunchOptions } from './launch.ts';
import { followLeader } from './members/follow-leader.ts';
import { launchMembers } from './members/launch-members.ts';
import type { MembersOptions } from './members/members-options.ts';
import { createRankTransport, type RankTransport } from './transports/create-rank-transport.ts';
import type { TransportChoice } from './transports/transport-choice.ts';

export interface RunGenerationsOptions extends Omit<
  LaunchOptions,
  'generation' | 'transport' | 'ended' | 'onFailure'
> {
  readonly rendezvous: Rendezvous;
  /** Set if ranks go on without one that is lost. */
  readonly members?: Omit<MembersOptions, 'takeRestart' | 'onHosts'> | undefined;
  /** Whether the next generation may have other hosts. A failure on one of them may then not occur again. */
  readonly isElastic: boolean;
  /** How long ranks may take to connect by the transport of a module. Default: 60 s. */
  readonly transportTimeoutMs?: number | undefined;
  /**
   * Called before the ranks start. The function that it returns is called when the generation is over and the ranks have
   * ended.
   */
  readonly onGeneration: (start: GenerationStart) => Promise<() => Promise<void>>;
}

export interface GenerationStart {
  readonly generation: Generation;
  readonly choice: TransportChoice;
  /** How the previous generation ended for this host. */
  readonly before: GenerationEnd | undefined;
  /** Whether this is that generation, from which this host was cut off while the others went on. Default: false. */
  readonly isSame?: boolean;
}

/** The generation before, as this host has seen it. */
interface Before {
  readonly end: GenerationEnd;
  readonly epoch: number;
}

/** How a run ended, as this host sees it. */
export interface RunEnd {
  /** How this host's last ranks ended. Undefined if none were started. */
  readonly result: LaunchResult | undefined;
  readonly end: GenerationEnd;
  /** How many restarts of the budget have been used up. */
  readonly restarts: number;
}

/** Starts this host's ranks, generation after generation, until the run is over. */
export async function runGenerations(options: RunGenerationsOptions): Promise<RunEnd> {
  const { rendezvous, signal, stop } = options;
  let result: LaunchResult | undefined;
  let before: Before | undefined;
  let restarts = 0;
  for (;;) {
    const next = await nextGeneration(rendezvous, AbortSignal.any([signal, stop]));
    if (next.kind === 'over') return { result, end: next.end, restarts };
    restarts = next.generation.restarts;
    const ran = await runGeneration(options, next.generation, before);
    result = ran.result;
    before = { end: ran.end, epoch: next.generation.epoch };
    if (ran.hasLeft === true) return ran;
    if (ran.end.kind === 'finished' || ran.end.kind === 'stopped') return ran;
  }
}

/** Waits for the next generation. A user who ends the run does not have to wait for other hosts. */
async function nextGeneration(
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

async function runGeneration(
  options: RunGenerationsOptions,
  generation: Generation,
  before: Before | undefined,
): Promise<RunEnd & { readonly hasLeft?: boolean }> {
  const { rendezvous, signal } = options;
  const node = nodeLabel(generation.nodes, generation.nodeRank);
  const ended = Promise.withResolvers<LaunchEnd>();
  let isEnded = false;
  const said: Promise<void>[] = [];
  const say = (end: GenerationEnd): void => void said.push(rendezvous.end(generation, end));
  const over = rendezvous.ended(generation).then((end) => {
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
    const { failure: found, place } = failureOf(generation, rank, end);
    const kind = hasStepped ? undefined : failureKind(end.error);
    const isKept = kind === 'mistake' && options.isElastic && generation.epoch > 0;
    const failure = isKept || kind === undefined ? found : { ...found, kind };
    const failed: GenerationEnd = { kind: 'failed', failure };
    if (!isAborted(end.error) || rendezvous.isQuiet(generation, place)) say(failed);
    else consequence ??= setTimeout(() => say(failed), CONSEQUENCE_MS);
  };
  const onForced = (): void => say({ kind: 'stopped', node });
  signal.addEventListener('abort', onForced, { once: true });
  let transport: RankTransport | undefined;
  let settle: (() => Promise<void>) | undefined;
  try {
    transport = await createRankTransport(generation, options.form, {
      areApart: options.apart !== undefined,
      areMembers: options.members !== undefined,
      moduleTimeoutMs: options.transportTimeoutMs,
    });
    settle = await options.onGeneration({
      generation,
      choice: transport.choice,
      before: before?.end,
      isSame: before?.epoch === generation.epoch,
    });
    const launched = {
      ...options,
      onMessage,
      generation,
      transport,
      ended: ended.promise,
      onFailure,
    };
    const { members } = options;
    const { restarts, nodes, nodeRank } = generation;
    const store = members?.store;
    if (store !== undefined && !rendezvous.leads) {
      const link = { store, admission: nodes[nodeRank]?.admission ?? nodeRank };
      const result = await followLeader(launched, link, over.then(launchEndOf));
      const { dismissed, culprit: rank } = result;
      if (dismissed === undefined) return { result, end: await over, restarts };
      // The others go on, and this host may come anew unless its ranks would fail again.
      const { reason, isFinal } = dismissed;
      if (isFinal) members?.onNotice(`${node} gives up its place: ${reason}`);
      const end: GenerationEnd = { kind: 'failed', failure: { rank, node, reason } };
      return { result, end, restarts, hasLeft: isFinal };
    }
    const result =
      members === undefined
        ? await launch(launched)
        : await launchMembers(launched, {
            ...members,
            takeRestart: () => rendezvous.takeRestart(),
            onHosts: (listener) => rendezvous.onHosts(listener),
          });
    if (result.culprit === undefined && !isEnded && !signal.aborted) {
      // The host that leads has waited for the ranks of all hosts.
      await (members === undefined
        ? rendezvous.finish(generation)
        : rendezvous.end(generation, { kind: 'finished' }));
    }
    return { result, end: await over, restarts };
  } catch (error) {
    // Where another host leads, this one is lost when it gives no more signs of life, and the ranks of the others go on.
    if (options.members?.store !== undefined && !rendezvous.leads) throw error;
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

function launchEndOf(end: GenerationEnd): LaunchEnd {
  switch (end.kind) {
    case 'failed':
      return {
        rank: end.failure.rank,
        // The ranks say it, too, and without the host it would be a riddle there.
        reason: end.isCutOff === true ? describeFailure(end.failure) : end.failure.reason,
        isCutOff: end.isCutOff,
      };
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
  generation: Generation,
  rank: number,
  end: RankEnd,
): { readonly failure: GenerationFailure; readonly place: number } {
  const culprit = isAborted(end.error) ? abortedBy(end.error) : undefined;
  const place = hostsOf(generation)[culprit ?? rank] ?? generation.nodeRank;
  const node = nodeLabel(generation.nodes, place);
  return { failure: { rank: culprit ?? rank, node, reason: describeEnd(end) }, place };
}

function abortedBy(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('fields' in error)) return undefined;
  const { fields } = error;
  if (typeof fields !== 'object' || fields === null || !('abortedBy' in fields)) return undefined;
  return typeof fields.abortedBy === 'number' ? fields.abortedBy : undefined;
}
