import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { namedCluster } from '../cluster/catalogue.ts';
import type { ClusterDescription } from '../cluster/cluster.ts';
import type { Workload } from '../cost/run-layout.ts';
import type { ModelDescription } from '../model/model-description.ts';
import { namedModel } from '../model/named-models.ts';
import type { Precision } from '../model/states.ts';
import { type SearchSpace, spaceRules } from './search-space.ts';

/** What a plan is to make least: the time of a step, the memory of a rank, or the price of a row. */
export type Goal = 'time' | 'memory' | 'money';

/** Options of `planTraining`. */
export interface PlanTrainingOptions {
  /** A description, or a name such as `gpt:175b`. */
  readonly model: ModelDescription | string;
  /** A description, or a name such as `128xh100`. */
  readonly cluster: ClusterDescription | string;
  /** The rows of the batch of a step, over all ranks. */
  readonly batch: number;
  /** The tokens of a row. Default: those of the model. */
  readonly sequence?: number;
  /** The memory that each rank may use. Default: all of the device. */
  readonly memoryBytes?: number;
  /** Default: `time`. */
  readonly goal?: Goal;
  /** Default: 16 bits with copies in f32. */
  readonly precision?: Precision;
  /** Default: everything that strategies can carry out. */
  readonly search?: SearchSpace;
  /** The number of layouts that are kept, the best first. Default: 10. */
  readonly keep?: number;
}

const planRules: OptionRules<PlanTrainingOptions> = {
  model: option.required(option.either(option.nonEmptyText, option.object<ModelDescription>())),
  cluster: option.required(option.either(option.nonEmptyText, option.object<ClusterDescription>())),
  batch: option.required(option.integer(1, 1e9)),
  sequence: option.integer(1, 1e9),
  memoryBytes: option.positive,
  goal: option.oneOf('time', 'memory', 'money'),
  precision: option.oneOf('f32', 'mixed', 'mixed, f32 gradients'),
  search: option.object<SearchSpace>(),
  keep: option.integer(1, 1000),
};

/** What a search has asked for, with all defaults. */
export interface SearchRequest {
  readonly model: ModelDescription;
  readonly cluster: ClusterDescription;
  readonly workload: Workload;
  readonly memoryBytes: number;
  readonly goal: Goal;
  readonly precision: Precision;
  readonly search: SearchSpace;
  readonly keep: number;
}

/** Fills in the defaults. */
export function requestOf(options: PlanTrainingOptions): SearchRequest {
  checkOptions('planTraining', options, planRules);
  const { search: space = {}, goal = 'time', precision = 'mixed', keep = 10, batch } = options;
  checkOptions('planTraining with search', space, spaceRules);
  const model = typeof options.model === 'string' ? namedModel(options.model) : options.model;
  const cluster =
    typeof options.cluster === 'string' ? namedCluster(options.cluster) : options.cluster;
  const own = model.kind === 'transformer' ? model.sequence : 1;
  const { sequence = own, memoryBytes = cluster.device.memoryBytes } = options;
  if (memoryBytes > cluster.device.memoryBytes) {
    throw new ConfigError(
      {
        asked: `a plan with ${memoryBytes / 1e9} GB for each rank`,
        found: `devices of ${cluster.device.memoryBytes / 1e9} GB`,
        todo: 'Ask for less, or name a cluster with other devices',
      },
      { memoryBytes, deviceBytes: cluster.device.memoryBytes },
    );
  }
  const workload = { batch, sequence };
  return { model, cluster, workload, memoryBytes, goal, precision, search: space, keep };
}
