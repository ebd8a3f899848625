import type { Model, Module } from '@shardwise/core/extend';
import { countModelCosts, type ModelCostsOptions } from '@shardwise/strategies';
import type { ModulesDescription } from './model-description.ts';

/**
 * Describes any model by the lazy graph of a training pass. Nothing is computed, so inputs can be `zeros(shape)`. Pass
 * the inputs of the model, followed by the targets of the loss, as for `countModelCosts`.
 *
 * Throws ConfigError for a pass without a loss.
 */
export function describeModule<Inputs extends readonly unknown[]>(
  model: Module & Model<Inputs, unknown>,
  inputs: readonly [...Inputs, ...targets: unknown[]],
  options: ModelCostsOptions = {},
): ModulesDescription {
  const costs = countModelCosts(model, inputs, options);
  return { kind: 'modules', name: model.constructor.name, ...costs };
}
