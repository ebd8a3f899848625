import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { MixtureOfExperts } from './mixture-of-experts.ts';

/** The MixtureOfExperts layers of a model, with their paths. */
export function expertLayers(model: Module): readonly (readonly [string, MixtureOfExperts])[] {
  return model
    .namedModules()
    .flatMap(([path, module]) =>
      module instanceof MixtureOfExperts ? [[path, module] as const] : [],
    );
}

/**
 * The balance and z-losses of the experts of a model, for the passes since the last call. Add it to your loss:
 * `loss.add(nn.auxiliaryLoss(model))`. If a step leaves it out, the next pass of the layer throws an error. Shape: [].
 */
export function auxiliaryLoss(model: Module): Tensor {
  return expertLayers(model).reduce((sum, [, layer]) => {
    const loss = layer.takeAuxiliaryLoss();
    return loss === null ? sum : sum.add(loss);
  }, zeros([]));
}
