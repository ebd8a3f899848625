import { type DecodedFormat, isGgufBlockName, type Tensor } from '@shardwise/core/extend';

/** How the elements of a weight are kept in blocks of bytes. */
export interface BlockFormat {
  readonly name: string;
  /** The elements of a block. */
  readonly elements: number;
  /** The bytes of a block. */
  readonly bytes: number;
  /** Shape: u8 [blocks, bytes] -> f32 [blocks, elements]. */
  readonly decode: (bytes: Tensor) => Tensor;
}

/** Whether a format is one of GGUF's, whose scales are among the bytes. */
export function isGgufFormat(format: BlockFormat): format is DecodedFormat {
  return isGgufBlockName(format.name);
}

/** The number that `width` bits of bytes are, from bit `shift` on. Shape: f32 N -> N. */
export function fieldOf(bytes: Tensor, shift: number, width: number): Tensor {
  const rest = shift === 0 ? bytes : bytes.div(2 ** shift).floor();
  if (shift + width === 8) return rest;
  return rest.sub(
    rest
      .div(2 ** width)
      .floor()
      .mul(2 ** width),
  );
}
