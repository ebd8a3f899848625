import {
  gradientHookError,
  type Node,
  Parameter,
  reinterpret,
  withoutValues,
} from '@shardwise/core/extend';
import { type ParameterField, withParametersIn } from '../modules/parameter-fields.ts';

/**
 * Runs `body` while the fields hold parameters that all ranks of the axis have and each uses for its own part of the
 * activations. Their gradients are summed over the axis.
 */
export function withReplicatedParameters<T>(
  fields: readonly ParameterField[],
  axis: string,
  body: () => T,
): T {
  if (fields.length === 0) return body();
  const known = new Map<Parameter, Parameter>();
  return withParametersIn(
    fields,
    (parameter) => {
      const own = known.get(parameter) ?? withoutValues(() => replicated(parameter, axis));
      known.set(parameter, own);
      return own;
    },
    body,
  );
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
