// Decoders of GGUF's blocks to f32, on the host. `d` and `m` are numbers of f16. The formats are those of ggml-quants.c.

/** The number of elements of a small block. */
const QK = 32;
/** The number of elements of a large one, of the types whose names end in K. */
const QK_K = 256;

/** Decodes whole blocks. Shape: bytes [n · bytes of a block] -> values [n · elements of a block]. */
export type BlockDecoder = (bytes: Uint8Array<ArrayBuffer>, values: Float32Array) => void;

/** d, and 32 signed bytes q: values d q. */
export function decodeQ80(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 34, to += QK) {
    const scale = view.getFloat16(at, true);
    for (let index = 0; index < QK; index++) {
      values[to + index] = scale * view.getInt8(at + 2 + index);
    }
  }
}

/** d, and 16 bytes, each with the numbers q of elements i and i + 16 in its halves: values d (q - 8). */
export function decodeQ40(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 18, to += QK) {
    const scale = view.getFloat16(at, true);
    for (let index = 0; index < QK / 2; index++) {
      const both = bytes[at + 2 + index] ?? 0;
      values[to + index] = scale * ((both & 15) - 8);
      values[to + QK / 2 + index] = scale * ((both >> 4) - 8);
    }
  }
}

/** d, m, and 16 bytes as in Q4_0: values d q + m. */
export function decodeQ41(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 20, to += QK) {
    const scale = view.getFloat16(at, true);
    const least = view.getFloat16(at + 2, true);
    for (let index = 0; index < QK / 2; index++) {
      const both = bytes[at + 4 + index] ?? 0;
      values[to + index] = scale * (both & 15) + least;
      values[to + QK / 2 + index] = scale * (both >> 4) + least;
    }
  }
}

/** d, 32 bits that are the fifth ones of the numbers q, and 16 bytes as in Q4_0: values d (q - 16). */
export function decodeQ50(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 22, to += QK) {
    const scale = view.getFloat16(at, true);
    const high = view.getUint32(at + 2, true);
    for (let index = 0; index < QK; index++) {
      values[to + index] = scale * (fiveBits(bytes, at + 6, high, index) - 16);
    }
  }
}

/** d, m, and the numbers q as in Q5_0: values d q + m. */
export function decodeQ51(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 24, to += QK) {
    const scale = view.getFloat16(at, true);
    const least = view.getFloat16(at + 2, true);
    const high = view.getUint32(at + 4, true);
    for (let index = 0; index < QK; index++) {
      values[to + index] = scale * fiveBits(bytes, at + 8, high, index) + least;
    }
  }
}

function fiveBits(bytes: Uint8Array, at: number, high: number, index: number): number {
  const both = bytes[at + (index % (QK / 2))] ?? 0;
  return (index < QK / 2 ? both & 15 : both >> 4) + 16 * ((high >>> index) & 1);
}

/** d and m, eight pairs of scales s and t of 6 bits, and 128 bytes: values (d s) q - (m t), 32 with the same s and t. */
export function decodeQ4K(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  decodeWithMinima(bytes, values, 144, () => 0);
}

/** As Q4_K, with 32 bytes before the 128, of which bit j has the fifth bits of the j-th 32 elements. */
export function decodeQ5K(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  decodeWithMinima(bytes, values, 176, (at, part, index) => {
    return 16 * (((bytes[at + 16 + index] ?? 0) >> part) & 1);
  });
}

function decodeWithMinima(
  bytes: Uint8Array<ArrayBuffer>,
  values: Float32Array,
  blockBytes: number,
  fifthBit: (at: number, part: number, index: number) => number,
): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += blockBytes, to += QK_K) {
    const scale = view.getFloat16(at, true);
    const least = view.getFloat16(at + 2, true);
    const halves = at + blockBytes - QK_K / 2;
    for (let part = 0; part < 8; part++) {
      const [step, shift] = sixBits(bytes, at + 4, part);
      for (let index = 0; index < 32; index++) {
        const both = bytes[halves + (part >> 1) * 32 + index] ?? 0;
        const low = part % 2 === 0 ? both & 15 : both >> 4;
        values[to + part * 32 + index] =
          scale * step * (low + fifthBit(at, part, index)) - least * shift;
      }
    }
  }
}

/** The pair of scales of a part of a block: twelve bytes have eight pairs. */
function sixBits(bytes: Uint8Array, at: number, part: number): readonly [number, number] {
  const byte = (index: number): number => bytes[at + index] ?? 0;
  if (part < 4) return [byte(part) & 63, byte(part + 4) & 63];
  const both = byte(part + 4);
  return [(both & 15) + 16 * (byte(part - 4) >> 6), (both >> 4) + 16 * (byte(part) >> 6)];
}

/**
 * 128 bytes with the low halves and 64 with the two high bits of numbers q, 16 signed scales s, and d: values
 * d s (q - 32), 16 with the same s.
 */
export function decodeQ6K(bytes: Uint8Array<ArrayBuffer>, values: Float32Array): void {
  const view = viewOf(bytes);
  for (let at = 0, to = 0; at < bytes.byteLength; at += 210, to += QK_K) {
    const scale = view.getFloat16(at + 208, true);
    for (let index = 0; index < QK_K; index++) {
      // Two halves of 128 elements each have 64 bytes of low and 32 of high bits.
      const [half, place] = [index >> 7, index & 127];
      const both = bytes[at + half * 64 + (place & 63)] ?? 0;
      const low = place < 64 ? both & 15 : both >> 4;
      const high = ((bytes[at + 128 + half * 32 + (place & 31)] ?? 0) >> (2 * (place >> 5))) & 3;
      const step = view.getInt8(at + 192 + (index >> 4));
      values[to + index] = scale * step * (low + 16 * high - 32);
    }
  }
}

function viewOf(bytes: Uint8Array<ArrayBuffer>): DataView<ArrayBuffer> {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
