import { noGrad } from '../../graph/create-node.ts';
import { printing } from '../../print/inspect.ts';
import { withoutValues } from '../../realize/pending/small-values.ts';
import { randomState, setRandomState } from '../../random/keys.ts';
import { formatShape } from '../../base/shape.ts';
import { dtypes } from '../../spec/dtype.ts';
import { ConfigError, describeValue } from '../../spec/errors.ts';
import type { Model } from '../../spec/strategy.ts';
import { Module } from '../module/module.ts';
import { flopsOf } from '../../graph/flops-of.ts';
import { nodesSince } from './nodes-since.ts';
import { formatSummary } from './format-summary.ts';
import type { ModelSummary, ModuleSummary } from './model-summary.ts';
import { type ModuleCall, recordCalls } from './record-calls.ts';
import { nodesIn, tensorsIn } from './tensors-in.ts';

/**
 * A table of the modules of a model with the shapes of their results, their parameters, and the floating-point
 * operations of their forward passes. These are two for each product of two elements in matmul and conv2d, as
 * PyTorch's FlopCounterMode counts. It calls `forward` once, in evaluation mode and without gradients, restores the
 * random numbers, and computes no values, so inputs can be `zeros(shape)`. Without inputs it lists only parameters.
 * Throws ConfigError for a model that a strategy has wrapped or divided.
 */
export function summary<Inputs extends readonly unknown[]>(
  model: Module & Model<Inputs, unknown>,
  ...inputs: Inputs | []
): ModelSummary {
  requireWholeModel(model);
  const named = model.namedModules();
  const modules = named.map(([, module]) => module);
  const calls =
    inputs.length === 0
      ? new Map<Module, readonly ModuleCall[]>()
      : recordCalls(modules, () =>
          asInEvaluation(model, () => model.forward(...(inputs as Inputs))),
        );
  const flopsBetween = flopCounter([...calls.values()].flat());
  const flopsOfModule = (module: Module): number =>
    (calls.get(module) ?? []).reduce((sum, call) => sum + flopsBetween(call), 0);
  const rows = named.map(([path, module]): ModuleSummary => {
    const own = calls.get(module) ?? [];
    return {
      path,
      type: module.constructor.name,
      output: own[0] === undefined ? '' : shapesIn(own[0].output),
      calls: own.length,
      parameters: countElements(module),
      flops: own.length > 0 ? flopsOfModule(module) : flopsBelow(module, calls, flopsOfModule),
    };
  });
  const parameters = model.parameters();
  const result: ModelSummary = {
    modules: rows,
    parameters: countElements(model),
    trainedParameters: parameters.reduce((sum, p) => sum + (p.requiresGrad ? p.numel : 0), 0),
    parameterBytes: parameters.reduce((sum, p) => sum + p.numel * dtypes[p.dtype].bytes, 0),
    flops: rows[0]?.flops ?? 0,
  };
  return Object.defineProperties(result, prints);
}

const prints = printing<ModelSummary>(formatSummary);

function countElements(module: Module): number {
  return module.parameters().reduce((sum, { numel }) => sum + numel, 0);
}

/** The operations of the modules below a module that is not called itself, such as a list. */
function flopsBelow(
  module: Module,
  calls: ReadonlyMap<Module, readonly ModuleCall[]>,
  flopsOfModule: (module: Module) => number,
): number {
  return module.children.reduce((sum, child) => {
    const isCalled = (calls.get(child) ?? []).length > 0;
    return sum + (isCalled ? flopsOfModule(child) : flopsBelow(child, calls, flopsOfModule));
  }, 0);
}

/** Returns a function that counts the operations of the nodes that were made in a call. */
function flopCounter(calls: readonly ModuleCall[]): (call: ModuleCall) => number {
  const olderId = Math.min(...calls.map(({ firstId }) => firstId));
  const nodes = nodesSince(
    calls.flatMap(({ output }) => nodesIn(output)),
    olderId,
  );
  const counted = [...nodes]
    .map((node) => ({ id: node.id, flops: flopsOf(node) }))
    .filter(({ flops }) => flops > 0);
  return ({ firstId, lastId }) =>
    counted.reduce((sum, { id, flops }) => (id > firstId && id <= lastId ? sum + flops : sum), 0);
}

function asInEvaluation(model: Module, body: () => unknown): void {
  const modes = model.namedModules().map(([, module]) => [module, module.training] as const);
  const random = randomState();
  model.eval();
  try {
    withoutValues(() => noGrad(body));
  } finally {
    for (const [module, training] of modes) module.train(training);
    setRandomState(random);
  }
}

function requireWholeModel(model: unknown): asserts model is Module {
  if (!(model instanceof Module)) {
    const isWrapped =
      typeof model === 'object' &&
      model !== null &&
      'module' in model &&
      model.module instanceof Module;
    throw new ConfigError({
      asked: 'the summary of a model',
      found: `${describeValue(model)}, which is no module`,
      todo: isWrapped
        ? 'Pass its module: summary(model.module, …)'
        : 'Pass a module, and inputs of its forward',
    });
  }
  const part = model.namedParameters().find(([, { shardedOver }]) => shardedOver.length > 0);
  if (part === undefined) return;
  const [name, { shardedOver }] = part;
  throw new ConfigError(
    {
      asked: `the summary of ${model.constructor.name}`,
      found: `this rank has a part of parameter ${name}, the others lie along ${shardedOver.join(' and ')}`,
      todo: 'Ask for it before parallelize(), of the whole model',
    },
    { parameter: name, axes: shardedOver },
  );
}

function shapesIn(output: unknown): string {
  const list = tensorsIn(output).map(([name, { shape }]) =>
    name === '' || /^\d+$/.test(name) ? formatShape(shape) : `${name} ${formatShape(shape)}`,
  );
  return list.join(', ') || describeValue(output);
}
