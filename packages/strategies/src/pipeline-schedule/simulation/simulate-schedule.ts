import { isStageAction } from '../actions/action-kinds.ts';
import type { ComputeAction, ScheduledAction } from '../actions/action.ts';
import {
  chainEdges,
  computationsOf,
  range,
  type Schedule,
  type StageEdge,
} from '../actions/schedule.ts';
import { checkSchedule } from '../check/check-schedule.ts';
import { dependenciesOf, makesInputGradient } from '../check/dependencies.ts';
import { sweepSchedule } from '../check/sweep-schedule.ts';
import { type FullCosts, fullCosts, type ScheduleCosts } from './schedule-costs.ts';

/** An action with its times, from the beginning of the step. */
export interface TimedAction {
  readonly action: ScheduledAction;
  readonly startMs: number;
  readonly endMs: number;
}

/** The result of the simulator for one rank. */
export interface RankSimulation {
  readonly actions: readonly TimedAction[];
  readonly busyMs: number;
  /** The time in which the rank does nothing: the makespan minus busyMs. */
  readonly idleMs: number;
  /**
   * The part of idleMs between the first and the last action of the rank. If steps follow each other without a
   * barrier, this is all of the waiting.
   */
  readonly waitingMs: number;
  /**
   * The most pairs of stage and microbatch that are kept at the same time, between the forward and the backward
   * or weight gradient.
   */
  readonly peakMicrobatches: number;
  /** The most bytes that these pairs take, by the costs. */
  readonly peakActivationBytes: number;
}

/** The cost of a schedule in the simulator. */
export interface ScheduleSimulation {
  /** The time from the first action of any rank to the last action of any rank. */
  readonly makespanMs: number;
  /** The share of the time of all ranks in which they wait. */
  readonly bubble: number;
  readonly ranks: readonly RankSimulation[];
}

/**
 * Computes the times of all actions, if each action takes the time that the costs say, and waits only for its rank and
 * the messages that it needs.
 *
 * Throws ConfigError for a schedule that ranks cannot run. The error names the ranks that wait for each other.
 */
export function simulateSchedule(
  schedule: Schedule,
  costs: ScheduleCosts = {},
  edges: readonly StageEdge[] = chainEdges(schedule.stages),
): ScheduleSimulation {
  const full = fullCosts(schedule, costs);
  checkSchedule(schedule, edges);
  const clock = new MessageClock(schedule, full, edges);
  const ranks = schedule.actions.map(() => new RankClock(full, schedule.forwardOnly));
  sweepSchedule(schedule, dependenciesOf(edges, schedule.stages), (rank, action) => {
    if (isStageAction(action)) return;
    const computations = computationsOf(action);
    const ready = Math.max(0, ...computations.map((each) => clock.readyMs(each)));
    const endMs = ranks[rank]?.run(action, ready) ?? 0;
    for (const computation of computations) clock.finish(computation, endMs);
  });
  const makespanMs = Math.max(0, ...ranks.map(({ nowMs }) => nowMs));
  const busyMs = ranks.reduce((sum, rank) => sum + rank.busyMs, 0);
  return {
    makespanMs,
    bubble: makespanMs === 0 ? 0 : 1 - busyMs / (makespanMs * schedule.ranks),
    ranks: ranks.map((rank) => ({
      actions: rank.actions,
      busyMs: rank.busyMs,
      idleMs: makespanMs - rank.busyMs,
      waitingMs: rank.nowMs - (rank.actions[0]?.startMs ?? 0) - rank.busyMs,
      peakMicrobatches: rank.peakMicrobatches,
      peakActivationBytes: rank.peakActivationBytes,
    })),
  };
}

/** Keeps the times at which the inputs of computations arrive. */
class MessageClock {
  readonly #microbatches: number;
  readonly #arrivals: { readonly forward: Float64Array; readonly gradient: Float64Array };
  readonly #outgoing: { to: number; delayMs: number }[][];
  readonly #returning: { to: number; delayMs: number }[][];

  constructor(schedule: Schedule, { link }: FullCosts, edges: readonly StageEdge[]) {
    const { stages, microbatches, rankOfStage } = schedule;
    this.#microbatches = microbatches;
    this.#arrivals = {
      forward: new Float64Array(stages * microbatches),
      gradient: new Float64Array(stages * microbatches),
    };
    this.#outgoing = range(stages).map(() => []);
    this.#returning = range(stages).map(() => []);
    for (const { from, to, gradient, bytes = 0 } of edges) {
      const isLocal = rankOfStage[from] === rankOfStage[to];
      const delayMs = isLocal ? 0 : link.latencyMs + (1000 * bytes) / link.bytesPerSecond;
      this.#outgoing[from]?.push({ to, delayMs });
      if (gradient) this.#returning[to]?.push({ to: from, delayMs });
    }
  }

  readyMs({ kind, stage, microbatch }: ComputeAction): number {
    const index = stage * this.#microbatches + microbatch;
    if (kind === 'forward') return this.#arrivals.forward[index] ?? 0;
    return makesInputGradient(kind) ? (this.#arrivals.gradient[index] ?? 0) : 0;
  }

  finish({ kind, stage, microbatch }: ComputeAction, endMs: number): void {
    if (kind === 'weightGradient') return;
    const isForward = kind === 'forward';
    const arrivals = this.#arrivals[isForward ? 'forward' : 'gradient'];
    for (const { to, delayMs } of (isForward ? this.#outgoing : this.#returning)[stage] ?? []) {
      const index = to * this.#microbatches + microbatch;
      arrivals[index] = Math.max(arrivals[index] ?? 0, endMs + delayMs);
    }
  }
}

/** The actions that a rank has done, and the activations that it keeps. */
class RankClock {
  readonly actions: TimedAction[] = [];
  nowMs = 0;
  busyMs = 0;
  peakMicrobatches = 0;
  peakActivationBytes = 0;
  readonly #costs: FullCosts;
  readonly #forwardOnly: boolean;
  #microbatches = 0;
  #bytes = 0;

  constructor(costs: FullCosts, forwardOnly: boolean) {
    this.#costs = costs;
    this.#forwardOnly = forwardOnly;
  }

  /** Returns the time at which the action ends. */
  run(action: ScheduledAction, readyMs: number): number {
    const startMs = Math.max(this.nowMs, readyMs);
    const durationMs = this.#durationMs(action);
    const computations = computationsOf(action);
    for (const each of computations) this.#keep(each);
    for (const each of computations) this.#drop(each);
    this.nowMs = startMs + durationMs;
    this.busyMs += durationMs;
    this.actions.push({ action, startMs, endMs: this.nowMs });
    return this.nowMs;
  }

  #durationMs(action: ScheduledAction): number {
    if (action.kind !== 'overlap') return this.#computationMs(action);
    const [a, b] = action.actions.map((each) => this.#computationMs(each));
    const [first, second] = [a ?? 0, b ?? 0];
    return first + second - this.#costs.hiddenShare * Math.min(first, second);
  }

  #computationMs({ kind, stage }: ComputeAction): number {
    return this.#costs.stages[stage]?.[`${kind}Ms`] ?? 0;
  }

  #keep({ kind, stage }: ComputeAction): void {
    if (kind !== 'forward') return;
    this.#microbatches++;
    this.#bytes += this.#costs.stages[stage]?.activationBytes ?? 0;
    this.peakMicrobatches = Math.max(this.peakMicrobatches, this.#microbatches);
    this.peakActivationBytes = Math.max(this.peakActivationBytes, this.#bytes);
  }

  #drop({ kind, stage }: ComputeAction): void {
    const { activationBytes = 0, weightGradientBytes = 0 } = this.#costs.stages[stage] ?? {};
    const isLast = kind === 'backward' || kind === 'weightGradient';
    if (isLast || (kind === 'forward' && this.#forwardOnly)) this.#microbatches--;
    if (kind === 'backward' || (kind === 'forward' && this.#forwardOnly)) {
      this.#bytes -= activationBytes;
    } else if (kind === 'inputGradient') {
      this.#bytes -= activationBytes - weightGradientBytes;
    } else if (kind === 'weightGradient') {
      this.#bytes -= weightGradientBytes;
    }
    this.peakActivationBytes = Math.max(this.peakActivationBytes, this.#bytes);
  }
}
