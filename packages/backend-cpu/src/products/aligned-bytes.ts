import { addressOf } from '../onnx/runtime/api.ts';

/** Bytes that begin at a cache line, and stay where they are. */
export function alignedBytes(byteLength: number): Uint8Array<ArrayBuffer> {
  const lineBytes = 64;
  const bytes = new Uint8Array(new ArrayBuffer(byteLength + lineBytes));
  const start = (lineBytes - Number(addressOf(bytes) % BigInt(lineBytes))) % lineBytes;
  return bytes.subarray(start, start + byteLength);
}
