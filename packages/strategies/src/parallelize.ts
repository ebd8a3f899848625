import {
  ConfigError,
  currentSession,
  describeValue,
  dtypes,
  type Model,
  type Module,
  type ParallelModel,
  type Plan,
  type Strategy,
} from '@shardwise/core/extend';
import { checkApplied, checkPlan } from './check-plan.ts';
import type { DataParallel, DataParallelStrategy } from './data-parallel/data-parallel.ts';
import type {
  DistributedDataParallel,
  DistributedDataParallelStrategy,
} from './distributed-data-parallel/distributed-data-parallel.ts';
import { parameterSpecs } from './parameter-specs.ts';
import type { ShardedModel, ShardedModelStrategy } from './sharding/sharded-model.ts';

/** How a strategy would lay the model out on this rank's mesh; print it with `explain`. Throws ConfigError for what is no strategy. */
export function planFor(model: Module, strategy: Strategy<Module>): Plan {
  requireStrategy(strategy);
  const bufferBytes = model
    .namedBuffers()
    .reduce((sum, [, { numel, dtype }]) => sum + numel * dtypes[dtype].bytes, 0);
  return { ...strategy.plan(parameterSpecs(model), currentSession().mesh.axes), bufferBytes };
}

/**
 * Plans and applies a strategy, and gives what that gives: a DistributedDataParallel for ddp, a ShardedModel
 * for zero and fsdp. A collective. Make optimizers after it: parameters may be others then. A type of
 * your own strategy's is that of `strategy.apply(planFor(model, strategy), model)`, which is the same but
 * for this: what the plan says to vary over ranks is marked here, so that a checkpoint keeps each rank's;
 * with parameters, buffers vary.
 */
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: DistributedDataParallelStrategy,
): Promise<DistributedDataParallel<M, Inputs, Output>>;
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: ShardedModelStrategy,
): Promise<ShardedModel<M, Inputs, Output>>;
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: DataParallelStrategy,
): Promise<DataParallel<M, Inputs, Output>>;
export function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: Strategy<Module>,
): Promise<ParallelModel<M, Inputs, Output>>;
export async function parallelize<M extends Module, Inputs extends readonly unknown[], Output>(
  model: M & Model<Inputs, Output>,
  strategy: Strategy<Module>,
): Promise<ParallelModel<M, Inputs, Output>> {
  const plan = planFor(model, strategy);
  checkPlan(plan);
  const parallel = await strategy.apply(plan, model);
  checkApplied(plan, model);
  markVarying(model, plan);
  return parallel;
}

function markVarying(model: Module, { parameters }: Plan): void {
  const axesOf = new Map(parameters.map(({ name, parameter }) => [name, parameter.varying ?? []]));
  for (const [name, parameter] of model.namedParameters()) {
    parameter.markVarying(axesOf.get(name) ?? []);
  }
  const axes = [...new Set([...axesOf.values()].flat())];
  for (const [, buffer] of model.namedBuffers()) buffer.markVarying(axes);
}

function requireStrategy(strategy: unknown): void {
  if (typeof strategy === 'object' && strategy !== null && 'plan' in strategy) return;
  const isFunction = typeof strategy === 'function' && strategy.name !== '';
  const name = isFunction ? strategy.name : 'ddp';
  throw new ConfigError(
    {
      asked: `a model to be trained by ${isFunction ? `the function ${name}` : describeValue(strategy)}`,
      found: 'no strategy',
      todo: isFunction
        ? `Call it: parallelize(model, ${name}())`
        : `Give what a function makes, as ddp(), zero({ stage: 2 }) or fsdp()`,
    },
    {},
  );
}
