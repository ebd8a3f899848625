import type { Model, Module, Tensor } from '@shardwise/core/extend';
import type { PlannedModel } from './planned-model.ts';

/**
 * A model whose passes return their loss if they get targets, and in evaluation without targets the model's
 * output.
 */
export type PlannedModelWithLoss<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
> = PlannedModel<M, [...Inputs, ...Targets], Tensor> & Model<Inputs, Output>;
