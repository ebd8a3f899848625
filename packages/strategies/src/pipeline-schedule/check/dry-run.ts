import { isReceive, isTransfer, otherEnd } from '../actions/action-kinds.ts';
import { formatAction } from '../actions/action-text.ts';
import type { Action } from '../actions/action.ts';
import { computationsOf, type LoweredSchedule } from '../actions/schedule.ts';
import type { BlockedRank } from './blocked-rank.ts';
import { dependenciesOf, makesInputGradient, needsOf } from './dependencies.ts';

export interface DryRun {
  /** The number of steps that all ranks need if each rank does one action in a step. */
  readonly steps: number;
  readonly blocked: readonly BlockedRank[];
}

/**
 * Goes through the actions of all ranks without computing anything. A receive waits for its send. A computation waits
 * for its receives and for computations of its own rank. A send waits for nothing, or with `together` until the other
 * rank has reached the receive.
 */
export function dryRun(lowered: LoweredSchedule, together = false): DryRun {
  const { actions, rankOfStage } = lowered;
  const dependencies = dependenciesOf(lowered.edges, lowered.stages);
  const done = new Set<string>();
  const positions = actions.map(() => 0);
  const next = (rank: number): Action | undefined => actions[rank]?.[positions[rank] ?? 0];
  const missing = (action: Action): Action | undefined => {
    if (isTransfer(action)) {
      const other = otherEnd(action);
      if (isReceive(action.kind)) return done.has(formatAction(other)) ? undefined : other;
      const head = next(rankOfStage[action.peer] ?? 0);
      const isMet = !together || (head !== undefined && formatAction(head) === formatAction(other));
      return isMet ? undefined : other;
    }
    for (const computation of computationsOf(action)) {
      for (const { of, stage } of needsOf(computation, dependencies)) {
        const { microbatch } = computation;
        const isLocal = rankOfStage[stage] === rankOfStage[computation.stage];
        const needed: Action = isLocal
          ? { kind: of === 'forward' ? 'forward' : 'inputGradient', stage, microbatch }
          : {
              kind: of === 'forward' ? 'receiveActivation' : 'receiveGradient',
              stage: computation.stage,
              peer: stage,
              microbatch,
            };
        if (!done.has(formatAction(needed))) return needed;
      }
    }
    return undefined;
  };
  const advance = (rank: number): boolean => {
    const action = next(rank);
    if (action === undefined || missing(action) !== undefined) return false;
    done.add(formatAction(action));
    for (const { kind, stage, microbatch } of computationsOf(action)) {
      const isGradient = makesInputGradient(kind);
      done.add(formatAction({ kind: isGradient ? 'inputGradient' : kind, stage, microbatch }));
    }
    positions[rank] = (positions[rank] ?? 0) + 1;
    return true;
  };
  let steps = 0;
  const isLeft = (_: unknown, rank: number): boolean => next(rank) !== undefined;
  for (let hasProgress = true; hasProgress && actions.some(isLeft);) {
    const first = actions.map((_, rank) => advance(rank));
    // A rank that waited for a later rank can still act in this step.
    const second = first.map((hasActed, rank) => !hasActed && advance(rank));
    hasProgress = [...first, ...second].includes(true);
    if (hasProgress) steps++;
  }
  const blocked = actions.flatMap((_, rank): BlockedRank[] => {
    const action = next(rank);
    const waitsFor = action === undefined ? undefined : missing(action);
    if (action === undefined || waitsFor === undefined || !('stage' in waitsFor)) return [];
    return [
      {
        rank,
        position: positions[rank] ?? 0,
        action: formatAction(action),
        waitsFor: formatAction(waitsFor),
        waitsForRank: rankOfStage[waitsFor.stage] ?? 0,
      },
    ];
  });
  return { steps, blocked };
}
