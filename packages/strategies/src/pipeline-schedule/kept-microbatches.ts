import { computationsOf, type Schedule } from './schedule.ts';

/** How many microbatches a stage keeps activations of at one time. */
export interface KeptMicrobatches {
  /** All of them: behind the forward. */
  readonly whole: number;
  /** What the weight gradients need: behind the input gradients. */
  readonly rest: number;
}

/** For each stage of a schedule, the numbers of microbatches at the times when it keeps as many as at no other time. */
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
