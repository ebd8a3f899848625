import { addressOf } from '../onnx/runtime/api.ts';

/** Allocates bytes that begin at a cache line and never move. */
export function alignedBytes(byteLength: number): Uint8Array<ArrayBuffer> {
  const lineBytes = 64;
  const bytes = new Uint8Array(new ArrayBuffer(byteLength + lineBytes));
  const start = (lineBytes - Number(addressOf(bytes) % BigInt(lineBytes))) % lineBytes;
  return bytes.subarray(start, start + byteLength);
}
