import { elementCount, sizeAt } from '../../base/shape.ts';
import { BlockCodec, blockedLinear as blockedNode } from '../../graph/ops/blocked.ts';
import { composed, composedAll } from '../../realize/pending/small-values.ts';
import type { GgufBlockFormat } from '../../spec/op.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** A format of blocks, and how its blocks are decoded by operations on tensors. */
export interface DecodedFormat extends GgufBlockFormat {
  /** Shape: u8 [blocks, bytes] -> f32 [blocks, elements]. */
  readonly decode: (bytes: Tensor) => Tensor;
}

const codecs = new WeakMap<DecodedFormat, BlockCodec>();

/** The format as a parameter of the op. */
export function codecOf(format: DecodedFormat): BlockCodec {
  let codec = codecs.get(format);
  if (codec === undefined) {
    // A plan decodes leaves that stand for others, of which no value may be remembered.
    const decoded = (bytes: Tensor): Tensor =>
      composedAll(
        () => format.decode(bytes),
        () => [],
      );
    codec = new BlockCodec(format, (bytes) => decoded(new Tensor(bytes)).node);
    codecs.set(format, codec);
  }
  return codec;
}

/**
 * x Wᵀ with a weight that stays in its blocks. Devices with code for the format decode some rows of the weight at a time,
 * into memory of a cache. Others decode the whole weight, and multiply then. The bits are the same. The weight takes no part
 * in gradients.
 * Shape: x [.., K], weight u8 [O, bytes of a row] -> [.., O]. Throws ShapeError, and DTypeError for an x that is not f32.
 */
export function blockedLinear(x: Tensor, weight: Tensor, format: DecodedFormat): Tensor {
  return composed(() => {
    const leading = x.shape.slice(0, -1);
    const rows = x.ndim === 2 ? x : x.reshape([elementCount(leading), sizeAt(x.shape, x.ndim - 1)]);
    const result = new Tensor(blockedNode(rows.node, weight.node, codecOf(format)));
    return x.ndim === 2 ? result : result.reshape([...leading, sizeAt(weight.shape, 0)]);
  });
}
