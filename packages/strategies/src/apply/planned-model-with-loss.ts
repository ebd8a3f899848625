import type { Model, Module, Tensor } from '@shardwise/core/extend';
import type { PlannedModel } from './planned-model.ts';

/**
 * A model whose passes take targets after the inputs and return the loss. In evaluation without targets they return the
 * model's output.
 */
export type PlannedModelWithLoss<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
  Targets extends readonly unknown[],
> = PlannedModel<M, [...Inputs, ...Targets], Tensor> & Model<Inputs, Output>;
