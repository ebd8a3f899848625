import type { TaskName } from './ranks/models.ts';
import type { StrategyName } from './ranks/reshard.ts';
import type { Resharding } from './resharding.ts';

/** The ranks and the strategies with which the two halves of a training run. */
export interface StrategyResharding {
  readonly task: TaskName;
  readonly saved: StrategyName;
  readonly savedOn: number;
  readonly loaded: StrategyName;
  readonly loadedOn: number;
}

export const url: URL = new URL('./ranks/reshard.ts', import.meta.url);

export function reshardingOf(each: StrategyResharding): Resharding {
  const { task, saved, savedOn, loaded, loadedOn } = each;
  return {
    saved: { ranks: savedOn, job: { task, strategy: saved } },
    loaded: { ranks: loadedOn, job: { task, strategy: loaded } },
  };
}
