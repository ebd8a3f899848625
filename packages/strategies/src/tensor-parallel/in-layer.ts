import { type Parameter, synchronously } from '@shardwise/core/extend';
import { StandInParameter } from '../parameters/stand-in-parameter.ts';
import { LayerParameter } from '../parameters/layer-parameter.ts';

/**
 * Runs the forward pass of a layer in which each rank computes a part. Inside `body`, the sharded ones among
 * `parameters` stand for this rank's parts. Throws ConfigError if the body returns a promise.
 */
export function inLayer<T>(parameters: readonly (Parameter | null)[], body: () => T): T {
  const layers = parameters.flatMap((parameter) => layerParameterOf(parameter) ?? []);
  for (const parameter of layers) parameter.enterLayer();
  try {
    return synchronously('the forward pass of a layer that ranks shard', body);
  } finally {
    for (const parameter of layers) parameter.leaveLayer();
  }
}

function layerParameterOf(parameter: Parameter | null): LayerParameter | null {
  if (parameter instanceof StandInParameter) return parameter.layerParameter;
  return parameter instanceof LayerParameter ? parameter : null;
}
