import type { OpenFile } from '../../checkpoint/places/checkpoint-files.ts';

/** Opens a file of the browser. Only the bytes that are asked for are read into memory. */
export function blobFile(blob: Blob): OpenFile {
  return {
    async read(bytes, byteOffset) {
      const part = await blob.slice(byteOffset, byteOffset + bytes.byteLength).arrayBuffer();
      bytes.set(new Uint8Array(part));
      return part.byteLength;
    },
    close: async () => {},
  };
}
