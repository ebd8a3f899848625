import {
  blockedLinear,
  type DecodedFormat,
  functional,
  lowered,
  RecomputeRegion,
  type Tensor,
} from '@shardwise/core/extend';
import type { BlockFormat } from './block-format.ts';

/** A weight in the blocks of a file. Each row is whole blocks. */
export interface BlockedRows {
  /** Shape: u8 [rows, bytes of a row]. */
  readonly weight: Tensor;
  readonly format: DecodedFormat;
}

/** x Wᵀ, in the dtype of x or of autocast. Shape: x [.., columns] -> [.., rows]. */
export function blockedProduct(x: Tensor, blocks: BlockedRows): Tensor {
  const own = lowered(x);
  if (own.dtype === 'f32') return blockedLinear(own, blocks.weight, blocks.format);
  return functional.linear(own, decodedRows(blocks, own.dtype));
}

/** The numbers of the blocks. Backward passes decode them again instead of keeping them. Shape: -> [rows, columns]. */
export function decodedRows(blocks: BlockedRows, dtype: Tensor['dtype'] = 'f32'): Tensor {
  return new RecomputeRegion({ keeps: () => false }).run(() => decoded(blocks).to(dtype));
}

/** Some rows, of which only the blocks are decoded. Shape: indices i32 N -> f32 [N.., columns]. */
export function decodedRowsAt(indices: Tensor, { weight, format }: BlockedRows): Tensor {
  const taken = { weight: functional.embedding(indices.flatten(), weight), format };
  return decoded(taken).reshape([...indices.shape, columnsOf(taken)]);
}

/** The numbers of a row. */
export function columnsOf({
  weight,
  format,
}: {
  readonly weight: Tensor;
  readonly format: BlockFormat;
}): number {
  const [, rowBytes = 0] = weight.shape;
  return (rowBytes / format.bytes) * format.elements;
}

function decoded(blocks: BlockedRows): Tensor {
  const { weight, format } = blocks;
  const [rows = 0] = weight.shape;
  return format.decode(weight.reshape([-1, format.bytes])).reshape([rows, columnsOf(blocks)]);
}
