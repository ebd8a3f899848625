import { formatShape, LayoutError, type Module, type ParameterSpec } from '@shardwise/core/extend';
import type { ModuleSpec } from './parallel-style.ts';

/**
 * Returns a parameter that a style needs. Throws LayoutError if the module has none with this name and number of dims.
 */
export function requireParameter(
  { path, parameters }: ModuleSpec,
  name: string,
  ndim: number,
  style: string,
): ParameterSpec {
  const parameter = parameters.get(name);
  if (parameter?.shape.length === ndim) return parameter;
  const found =
    parameter === undefined
      ? `the parameters ${[...parameters.keys()].join(', ') || '(none)'}`
      : `'${name}' of shape ${formatShape(parameter.shape)}`;
  throw new LayoutError(
    {
      asked: `${style}() of the module '${path}', by its '${name}' of ${ndim} dims`,
      found,
      todo: isOfExperts(parameters)
        ? "Experts' matrices are not cut; divide the experts: expertParallel({ axis: ['tp', 'ep'], sameTokens: ['tp'] })"
        : 'Use a style for modules of this kind',
    },
    { path, name, style },
  );
}

/** Whether the parameters are the matrices of `nn.Experts`. */
function isOfExperts(parameters: ModuleSpec['parameters']): boolean {
  return ['up', 'down'].every((name) => parameters.get(name)?.shape.length === 3);
}

/** Throws LayoutError if the module is not an instance of `kind`. */
export function requireModule<M extends Module>(
  module: Module,
  kind: abstract new (...args: never) => M,
  path: string,
  style: string,
): M {
  if (module instanceof kind) return module;
  throw new LayoutError(
    {
      asked: `${style}() of the module '${path}'`,
      found: `a ${module.constructor.name}, and the style is for ${kind.name}`,
      todo: 'Use a style for modules of this kind',
    },
    { path, style, kind: module.constructor.name },
  );
}
