import { type Node, type Parameter, reinterpret, withoutValues } from '@shardwise/core/extend';

/**
 * Runs `body` with parameters that all ranks have, in a region in which each rank works on its own part of the
 * activations. The gradients of the parameters are summed over the axis. It works with the parameters of any strategy,
 * whatever node they show at that time.
 */
export function withReplicatedParameters<T>(
  parameters: readonly Parameter[],
  axis: string,
  body: () => T,
): T {
  const shared = withoutValues(() =>
    parameters.map(
      (parameter) =>
        [parameter, reinterpret(parameter, axis, 'invariant', 'replicate').node] as const,
    ),
  );
  for (const [parameter, node] of shared) show(parameter, node);
  try {
    return body();
  } finally {
    for (const parameter of parameters) Reflect.deleteProperty(parameter, 'node');
  }
}

function show(parameter: Parameter, node: Node): void {
  Object.defineProperty(parameter, 'node', { value: node, configurable: true });
}
