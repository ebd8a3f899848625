import type { OpenFile } from '../../checkpoint/checkpoint-files.ts';

/** A file of a browser, some of which is read at a time. */
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
