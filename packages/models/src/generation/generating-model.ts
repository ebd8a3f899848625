import {
  ConfigError,
  currentSession,
  describeValue,
  type Module,
  type Plan,
  shardedAxes,
  type Tensor,
} from '@shardwise/core/extend';
import type { ForwardCall } from '../model/forward-call.ts';
import { PretrainedModel } from '../model/pretrained-model.ts';

/** A model that `parallelize` has returned. */
export interface ParallelPretrainedModel {
  readonly module: PretrainedModel;
  readonly plan: Plan;
  forward(inputs: Tensor, call: ForwardCall): Tensor;
}

/** A language model, or what `parallelize` made of one. */
export type GeneratingModel = PretrainedModel | ParallelPretrainedModel;

/** What generation needs to know of a model. */
export interface ModelFacts {
  readonly module: PretrainedModel;
  readonly vocabSize: number;
  /** The number of positions. */
  readonly contextLength: number;
  /** The tokens that end a text, as the config names them. */
  readonly eosTokenIds: readonly number[];
  /** Whether ranks of a pipeline have the layers. */
  readonly hasStages: boolean;
  /** The axes whose ranks have parts of parameters, and must therefore call the model equally often. */
  readonly sharedAxes: readonly string[];
  /** The axes among these whose ranks get the same rows. */
  readonly sameRowsAxes: readonly string[];
  /** The axes whose ranks get different rows of a batch. */
  readonly batchAxes: readonly string[];
}

/**
 * Returns what generation needs to know of a model. Throws ConfigError for a model that is no language model, and for one
 * of which ranks have parts and that is not what parallelize() returned.
 */
export function modelFacts(model: GeneratingModel): ModelFacts {
  const module = model instanceof PretrainedModel ? model : moduleOf(model);
  const layouts = module.parameters().map(({ part }) => part.layout);
  const hasStages = layouts.some(({ only }) => only !== undefined);
  const axes = layouts.flatMap((layout) => [
    ...shardedAxes(layout),
    ...(layout.only === undefined ? [] : [layout.only.axis]),
  ]);
  const batchAxes = 'plan' in model ? (model.plan.batch.dims[0] ?? []) : [];
  const sharedAxes = [...new Set(axes)].filter(
    (axis) => currentSession().mesh.group(axis).size > 1,
  );
  if (module === model && sharedAxes.length > 0) throw innerModel(module, sharedAxes);
  return {
    module,
    vocabSize: numberOf(module, 'vocabSize'),
    contextLength: numberOf(module, 'maxPositionEmbeddings', 'nPositions'),
    eosTokenIds: eosOf(module),
    hasStages,
    sharedAxes,
    sameRowsAxes: sharedAxes.filter((axis) => !batchAxes.includes(axis)),
    batchAxes,
  };
}

function moduleOf(model: { readonly module?: Module }): PretrainedModel {
  const { module } = model;
  if (module instanceof PretrainedModel) return module;
  throw new ConfigError({
    asked: `generate with ${describeValue(module ?? model)}`,
    found: 'no model of @shardwise/models',
    todo: 'Give a PretrainedModel, or what parallelize() made of one',
  });
}

function numberOf(module: PretrainedModel, ...keys: readonly string[]): number {
  for (const key of keys) {
    const value: unknown = Reflect.get(module.config, key);
    if (typeof value === 'number') return value;
  }
  throw new ConfigError(
    {
      asked: `generate with a ${module.architecture}`,
      found: `no ${keys.join(' or ')} in its config`,
      todo: 'Give a language model',
    },
    { keys },
  );
}

/** The eos_token_id of config.json, which does not change what a forward pass computes. */
function eosOf({ config: { rest = {} } }: PretrainedModel): readonly number[] {
  const { eos_token_id: own } = rest;
  const all: readonly unknown[] = Array.isArray(own) ? own : [own];
  return all.filter((id): id is number => typeof id === 'number');
}

function innerModel(module: PretrainedModel, axes: readonly string[]): ConfigError {
  return new ConfigError(
    {
      asked: `generate with a ${module.architecture}`,
      found: `a model of which the ranks of ${axes.join(', ')} have parts`,
      todo: 'Give what parallelize() returned',
    },
    { axes },
  );
}
