import type { ComputeAction } from './action.ts';
import { range } from './range.ts';
import type { StageEdge } from './schedule.ts';

/** A computation that another needs; `gradient` is done by whichever action makes the stage's input gradient. */
export interface Dependency {
  readonly of: 'forward' | 'gradient';
  readonly stage: number;
}

/** What a stage needs of other stages and of itself, for the same microbatch. */
export interface StageDependencies {
  readonly forward: readonly Dependency[];
  readonly gradient: readonly Dependency[];
}

export function dependenciesOf(edges: readonly StageEdge[], stages: number): StageDependencies[] {
  const all = range(stages).map((stage) => {
    const forward: Dependency[] = [];
    const gradient: Dependency[] = [{ of: 'forward', stage }];
    return { forward, gradient };
  });
  for (const { from, to, gradient } of edges) {
    all[to]?.forward.push({ of: 'forward', stage: from });
    if (gradient) all[from]?.gradient.push({ of: 'gradient', stage: to });
  }
  return all;
}

/** What a computation waits for; a weight gradient waits for the input gradient of its own stage. */
export function needsOf(
  { kind, stage }: ComputeAction,
  dependencies: readonly StageDependencies[],
): readonly Dependency[] {
  if (kind === 'weightGradient') return [{ of: 'gradient', stage }];
  return dependencies[stage]?.[kind === 'forward' ? 'forward' : 'gradient'] ?? [];
}

/** Whether the action makes the gradients of what its stage took. */
export function makesInputGradient(kind: ComputeAction['kind']): boolean {
  return kind === 'backward' || kind === 'inputGradient';
}
