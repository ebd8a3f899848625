import { ConfigError } from '@shardwise/core/extend';
import {
  formatAction,
  readSchedule,
  type Schedule,
  simulateSchedule,
  type StageCosts,
} from '@shardwise/strategies';
import type { Timeline, TimelineEntry } from '../run-state/run-message.ts';

/** What the ranks of pipelines would have done in a step without delays. */
export interface SimulatedStages {
  /** The simulated actions of each rank that has stages. */
  readonly events: ReadonlyMap<number, readonly TimelineEntry[]>;
  /** The share of time in which ranks waited between the first and the last action, as measured. */
  readonly bubble: number;
  readonly simulatedBubble: number;
}

/**
 * Simulates what ranks of pipelines do in a step. Each rank does its actions in the order in which it did them. An
 * action takes the mean time of such actions of its stage, messages take no time, and nobody waits for anything else.
 * Returns null if the step has no actions of stages, or more than one pass of them.
 */
export function simulatedStages(timelines: readonly Timeline[]): SimulatedStages | null {
  const pipelines = pipelinesOf(
    timelines.map(({ rank, events }) => ({ rank, actions: actionsOf(events) })),
  );
  const events = new Map<number, readonly TimelineEntry[]>();
  const shares: { readonly bubble: number; readonly simulatedBubble: number }[] = [];
  for (const ranks of pipelines) {
    const schedule = scheduleOf(ranks);
    if (schedule === null) return null;
    const simulation = simulateSchedule(schedule, { stages: costsOf(schedule, ranks) });
    const all = ranks.flatMap(({ actions }) => actions);
    const beginMs = Math.min(...all.map(({ startMs }) => startMs));
    const endMs = Math.max(...all.map(({ startMs, durationMs }) => startMs + durationMs));
    const busyMs = all.reduce((sum, { durationMs }) => sum + durationMs, 0);
    for (const [index, { rank }] of ranks.entries()) {
      const simulated = simulation.ranks[index]?.actions ?? [];
      events.set(
        rank,
        simulated.map((each) => ({
          name: formatAction(each.action),
          category: 'stage',
          startMs: beginMs + each.startMs,
          durationMs: each.endMs - each.startMs,
          detail: 'simulated',
        })),
      );
    }
    shares.push({
      bubble: 1 - busyMs / (ranks.length * (endMs - beginMs)),
      simulatedBubble: simulation.bubble,
    });
  }
  if (shares.length === 0) return null;
  const mean = (of: (share: (typeof shares)[number]) => number): number =>
    shares.reduce((sum, share) => sum + of(share), 0) / shares.length;
  return {
    events,
    bubble: mean(({ bubble }) => bubble),
    simulatedBubble: mean(({ simulatedBubble }) => simulatedBubble),
  };
}

interface RankActions {
  readonly rank: number;
  /** The actions in the order in which they were done. */
  readonly actions: readonly TimelineEntry[];
}

/** The name of an action, such as `1F0`: a stage, a kind of action, and a microbatch. */
const actionName = /^(\d+)([FBIW])\d+$/;

/** Returns the actions of stages. Ranks of pipelines also do other things, such as passing on the loss. */
function actionsOf(events: readonly TimelineEntry[]): readonly TimelineEntry[] {
  return events
    .filter(({ category, name }) => category === 'stage' && actionName.test(name))
    .toSorted((a, b) => a.startMs - b.startMs);
}

/**
 * Groups ranks by pipeline. Ranks with the same stages belong to different pipelines, which lie along other axes of the
 * mesh. So the n-th rank of each stage belongs to the n-th pipeline.
 */
function pipelinesOf(ranks: readonly RankActions[]): readonly (readonly RankActions[])[] {
  const inStages = ranks.filter(({ actions }) => actions.length > 0);
  const byStages = Map.groupBy(inStages, ({ actions }) =>
    [...new Set(actions.map(({ name }) => partsOf(name).stage))].toSorted((a, b) => a - b).join(),
  );
  const classes = [...byStages.values()];
  return (classes[0] ?? []).map((_, index) => classes.flatMap((alike) => alike[index] ?? []));
}

function partsOf(name: string): { readonly stage: number; readonly letter: string } {
  const [, stage = '0', letter = ''] = actionName.exec(name) ?? [];
  return { stage: Number(stage), letter };
}

/** Returns null if the actions are not a single pass, as in a step that adds up the gradients of two batches. */
function scheduleOf(ranks: readonly RankActions[]): Schedule | null {
  const rows = ranks.map(({ actions }) => actions.map(({ name }) => name).join(','));
  try {
    return readSchedule(`${rows.join('\n')}\n`, { name: 'what ranks did' });
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

function costsOf({ stages }: Schedule, ranks: readonly RankActions[]): StageCosts[] {
  const all = ranks.flatMap(({ actions }) => actions);
  const groups = Map.groupBy(all, ({ name }) => {
    const { stage, letter } = partsOf(name);
    return `${stage}${letter}`;
  });
  const meanMs = (stage: number, letter: string): number => {
    const own = groups.get(`${stage}${letter}`) ?? [];
    return own.reduce((sum, { durationMs }) => sum + durationMs, 0) / Math.max(1, own.length);
  };
  return Array.from({ length: stages }, (_, stage) => ({
    forwardMs: meanMs(stage, 'F'),
    backwardMs: meanMs(stage, 'B'),
    inputGradientMs: meanMs(stage, 'I'),
    weightGradientMs: meanMs(stage, 'W'),
  }));
}
