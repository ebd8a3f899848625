import type { ParameterSpec } from '@shardwise/core/extend';
import { blocksError, isInBlocks, requireLinear, requireParameter } from './module-spec.ts';
import type { ActivationSizes, ModuleKind, ModuleSpec } from './parallel-style.ts';

/** The elements of a row that have a scale in common, as in bitsandbytes. */
export const BLOCK_ELEMENTS = 64;

/**
 * Returns the weight of a linear layer. Shape: floats of 2 dims, or bytes [out, blocks of a row, bytes of a block] with the
 * scales of the blocks in `absmax` [out, blocks of a row]. Throws LayoutError for other weights.
 */
function requireWeight(module: ModuleSpec, style: string): ParameterSpec {
  const weight = module.parameters.get('weight');
  if (weight === undefined || !isInBlocks(weight)) {
    return requireParameter(module, 'weight', 2, style);
  }
  if (weight.shape.length === 3 && module.parameters.has('absmax')) return weight;
  throw blocksError(module.path, weight, style);
}

/** The linear layers. `transposed`: those whose weight is [in, out]. */
export function linearKind(style: string, transposed: boolean): ModuleKind {
  return {
    check(module, path) {
      requireLinear(module, path, style, transposed);
    },
    sizes: (module) => linearSizes(module, style, transposed),
    multiplies: true,
    optional: ['absmax', 'bias', 'lora_A.weight', 'lora_B.weight', 'lora_magnitude_vector'],
  };
}

/** Returns the sizes of a linear layer. The product of a weight in blocks has the dtype of the bias, or f32. */
function linearSizes(module: ModuleSpec, style: string, transposed: boolean): ActivationSizes {
  const weight = requireWeight(module, style);
  const { productDtype } = module;
  if (isInBlocks(weight)) {
    const [output = 0, blocks = 0] = weight.shape;
    const dtype = productDtype ?? module.parameters.get('bias')?.dtype ?? 'f32';
    return { input: blocks * BLOCK_ELEMENTS, output, dtype };
  }
  const [output = 0, input = 0] = transposed ? weight.shape.toReversed() : weight.shape;
  return { input, output, dtype: productDtype ?? weight.dtype };
}
