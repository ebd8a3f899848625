import {
  type DType,
  dtypes,
  formatShape,
  LayoutError,
  Linear,
  type Module,
  Parameter,
  type ParameterSpec,
} from '@shardwise/core/extend';
import type { ModuleSpec } from './parallel-style.ts';

/**
 * Returns a parameter that a style needs. Throws LayoutError if the module has none with this name and number of dims, and
 * for one in blocks of few bits.
 */
export function requireParameter(
  { path, parameters }: ModuleSpec,
  name: string,
  ndim: number,
  style: string,
): ParameterSpec {
  const parameter = parameters.get(name);
  if (parameter !== undefined && isInBlocks(parameter)) throw blocksError(path, parameter, style);
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

/** Whether a weight is kept in blocks of few bits. */
export function isInBlocks({ dtype }: { readonly dtype: DType }): boolean {
  return dtypes[dtype].kind !== 'float';
}

/** The error for a weight that was quantized, and whose bytes cannot be divided as the product is. */
export function blocksError(
  path: string,
  { name, dtype }: ParameterSpec,
  style: string,
): LayoutError {
  return new LayoutError(
    {
      asked: `${style}() of the module '${path}'`,
      found: `'${name}' in blocks of few bits (${dtype}), which have no rows and columns that ranks can divide`,
      todo: 'Divide the model by fsdp() or pipeline(), or quantize by quantizeModel only linear layers with a multiple of 64 inputs',
    },
    { path, name, style, dtype },
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

/** A module that computes a product with a weight, and may add a bias. */
export type LinearModule = Module & { readonly weight: Parameter; readonly bias: Parameter | null };

/**
 * Throws LayoutError if the module is not a Linear. One whose weight is transposed, or in blocks of few bits, is any
 * module with a weight and a bias.
 */
export function requireLinear(
  module: Module,
  path: string,
  style: string,
  transposed: boolean,
): LinearModule {
  const isOther = transposed || (isLinear(module) && isInBlocks(module.weight));
  if (!isOther) return requireModule(module, Linear, path, style);
  if (isLinear(module)) return module;
  throw new LayoutError(
    {
      asked: `${style}({ transposed: true }) of the module '${path}'`,
      found: `a ${module.constructor.name} without a weight and a bias`,
      todo: 'Use a style for modules of this kind',
    },
    { path, style, kind: module.constructor.name },
  );
}

function isLinear(module: Module): module is LinearModule {
  if (!('weight' in module && 'bias' in module)) return false;
  const { weight, bias } = module;
  return weight instanceof Parameter && (bias === null || bias instanceof Parameter);
}
