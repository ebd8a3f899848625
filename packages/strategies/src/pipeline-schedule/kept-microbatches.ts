import { computationsOf, type Schedule } from './schedule.ts';

/** The number of microbatches whose activations a stage keeps at the same time. */
export interface KeptMicrobatches {
  /** The microbatches between their forward and their backward or input gradient. All of their activations are kept. */
  readonly whole: number;
  /** The microbatches between their input gradient and their weight gradient. Only what the latter needs is kept. */
  readonly rest: number;
}

/** Returns, for each stage of a schedule, all different pairs of numbers that occur while the schedule runs. */
export function keptMicrobatches(schedule: Schedule): readonly (readonly KeptMicrobatches[])[] {
  const kept = schedule.rankOfStage.map(() => ({ whole: 0, rest: 0 }));
  const seen = schedule.rankOfStage.map(() => new Map<string, KeptMicrobatches>());
  const computations = schedule.actions.flatMap((own) => own.flatMap(computationsOf));
  for (const { kind, stage } of computations) {
    const own = kept[stage];
    if (own === undefined) continue;
    if (kind === 'forward') own.whole++;
    else if (kind === 'weightGradient') own.rest--;
    else own.whole--;
    if (kind === 'inputGradient') own.rest++;
    seen[stage]?.set(`${own.whole} ${own.rest}`, { ...own });
  }
  return seen.map((counts) => [...counts.values()]);
}
