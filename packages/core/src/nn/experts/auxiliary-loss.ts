import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module.ts';
import { MixtureOfExperts } from './mixture-of-experts.ts';

/** The layers of experts of a model, with their paths. */
export function expertLayers(model: Module): readonly (readonly [string, MixtureOfExperts])[] {
  return model
    .namedModules()
    .flatMap(([path, module]) =>
      module instanceof MixtureOfExperts ? [[path, module] as const] : [],
    );
}

/**
 * The balance and z-losses of a model's layers of experts, of the passes since it was last called: a part of the loss,
 * `loss.add(nn.auxiliaryLoss(model))`. A layer whose losses a step went by without throws in its next pass. Shape: [].
 */
export function auxiliaryLoss(model: Module): Tensor {
  return expertLayers(model).reduce((sum, [, layer]) => {
    const loss = layer.takeAuxiliaryLoss();
    return loss === null ? sum : sum.add(loss);
  }, zeros([]));
}
