import koffi from 'koffi';

/** An address in the memory of this process. */
export type Address = bigint;

/** The address of the first byte of host memory. */
export function addressOf(bytes: Uint8Array): Address {
  return koffi.address(bytes);
}

/** Allocates bytes that begin at a cache line and never move. */
export function alignedBytes(byteLength: number): Uint8Array<ArrayBuffer> {
  const lineBytes = 64;
  const bytes = new Uint8Array(new ArrayBuffer(byteLength + lineBytes));
  const start = (lineBytes - Number(addressOf(bytes) % BigInt(lineBytes))) % lineBytes;
  return bytes.subarray(start, start + byteLength);
}
