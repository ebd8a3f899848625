import { chainEdges, computationsOf, type Schedule, type StageEdge } from '../actions/schedule.ts';
import { checkSchedule } from '../check/check-schedule.ts';

/**
 * A slot for the activations that a stage keeps of a microbatch. They use it during the actions `from` to `to`
 * of their rank, both included.
 */
export interface ActivationSlot {
  readonly stage: number;
  readonly microbatch: number;
  readonly slot: number;
  readonly from: number;
  readonly to: number;
}

/** The slots in which one rank keeps its activations. */
export interface RankSlots {
  /** The number of slots that the rank needs. It is the most activations that it keeps at the same time. */
  readonly slots: number;
  /** The activations, in the order of the forwards. */
  readonly activations: readonly ActivationSlot[];
}

/**
 * Assigns to each stage and microbatch the lowest free slot of its rank, from its forward until its backward or weight
 * gradient.
 *
 * Throws ConfigError for a schedule that ranks cannot run.
 */
export function activationSlots(
  schedule: Schedule,
  edges: readonly StageEdge[] = chainEdges(schedule.stages),
): RankSlots[] {
  checkSchedule(schedule, edges);
  return schedule.actions.map((own) => {
    const isTaken: boolean[] = [];
    const kept = new Map<string, { slot: number; order: number; from: number }>();
    const activations: ActivationSlot[] = [];
    let forwards = 0;
    for (const [position, action] of own.entries()) {
      const computations = computationsOf(action);
      for (const { kind, stage, microbatch } of computations) {
        if (kind !== 'forward') continue;
        const free = isTaken.indexOf(false);
        const slot = free < 0 ? isTaken.length : free;
        isTaken[slot] = true;
        kept.set(`${stage} ${microbatch}`, { slot, order: forwards++, from: position });
      }
      for (const { kind, stage, microbatch } of computations) {
        const isLast =
          kind === 'backward' ||
          kind === 'weightGradient' ||
          (schedule.forwardOnly && kind === 'forward');
        const key = `${stage} ${microbatch}`;
        const activation = kept.get(key);
        if (!isLast || activation === undefined) continue;
        const { slot, order, from } = activation;
        isTaken[slot] = false;
        kept.delete(key);
        activations[order] = { stage, microbatch, slot, from, to: position };
      }
    }
    return { slots: isTaken.length, activations };
  });
}
