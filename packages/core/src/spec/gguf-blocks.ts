/** The formats of GGUF's blocks, whose scales are among the bytes (ggml-quants.c). */
export type GgufBlockName =
  | ('Q4_0' | 'Q4_1' | 'Q5_0' | 'Q5_1' | 'Q8_0')
  | ('Q4_K' | 'Q5_K' | 'Q6_K');

/** How the elements of a weight are kept in blocks of bytes. */
export interface GgufBlockFormat {
  readonly name: GgufBlockName;
  /** The elements of a block. */
  readonly elements: number;
  /** The bytes of a block. */
  readonly bytes: number;
}

/** The sizes of the formats. */
export const ggufBlockFormats: Readonly<Record<GgufBlockName, GgufBlockFormat>> = {
  Q4_0: { name: 'Q4_0', elements: 32, bytes: 18 },
  Q4_1: { name: 'Q4_1', elements: 32, bytes: 20 },
  Q5_0: { name: 'Q5_0', elements: 32, bytes: 22 },
  Q5_1: { name: 'Q5_1', elements: 32, bytes: 24 },
  Q8_0: { name: 'Q8_0', elements: 32, bytes: 34 },
  Q4_K: { name: 'Q4_K', elements: 256, bytes: 144 },
  Q5_K: { name: 'Q5_K', elements: 256, bytes: 176 },
  Q6_K: { name: 'Q6_K', elements: 256, bytes: 210 },
};

/** Whether a name is that of one of these formats. */
export function isGgufBlockName(name: string): name is GgufBlockName {
  return Object.hasOwn(ggufBlockFormats, name);
}
