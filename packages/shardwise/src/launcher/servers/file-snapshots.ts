import { readFile, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { decodeSafetensors, encodeSafetensors, hostArray } from '@shardwise/core/extend';
import type { SnapshotStore } from '@shardwise/parameter-server';
import { diskFiles } from '../../checkpoint/places/disk-files.ts';

/** Keeps snapshots of a parameter server in one file. A new snapshot replaces the old one when it is on the disk. */
export function fileSnapshots(path: string): SnapshotStore {
  return {
    async write(head, arrays) {
      const named = arrays.map((bytes, index) => {
        return [String(index), hostArray('u8', [bytes.byteLength], bytes)] as const;
      });
      const next = `${path}.next`;
      await diskFiles.writeFile(next, [encodeSafetensors(Object.fromEntries(named), { head })]);
      await rename(next, path);
      await diskFiles.syncDirectory(dirname(path));
    },
    async read() {
      const file = await readFile(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined;
        throw error;
      });
      if (file === undefined) return undefined;
      const { tensors, metadata } = decodeSafetensors(file);
      const { head = '' } = metadata;
      const arrays = Object.keys(tensors).map((_, index) => {
        return new Uint8Array(tensors[String(index)]?.bytes ?? []);
      });
      return { head, arrays };
    },
  };
}
