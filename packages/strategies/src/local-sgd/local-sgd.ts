import {
  checkOptions,
  type MeshAxis,
  type ModelSpec,
  option,
  type OptionRules,
  type Strategy,
} from '@shardwise/core/extend';
import { outerPlan } from './outer-plan.ts';
import { OuterState } from './outer-state.ts';
import type { PlanContext } from '../plan/plan-context.ts';

/** Options of `localSgd`. */
export interface LocalSgdOptions {
  /** The number of updates that each rank makes by itself before parameters are averaged. */
  readonly every: number;
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
}

const optionRules: OptionRules<LocalSgdOptions> = {
  every: option.required(option.integer(1)),
  axis: option.axisName,
};

/** A strategy whose ranks train separately and meet after every few updates. */
export interface StrategyWithOuterSteps extends Strategy<PlanContext> {
  /** The state of the outer steps. Save it with the model, among `states`. */
  readonly outer: OuterState;
}

/**
 * Local SGD (Stich 2019). Each rank trains its own copy of the model on its part of the batch, with any optimizer. After
 * every few updates, all ranks go on from the mean of their parameters; the states of optimizers and the buffers stay with
 * their rank. A rank sends 1 / `every` of the bytes of `ddp`. Throws ConfigError for options out of range.
 */
export function localSgd(options: LocalSgdOptions): StrategyWithOuterSteps {
  checkOptions('localSgd', options, optionRules);
  const { every, axis = 'dp' } = options;
  const strategy = 'localSgd';
  const outer = new OuterState(strategy);
  const data = { strategy, axis, every, fragments: 1, state: outer } as const;
  return {
    specificationVersion: 1,
    name: strategy,
    outer,
    plan: (model: ModelSpec, axes: readonly MeshAxis[]) =>
      outerPlan(
        {
          ...data,
          fragmentSyncDelay: 0,
          fragmentUpdateAlpha: 0,
          bits: 32,
          aggregate: 'mean',
          faulty: 0,
          members: null,
          weighted: false,
          audit: null,
        },
        model,
        axes,
      ),
  };
}
