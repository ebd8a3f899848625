import {
  type DimSharding,
  type DType,
  LayoutError,
  type ParameterSpec,
} from '@shardwise/core/extend';
import type { SharedProduct } from './adapted-product.ts';
import { evenSharding } from './even-sharding.ts';
import { blocksError, isInBlocks, requireParameter } from './module-spec.ts';
import type { ModuleSpec } from './parallel-style.ts';

/** The elements of a row that have a scale in common, as in bitsandbytes. */
const BLOCK_ELEMENTS = 64;

/** The sizes and the dtype of the product of a linear layer. */
export interface ProductSpec {
  readonly features: number;
  readonly inputs: number;
  readonly dtype: DType;
}

/**
 * Returns the weight of a linear layer. Shape: floats of 2 dims, or bytes [out, blocks of a row, bytes of a block] with the
 * scales of the blocks in `absmax` [out, blocks of a row]. Throws LayoutError for other weights.
 */
export function requireWeight(module: ModuleSpec, style: string): ParameterSpec {
  const weight = module.parameters.get('weight');
  if (weight === undefined || !isInBlocks(weight)) {
    return requireParameter(module, 'weight', 2, style);
  }
  if (weight.shape.length === 3 && module.parameters.has('absmax')) return weight;
  throw blocksError(module.path, weight, style);
}

/**
 * Returns how a weight in blocks and its scales are sharded, or null for a weight of floats. `heads`: as for evenSharding.
 * Throws LayoutError if whole blocks cannot be divided evenly.
 */
export function blockShardings(
  { path, parameters }: ModuleSpec,
  of: SharedProduct['of'],
  { size, style, heads }: { size: number; style: string; heads?: readonly number[] | undefined },
): readonly (readonly [string, DimSharding])[] | null {
  const weight = parameters.get('weight');
  if (weight === undefined || !isInBlocks(weight)) return null;
  const [, blocks = 0] = weight.shape;
  if (of === 'inputs' && blocks % size !== 0) {
    throw new LayoutError(
      {
        asked: `${style}() of the module '${path}' over ${size} ranks`,
        found: `rows of ${blocks} blocks of ${BLOCK_ELEMENTS} elements, none of which is cut`,
        todo: `Use a number of ranks that divides ${blocks}, or leave the layer out of quantizeModel (targetModules)`,
      },
      { path, style, size, blocks },
    );
  }
  const dim = of === 'outputs' ? 0 : 1;
  return ['weight', 'absmax'].flatMap((own) => {
    const parameter = parameters.get(own);
    if (parameter === undefined) return [];
    const { name, shape } = parameter;
    const sections = heads === undefined ? {} : { heads };
    return [[own, evenSharding({ name, shape, dim, size, ...sections })] as const];
  });
}

/** Returns the sizes of a product. That of a weight in blocks has the dtype of the bias, or f32. */
export function productOf(module: ModuleSpec, style: string, transposed: boolean): ProductSpec {
  const weight = requireWeight(module, style);
  const { productDtype } = module;
  if (isInBlocks(weight)) {
    const [features = 0, blocks = 0] = weight.shape;
    const dtype = productDtype ?? module.parameters.get('bias')?.dtype ?? 'f32';
    return { features, inputs: blocks * BLOCK_ELEMENTS, dtype };
  }
  const [features = 0, inputs = 0] = transposed ? weight.shape.toReversed() : weight.shape;
  return { features, inputs, dtype: productDtype ?? weight.dtype };
}
