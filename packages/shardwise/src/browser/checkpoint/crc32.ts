/** The number of bytes that the main loop processes at a time. */
const SLICES = 8;
/** The polynomial of zlib with its bits reversed. */
const POLYNOMIAL = 0xedb88320;

/** Entry `256 * s + b` is what byte b contributes to the checksum if s bytes follow it. */
const table = new Int32Array(SLICES * 256);
for (let byte = 0; byte < 256; byte++) {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++)
    rest = (rest & 1) === 1 ? (rest >>> 1) ^ POLYNOMIAL : rest >>> 1;
  table[byte] = rest;
}
for (let index = 256; index < table.length; index++) {
  const before = at(index - 256);
  table[index] = at(before & 255) ^ (before >>> 8);
}

function at(index: number): number {
  return table[index] ?? 0;
}

/** Returns the CRC-32 of zlib. Browsers have no function for it. */
export function crc32(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const inSlices = bytes.byteLength - (bytes.byteLength % SLICES);
  let rest = -1;
  for (let offset = 0; offset < inSlices; offset += SLICES) {
    const first = rest ^ view.getInt32(offset, true);
    const second = view.getInt32(offset + 4, true);
    rest =
      at(0x700 + (first & 255)) ^
      at(0x600 + ((first >>> 8) & 255)) ^
      at(0x500 + ((first >>> 16) & 255)) ^
      at(0x400 + (first >>> 24)) ^
      at(0x300 + (second & 255)) ^
      at(0x200 + ((second >>> 8) & 255)) ^
      at(0x100 + ((second >>> 16) & 255)) ^
      at(second >>> 24);
  }
  for (let offset = inSlices; offset < bytes.byteLength; offset++) {
    rest = at((rest ^ view.getUint8(offset)) & 255) ^ (rest >>> 8);
  }
  return ~rest >>> 0;
}
