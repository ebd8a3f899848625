import type { ComputeAction } from '../actions/action.ts';
import { range, type StageEdge } from '../actions/schedule.ts';

/**
 * A computation that another one needs. `gradient` is the action that computes the stage's input gradient, whichever
 * kind it has.
 */
export interface Dependency {
  readonly of: 'forward' | 'gradient';
  readonly stage: number;
}

/** The computations of other stages, and of the stage itself, that a stage needs for the same microbatch. */
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

/** Returns what a computation waits for. A weight gradient waits for the input gradient of its own stage. */
export function needsOf(
  { kind, stage }: ComputeAction,
  dependencies: readonly StageDependencies[],
): readonly Dependency[] {
  if (kind === 'weightGradient') return [{ of: 'gradient', stage }];
  return dependencies[stage]?.[kind === 'forward' ? 'forward' : 'gradient'] ?? [];
}

/** Whether the action computes the gradients of the stage's inputs. */
export function makesInputGradient(kind: ComputeAction['kind']): boolean {
  return kind === 'backward' || kind === 'inputGradient';
}
