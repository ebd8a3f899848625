import {
  gradientHookError,
  type Module,
  type Node,
  Parameter,
  reinterpret,
  withoutValues,
} from '@shardwise/core/extend';
import { fieldsOf, withParametersIn } from '../modules/parameter-fields.ts';

/**
 * Runs `body`, a method of `layer`, in which each rank works on its own part of the activations with `parameters` that all
 * ranks have. The gradients of the parameters are summed over the axis.
 */
export function withReplicatedParameters<T>(
  layer: Module,
  parameters: readonly Parameter[],
  axis: string,
  body: () => T,
): T {
  const shared = withoutValues(
    () => new Map(parameters.map((parameter) => [parameter, replicated(parameter, axis)])),
  );
  const fields = fieldsOf(layer, new Set(parameters));
  return withParametersIn(fields, (parameter) => shared.get(parameter) ?? parameter, body);
}

/** Returns a parameter that expressions use differently on each rank of the axis. */
function replicated(parameter: Parameter, axis: string): Parameter {
  const { shape, dtype, part } = parameter;
  const { node } = reinterpret(parameter, axis, 'invariant', 'replicate');
  const placement = {
    part,
    dtype,
    read: (): Node => node,
    wholeOf: (own: Node): Node => parameter.placement?.wholeOf(own) ?? own,
    partOf: (whole: Node): Node => parameter.placement?.partOf(whole) ?? whole,
    hookError: gradientHookError,
  };
  return new Parameter(null, shape, { dtype, placement });
}
