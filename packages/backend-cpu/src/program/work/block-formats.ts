import type { GgufBlockFormat, GgufBlockName } from '@shardwise/core/spec';
import type { Packing } from './product-kinds.ts';

export const blockFormatNames: readonly GgufBlockName[] = [
  ...(['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0'] as const),
  ...(['Q4_K', 'Q5_K', 'Q6_K'] as const),
];

/** The sizes of the formats of blocks that machine code decodes. */
export const blockFormats: Readonly<
  Record<GgufBlockName, Pick<GgufBlockFormat, 'elements' | 'bytes'>>
> = {
  Q4_0: { elements: 32, bytes: 18 },
  Q4_1: { elements: 32, bytes: 20 },
  Q5_0: { elements: 32, bytes: 22 },
  Q5_1: { elements: 32, bytes: 24 },
  Q8_0: { elements: 32, bytes: 34 },
  Q4_K: { elements: 256, bytes: 144 },
  Q5_K: { elements: 256, bytes: 176 },
  Q6_K: { elements: 256, bytes: 210 },
};

/** Whether an operand is in blocks. */
export function isOfBlocks(packing: Packing): packing is GgufBlockName {
  return packing in blockFormats;
}
