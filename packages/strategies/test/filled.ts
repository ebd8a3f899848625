import { fromData, type nn, noGrad } from '@shardwise/core';

/** Gives the parameters of a model values that are the same on every rank and are not drawn. */
export function filled<M extends nn.Module>(model: M): M {
  let index = 0;
  noGrad(() => {
    for (const parameter of model.parameters()) {
      const values = Float32Array.from({ length: parameter.numel }, () => Math.sin(++index) / 2);
      parameter.assign(fromData(values, parameter.shape, 'f32'));
    }
  });
  return model;
}
