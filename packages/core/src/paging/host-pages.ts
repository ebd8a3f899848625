import type { PageStore } from './page.ts';

/** Pages in ordinary memory of this process, outside the device's. */
export function hostPages(): PageStore {
  return {
    write: async (_, bytes) => {
      const copy = bytes.slice();
      return { byteLength: copy.byteLength, read: async (target) => target.set(copy) };
    },
  };
}
